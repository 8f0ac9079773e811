#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How many rows a snapshot of a real program has: a distinct pair of traceback and domain is one row.

    real_rows.py ALLOCSNAP

Records Debian's programs from their start on, each with work that keeps memory, and asks the catalogue. Needs root.
A program that is not installed is left out, with a line.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

INTERVAL = "1s"
PYTHON = """import ast, decimal, email, http.server, inspect, json, sqlite3, time, xml.dom.minidom
kept = [json.loads('{"a": [1, 2, 3], "b": {"c": "text %d"}}' % i) for i in range(20000)]
time.sleep(1)
tree = ast.parse(open(inspect.__file__).read())
time.sleep(1)
database = sqlite3.connect(":memory:")
database.execute("create table t(a, b)")
database.executemany("insert into t values(?, ?)", ((i, str(i)) for i in range(20000)))
time.sleep(2)
"""
NGINX = """daemon off; master_process off; error_log {0}/error.log; pid {0}/pid; events {{}}
http {{ access_log off; gzip on; gzip_types *; server {{ listen 127.0.0.1:{1}; root {0}; }} }}"""
SUMS = """SELECT comm, count(*), min(row_nr), max(row_nr), max(count) FROM snapshot WHERE row_nr > 0 AND comm = ?
GROUP BY comm"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for_port(port, process):
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise RuntimeError(f"it has ended: {process.args}")


def quietly(*argv, **options):
    subprocess.run(list(map(str, argv)), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **options)


class Recording:
    """A program that `allocsnap run` starts."""

    def __init__(self, allocsnap, folder, *argv, options=()):
        self.process = subprocess.Popen([allocsnap, "run", "--quiet", "--compact", "--interval", INTERVAL, "-o", folder / "data",
                                         *options, "--", *map(str, argv)], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, pid=None):
        """At the program's end, or with a signal to it."""
        if pid:
            os.kill(pid, signal.SIGTERM)
        self.process.wait()


def record_python3(allocsnap, folder):
    Recording(allocsnap, folder, "/usr/bin/python3", "-c", PYTHON, options=("--domain", "malloc")).end()


def record_cc1(allocsnap, folder):
    body = "{ int r = 0; for (int i = 0; i < a; i++) switch (i % 7) { case 0: r += a; break; default: r = r * 31 + i; } return r; }"
    (folder / "large.c").write_text("".join(f"int f{i}(int a) {body}\n" for i in range(4000)), encoding="ascii")
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
    Recording(allocsnap, folder, cc1, "-quiet", "-O2", folder / "large.c", "-o", "/dev/null").end()


def record_redis(allocsnap, folder):
    port = free_port()
    recording = Recording(allocsnap, folder, "redis-server", "--port", port, "--save", "", "--appendonly", "no")
    wait_for_port(port, recording.process)
    quietly("redis-benchmark", "-p", port, "-q", "-n", 30000, "-r", 20000, "-t", "set,lpush,hset,sadd,zadd")
    quietly("redis-cli", "-p", port, "shutdown", "nosave")
    recording.end()


def record_nginx(allocsnap, folder):
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder, port), encoding="ascii")
    (folder / "file").write_bytes(os.urandom(20000))
    recording = Recording(allocsnap, folder, "nginx", "-p", folder, "-c", folder / "nginx.conf")
    wait_for_port(port, recording.process)
    quietly("ab", "-q", "-k", "-c", 50, "-t", 5, f"http://127.0.0.1:{port}/file")
    recording.end(int((folder / "pid").read_text()))


def record_postgres(allocsnap, folder):
    tools, home = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1], folder / "home"
    home.mkdir()
    shutil.chown(home, "postgres")
    folder.chmod(0o755)
    home_options = ["-h", home, "-p", 5432, "postgres"]
    quietly("runuser", "-u", "postgres", "--", tools / "initdb", "-D", home / "db", cwd=home)
    recording = Recording(allocsnap, folder, tools / "postgres", "-D", home / "db", "-k", home, "-c", "listen_addresses=",
                          options=("--follow-forks", "--user", "postgres"))
    while subprocess.run([tools / "pg_isready", *map(str, home_options[:4])], stdout=subprocess.DEVNULL, check=False).returncode:
        time.sleep(0.1)
    bench = "runuser", "-u", "postgres", "--", tools / "pgbench", *home_options[:4]
    quietly(*bench, "-i", "-s", 2, "postgres", cwd=home)
    quietly(*bench, "-c", 4, "-T", 8, "postgres", cwd=home)
    recording.end(int((home / "db/postmaster.pid").read_text().split()[0]))


PROGRAMS = {"python3": record_python3, "cc1": record_cc1, "redis-server": record_redis, "nginx": record_nginx,
            "postgres": record_postgres}


def print_rows(allocsnap, folder, name):
    quietly(allocsnap, "fleet", "index", "--catalogue", folder / "fleet.db", folder / "data")
    sizes = sorted(path.stat().st_size for path in (folder / "data").rglob("*.snap"))
    with contextlib.closing(sqlite3.connect(folder / "fleet.db")) as db:
        for comm, nr, least, most, blocks in db.execute(SUMS, (name,)):
            print(f"{comm:<13} {nr:>9} {least:>7} {most:>7} {blocks:>9} {sizes[-1] / 1000:>8.0f} kB", flush=True)


def main():
    allocsnap = sys.argv[1]
    print("program       snapshots   least    most    blocks   largest file")
    for name, record in PROGRAMS.items():
        with tempfile.TemporaryDirectory(prefix="allocsnap-rows.") as folder:
            try:
                record(allocsnap, pathlib.Path(folder))
            except (OSError, IndexError, subprocess.CalledProcessError) as error:
                print(f"{name}: left out, because {error}")
                continue
            print_rows(allocsnap, pathlib.Path(folder), name)


if __name__ == "__main__":
    main()
