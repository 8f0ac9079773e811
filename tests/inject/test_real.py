# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real servers, injected and ejected again and again while clients ask: each answer comes, and is right. Debian has no program
with Google's newer tcmalloc, which keeps lists of CPUs by restartable sequences: test_victims.py stands in for it."""
import contextlib
import hashlib
import http.client
import itertools
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time

from bench import ALLOCSNAP, LIBRARIES, PATIENCE_S, Process, injector
from harness import Law, Skip, check, check_equal, children_of, runs_core, wait_for
from harness.ports import reserve_ports
from harness.suite import for_each
from test_victims import check_same, take_out

CYCLES = 5 if runs_core() else 100
ATTACHES = 0 if runs_core() else 3
CLIENTS = 2
PAUSE_S = 0.002  # of a client, between two questions


def program(name, *others):
    """Debian's own, where another one may come first in PATH."""
    found = shutil.which(name, path=":".join((*others, "/usr/bin", "/usr/sbin")))
    if not found:
        raise Skip(f"no {name}")
    return found


# ---- clients: ask(number) -> answer, on a connection that must stay ----

def http_client(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(number):
        connection.request("GET", f"/{number}")
        answer = connection.getresponse()
        return answer.status, answer.read()
    connection.connect()
    connection.auto_open = 0  # a connection that the server has closed is an error
    return ask


def redis_client(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    connection.connect(path)
    answers = connection.makefile("rb")

    def ask(number):
        for words in ((b"SET", b"key", b"%d" % number * 500), (b"GET", b"key")):
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return answers.readline(), answers.read(int(answers.readline()[1:]) + 2)
    return ask


def line_client(argv, question, **more):
    """A program that answers each line by a line, as psql does."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **more)

    def ask(number):
        process.stdin.write(question.format(number=number))
        return process.stdout.readline()
    return process, ask


# ---- servers: (process, PIDs to inject, make_client, expected(number), its allocator) ----

def digest(number):
    return 200, hashlib.sha256(b"%d" % number * 1000).hexdigest().encode()


def start(bench, argv, **environment):
    environment.setdefault("LD_LIBRARY_PATH", bench.folder)
    process = Process(argv, **environment)
    bench.callback(process.kill)
    return process


def connects(make_client):
    with contextlib.suppress(OSError, http.client.HTTPException):
        make_client()
        return True
    return False


def redis(bench):
    path = os.path.join(bench.folder, "redis.sock")
    process = start(bench, [program("redis-server"), "--port", "0", "--unixsocket", path, "--save", "", "--dir", bench.folder])
    return process, [process.pid], lambda: redis_client(path), lambda number: (b"+OK\r\n", b"%d" % number * 500 + b"\r\n")


PYTHON = """
import hashlib, http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        answer = hashlib.sha256(self.path[1:].encode() * 1000).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def python(bench, **environment):
    port, = reserve_ports(1)
    process = start(bench, ["/usr/bin/python3", "-c", PYTHON, str(port)], PYTHONMALLOC="malloc", **environment)
    return process, [process.pid], lambda: http_client(port), digest


def tcmalloc(bench):
    """gperftools'."""
    return python(bench, LD_PRELOAD=LIBRARIES + "libtcmalloc.so.4")


NODE = """
const crypto = require("crypto"), http = require("http");
let turns = 0;
setInterval(() => Buffer.alloc(1000 + turns++ % 9000), 3);
const server = http.createServer((asked, answer) => setTimeout(() =>
    answer.end(crypto.createHash("sha256").update(asked.url.slice(1).repeat(1000)).digest("hex")), 1));
server.keepAliveTimeout = 0;
server.listen(+process.argv[2], "127.0.0.1");
"""


def node(bench):
    port, = reserve_ports(1)
    path = pathlib.Path(bench.folder, "server.js")
    path.write_text(NODE, encoding="ascii")
    process = start(bench, [program("node"), str(path), str(port)])
    return process, [process.pid], lambda: http_client(port), digest


JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.concurrent.Executors;
public class Server {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", asked -> {
            try {
                byte[] text = asked.getRequestURI().getPath().substring(1).repeat(1000).getBytes();
                byte[] answer = String.format("%064x", new BigInteger(1, MessageDigest.getInstance("SHA-256").digest(text))).getBytes();
                asked.sendResponseHeaders(200, answer.length);
                asked.getResponseBody().write(answer);
                asked.close();
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        });
        server.start();
    }
}
"""


def java(bench):
    port, = reserve_ports(1)
    path = pathlib.Path(bench.folder, "Server.java")
    path.write_text(JAVA, encoding="ascii")
    process = start(bench, [program("java"), "-Xmx64m", str(path), str(port)])
    return process, [process.pid], lambda: http_client(port), digest


NGINX = """
user root;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "$uri is asked for"; }} }}
}}
"""


def nginx(bench):
    """The worker is injected."""
    port, = reserve_ports(1)
    path = pathlib.Path(bench.folder, "nginx.conf")
    path.write_text(NGINX.format(folder=bench.folder, port=port), encoding="ascii")
    process = start(bench, [program("nginx"), "-p", bench.folder, "-c", str(path)])
    bench.callback(end_with_children, process)
    wait_for(lambda: children_of(process.pid), "nginx's worker")
    return process, [children_of(process.pid)[0][0]], lambda: http_client(port), lambda number: (200, b"/%d is asked for" % number)


def end_with_children(process):
    process.popen.send_signal(signal.SIGINT)
    process.popen.wait(PATIENCE_S)


def postgres(bench):
    """The sessions are injected, and the process that starts them."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if not found:
        raise Skip("no postgres")
    folder, bin_folder, user = os.path.join(bench.folder, "postgres"), found[-1].parent, pwd.getpwnam("postgres")
    as_user = [program("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    os.mkdir(folder)
    os.chown(folder, user.pw_uid, user.pw_gid)
    subprocess.run([*as_user, bin_folder / "initdb", "-D", folder + "/data", "--no-sync", "--locale=C"], cwd=folder, check=True,
                   capture_output=True)
    process = start(bench, [*as_user, str(bin_folder / "postgres"), "-D", folder + "/data", "-k", folder, "-c", "listen_addresses="])
    bench.callback(end_with_children, process)
    ready = [bin_folder / "pg_isready", "-q", "-h", folder]
    wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "postgres answers", PATIENCE_S)
    pids = [process.pid]

    def make_client():
        client, ask = line_client([*as_user, bin_folder / "psql", "-h", folder, "-Atq", "postgres"],
                                  "SELECT sum(i), md5(string_agg((i * {number})::text, ',')) FROM generate_series(1, 2000) i;\n",
                                  cwd=folder)
        bench.callback(client.kill)
        client.stdin.write("SELECT pg_backend_pid();\n")
        pids.append(int(client.stdout.readline()))
        return ask

    def expected(number):
        return f"2001000|{hashlib.md5(','.join(str(i * number) for i in range(1, 2001)).encode()).hexdigest()}\n"
    return process, pids, make_client, expected


SERVERS = {function.__name__: function for function in (redis, python, tcmalloc, node, java, nginx, postgres)}


# ---- the test ----

class Clients:
    """Clients that ask without end; the test can silence them for a while."""

    def __init__(self, make_client, expected):
        self.expected = expected
        self.errors, self.answered = [], 0
        self.may_ask, self.is_over = threading.Event(), threading.Event()
        self.may_ask.set()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(make_client(), nr), daemon=True) for nr in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, ask, nr):
        try:
            for number in itertools.count(nr * 1000000 + 1):
                if self.is_over.is_set():
                    return
                self.may_ask.wait()
                with self.lock:  # redis's clients have one key
                    found = ask(number)
                if found != self.expected(number):
                    self.errors.append(f"question {number}: {found!r}")
                self.answered += 1
                time.sleep(PAUSE_S)
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"question {number}: {error!r}")

    def go_on(self):
        before = self.answered
        wait_for(lambda: self.errors or self.answered > before + 10, "the server answers", PATIENCE_S, Law)
        check_equal(self.errors, [], "what clients have met", Law)

    @contextlib.contextmanager
    def quiet(self):
        self.may_ask.clear()
        with self.lock:
            time.sleep(PAUSE_S)
            yield
        self.may_ask.set()

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)
            check(not thread.is_alive(), "a client waits for its answer", Law)
        check_equal(self.errors, [], "what clients have met", Law)


