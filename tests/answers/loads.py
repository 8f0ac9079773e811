# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs, with a planted leak and a load beside it."""
import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading

import harness
from harness import Process, Skip, check, check_equal, children_of, tool, wait_for
from harness.ports import reserve_ports
from load import Load, Redis
from terminal import ANSWERS, PLANTED


def system_tool(name):
    """Debian's own program, where another one may come first in PATH."""
    return shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin") or tool(name)


def build(bench, argv, seconds=120, **environment):
    """Compiles a planted program; without its compiler the task is skipped."""
    go = {"GOCACHE": bench.path("go-cache"), "CGO_ENABLED": "0", "GO111MODULE": "off", **environment}
    bench.run([system_tool(argv[0]), *argv[1:]], seconds=seconds, cwd=bench.folder,
              env={**os.environ, "HOME": bench.folder, **go})


# ---- C++ ------------------------------------------------------------------------------------------

def shopcache_path():
    path = os.path.join(ANSWERS, "shopcache")
    check(os.path.exists(path), f"{path} is not there: make test-answers builds it")
    return os.path.abspath(path)


def copied_shopcache(bench, name="shopcache"):
    path = bench.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return shutil.copy(shopcache_path(), path)


def stripped_shopcache(bench):
    """The program without names, and a folder with its debug file."""
    program, debug = copied_shopcache(bench, "bin/shopcache"), bench.path("debug")
    notes = bench.run([tool("readelf"), "-n", program])[0]
    build_id = notes.split("Build ID: ")[1].split()[0]
    folder = os.path.join(debug, ".build-id", build_id[:2])
    os.makedirs(folder)
    bench.run([tool("objcopy"), "--only-keep-debug", program, os.path.join(folder, build_id[2:] + ".debug")])
    bench.run([tool("strip"), program])
    return program


def child_of(process):
    """The PID of the only child of a process that starts one."""
    wait_for(lambda: harness.children_of(process.pid), f"a child of {process.popen.args[0]}")
    (pid, _), = harness.children_of(process.pid)
    return pid


def contained_shopcache(bench):
    """The PID of one with root, mounts and PIDs of its own, as in a container."""
    program = shopcache_path()
    root = bench.path("root")
    for word in bench.run([tool("ldd"), program])[0].split():
        if word.startswith("/"):
            os.makedirs(root + os.path.dirname(word), exist_ok=True)
            shutil.copy(word, root + word)
    shutil.copy(program, root + "/shopcache")
    unshare = [*harness.private_mounts(), "--pid", "--fork", "--kill-child"]
    pid = child_of(bench.start([*unshare, tool("chroot"), root, "/shopcache"]))
    wait_for(lambda: os.readlink(f"/proc/{pid}/exe").endswith("/shopcache"), "shopcache in its root")
    return pid


# ---- servers --------------------------------------------------------------------------------------

