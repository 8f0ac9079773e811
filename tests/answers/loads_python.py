# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs in Python, as Debian ships them, with a planted leak."""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess

from harness import Process, Skip, check, children_of, wait_for
from loads import system_tool, wait_until_warm
from terminal import PLANTED

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