def looks_of(process, pid):
    """A garbage collector or a compiler maps memory at any time."""
    process.pid = pid
    return {name: value for name, value in process.looks().items() if name != "mappings"}


@for_each(SERVERS, of_core=("redis",))
def test_server(bench, name):
    process, pids, make_client, expected = SERVERS[name](bench)
    wait_for(lambda: connects(make_client), name, PATIENCE_S)
    clients = Clients(make_client, expected)
    clients.go_on()
    for pid in pids[:1] + pids[-CLIENTS:] if len(pids) > CLIENTS else pids:
        with clients.quiet():
            before = looks_of(process, pid)
        said = injector("cycles", pid, CYCLES)
        assert said.startswith(f"cycles {CYCLES},"), said
        for _ in range(ATTACHES):
            done = subprocess.run([ALLOCSNAP, "attach", "--inject=16K", "-q", "-d", "1", "-o", bench.folder, str(pid)],
                                  capture_output=True, text=True, timeout=PATIENCE_S * 4, check=False)
            check_equal(done.returncode, 0, f"attach, which says {done.stderr!r}")
            clients.go_on()
        clients.go_on()
        take_out(process)
        with clients.quiet():
            check_same(before, looks_of(process, pid))
    clients.end()
    return f"{clients.answered} answers; {said.strip()}"