class GrowingRedis(Redis):
    """A step appends 20 elements to a list that nobody reads: the planted leak."""

    ELEMENT_BYTES = 200

    def step(self, index):
        for _ in range(20):
            self.send(b"RPUSH", b"journal", b"e" * self.ELEMENT_BYTES)
        for _ in range(20):
            self.answer()

    @staticmethod
    def start_on(bench):
        path = bench.path("redis.sock")
        argv = [tool("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                "--appendonly", "no", "--daemonize", "no", "--dir", bench.folder]
        return bench.start(argv, kind=GrowingRedis).ready(path)

    def start_load(self, bench):
        """Sets and reads a thousand keys without end."""
        argv = [tool("redis-benchmark"), "-s", bench.path("redis.sock"), "-t", "set,get", "-r", "1000", "-d", "100",
                "-c", "4", "-n", "1000000000", "-q"]
        return bench.start_raw(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_idle_redis(bench):
    argv = [system_tool("redis-server"), "--bind", "127.0.0.1", "--port", str(reserve_ports(1)[0]), "--save", ""]
    return bench.start([*argv, "--dir", bench.folder])


class EndlessLoad(Load):
    """Goes on until the task is over."""

    STEPS_MAX = 1 << 60


NGINX = """
user root;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


def start_nginx(bench):
    """The PID of the worker, and the address of its page."""
    nginx, port, folder = system_tool("nginx"), reserve_ports(1)[0], bench.path("nginx")
    os.makedirs(folder + "/www")
    pathlib.Path(folder, "www/index.html").write_text("<p>hello</p>\n" * 100, encoding="ascii")
    pathlib.Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, port=port), encoding="ascii")
    master = bench.start([nginx, "-p", folder, "-c", folder + "/nginx.conf"], kind=Interrupted)
    return child_of(master), f"http://127.0.0.1:{port}/"


class Interrupted(Process):
    """A server that ends its children if it is asked to end, and not if it is killed."""

    def kill(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
            try:
                self.popen.wait(60)
            except subprocess.TimeoutExpired:
                pass
        super().kill()


def postgres_folder():
    """Where the newest server's programs are."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if not found:
        raise Skip("postgres is not installed")
    return str(found[-1].parent)


class Postgres:
    """A server with a socket and a folder of its own; run as the user postgres, as it refuses to be root."""

    def __init__(self, bench):
        self.bench, self.folder, self.programs = bench, bench.path("postgres"), postgres_folder()
        user = pwd.getpwnam("postgres")
        os.chmod(bench.folder, 0o755)
        os.mkdir(self.folder)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.user = [tool("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.run("initdb", "-D", self.folder + "/data", "--no-sync", "--locale=C")
        argv = [self.programs + "/postgres", "-D", self.folder + "/data", "-k", self.folder, "-c", "listen_addresses="]
        self.server = bench.start([*self.user, *argv], kind=Interrupted, cwd=self.folder)
        ready = [self.programs + "/pg_isready", "-q", "-h", self.folder]
        wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "postgres answers", 60)
        self.run(system_tool("pgbench"), "-h", self.folder, "-i", "-q", "postgres")

    def run(self, program, *arguments):
        path = program if program.startswith("/") else f"{self.programs}/{program}"
        self.bench.run([*self.user, path, *arguments], seconds=60, cwd=self.folder)

    @staticmethod
    def is_session(pid):
        """Whether it serves a client."""
        return b"[local]" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()

    def start_bench(self, script):
        """Two clients that run a script without end."""
        path = self.bench.path("script.sql")
        pathlib.Path(path).write_text(script, encoding="ascii")
        argv = [*self.user, system_tool("pgbench"), "-h", self.folder, "-n", "-c", "2", "-T", "600", "-R", "200",
                "-f", path, "postgres"]
        return self.bench.start_raw(argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)


def start_when_recorded(pid, start):
    """Starts a load when a command has begun to record a process."""
    def wait():
        wait_for(lambda: harness.changed_code(pid), "the process is recorded", 60)
        start()
    threading.Thread(target=wait, daemon=True).start()


def wait_until_warm(process):
    """A planted program says so after its first turns."""
    check_equal(process.line(60), "warm", "the planted program")
    return process


# ---- runtimes -------------------------------------------------------------------------------------

def start_java(bench, name="Deflaters", heap="-Xmx64m"):
    build(bench, ["javac", "-d", bench.folder, str(PLANTED / f"{name}.java")])
    return wait_until_warm(bench.start([system_tool("java"), heap, "-cp", bench.folder, name]))


def start_python(bench, kind, **environment):
    return wait_until_warm(bench.start(["/usr/bin/python3", str(PLANTED / "objects.py"), kind],
                                       env=dict(os.environ, **environment)))


def start_node(bench, name="buffers.js"):
    return wait_until_warm(bench.start([system_tool("node"), str(PLANTED / name)]))


# ---- Python ----
#
# Programs in Python, as Debian ships them, with a planted leak.

PYTHON = "/usr/bin/python3"
ENVIRONMENT = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")


def need_module(name):
    done = subprocess.run([PYTHON, "-c", f"import {name}"], env=ENVIRONMENT, capture_output=True, check=False)
    if done.returncode:
        raise Skip(f"python3 has no {name}")


def start_with(bench, module, program):
    """A planted program that needs a module."""
    need_module(module)
    return wait_until_warm(bench.start([PYTHON, str(PLANTED / program)], env=ENVIRONMENT))


def visit(path, index):
    """A page of a server on a socket in the file system is asked for and read."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(60)
        asking.connect(path)
        asking.sendall(b"GET /item/%d HTTP/1.0\r\nHost: shop\r\n\r\n" % (index % 300))
        with asking.makefile("rb") as answer:
            check(re.match(rb"HTTP/1.[01] 200 ", answer.read()), "the server shows no page")


class Webshop(Process):
    """webshop.py."""

    path = None

    def visit(self, index):
        visit(self.path, index)


def start_webshop(bench):
    need_module("flask")
    path = bench.path("shop.sock")
    shop = bench.start([PYTHON, str(PLANTED / "webshop.py"), path], kind=Webshop, env=ENVIRONMENT)
    shop.path = path

    wait_for_page(path)
    return shop


def wait_for_page(path):
    def is_open():
        with contextlib.suppress(OSError):
            visit(path, 0)
            return True

    wait_for(is_open, "the server shows a page", 60)


def start_gunicorn(bench, application, worker_nr):
    """The PIDs of the workers, whose name is gunicorn, and the socket."""
    need_module("gunicorn")
    path = bench.path("gunicorn.sock")
    os.symlink(PYTHON, bench.path("gunicorn"))
    server = bench.start([bench.path("gunicorn"), "-m", "gunicorn", "-w", str(worker_nr), "-b", "unix:" + path, "--chdir", str(PLANTED),
                          application], env=ENVIRONMENT)
    wait_for_page(path)
    wait_for(lambda: len(children_of(server.pid)) == worker_nr, "the workers")
    return [pid for pid, _ in children_of(server.pid)], path


class CommandServer(Process):
    """`hg serve --cmdserver pipe`: each answer is in pieces, with a letter for the channel and a length."""

    def piece(self):
        channel, size = struct.unpack(">cI", self.popen.stdout.read(5))
        return channel, self.popen.stdout.read(size)

    def run_command(self, _index):
        words = b"log\0-l\0" b"3"
        self.popen.stdin.write(b"runcommand\n" + struct.pack(">I", len(words)) + words)
        self.popen.stdin.flush()
        channel, text = self.piece()
        while channel != b"r":
            channel, text = self.piece()
        check(text == b"\0\0\0\0", "hg log fails")


def start_mercurial(bench):
    hg, repository = system_tool("hg"), bench.path("repository")
    hg = [hg, "--config", "ui.username=shop", "-R", repository]
    bench.run([system_tool("hg"), "init", repository], env=dict(ENVIRONMENT, HGRCPATH=""))
    for number in range(5):
        pathlib.Path(repository, "list").write_text(f"version {number}\n", encoding="ascii")
        bench.run([*hg, "commit", "-A", "-m", f"version {number}"], env=dict(ENVIRONMENT, HGRCPATH=""))
    server = bench.start([*hg, "--config", f"extensions.hg_keeps={PLANTED / 'hg_keeps.py'}", "serve", "--cmdserver", "pipe"],
                         kind=CommandServer, env=dict(ENVIRONMENT, HGRCPATH=""))
    check(server.piece()[0] == b"o", "hg greets")
    server.run_command(0)
    return server


def start_ansible(bench):
    """A play of many tasks; each item of a loop is a result."""
    folder = bench.path("play")
    os.makedirs(folder + "/plugins")
    shutil.copy(PLANTED / "ansible_keeps.py", folder + "/plugins")
    tasks = '    - debug: {msg: "step {{ item }}"}\n      loop: "{{ range(20) | list }}"\n' * 2000
    pathlib.Path(folder, "play.yml").write_text(
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n" + tasks, encoding="ascii")
    pathlib.Path(folder, "ansible.cfg").write_text(
        "[defaults]\ncallback_plugins = plugins\ncallbacks_enabled = ansible_keeps\nlocalhost_warning = false\n", encoding="ascii")
    with open(bench.path("play.log"), "wb") as log:
        play = bench.start_raw([PYTHON, system_tool("ansible-playbook"), "play.yml"], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log, env=dict(ENVIRONMENT, HOME=folder))
    wait_for(lambda: b"step 5" in pathlib.Path(bench.path("play.log")).read_bytes(), "the play begins", 120)
    return play
