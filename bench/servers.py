# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Requests a second of two servers under load: gunicorn with three workers, whose application leaks, and redis. Unrecorded,
unrecorded again, while `attach --inject=exact` records each process, and gunicorn with tracemalloc(1). Then the
answer of `leaks --inject=exact` of each, for 30 seconds; a list in redis grows meanwhile.

    servers.py ALLOCSNAP      as root

In turns; ratios are medians of the rounds' own ratios. Environment: BENCH_ROUNDS (5).
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import rounds  # pylint: disable=wrong-import-position

APPLICATION = '''
import flask
app = flask.Flask(__name__)
SEEN = []

@app.route("/")
def index():
    row = {"path": flask.request.path, "words": [str(nr) for nr in range(50)]}
    SEEN.append("x" * 600 + str(len(SEEN)))  # the leak
    return flask.jsonify(row)
'''
SECONDS = 3  # of load
LEAKS_SECONDS = 30
READY_SECONDS = 30


def wait_until(is_so, what):
    deadline = time.monotonic() + READY_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {what}")
        time.sleep(0.05)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


class Gunicorn:
    name = "gunicorn, 3 workers"
    ways = ("unrecorded", "unrecorded again", "exact", "tracemalloc(1)")

    def __init__(self, folder, way):
        pathlib.Path(folder, "app.py").write_text(APPLICATION, encoding="utf-8")
        more = {"PYTHONTRACEMALLOC": "1"} if way == "tracemalloc(1)" else {}
        self.popen = subprocess.Popen(["/usr/bin/python3", "-m", "gunicorn", "-w", "3", "-b", "127.0.0.1:18491", "app:app"], cwd=folder,
                                      env=os.environ | more, stderr=subprocess.DEVNULL)
        wait_until(lambda: len(self.pids()) == 3 and self.answers(), "gunicorn")

    def pids(self):
        return children(self.popen.pid)

    @staticmethod
    def answers():
        return subprocess.run(["curl", "-s", "http://127.0.0.1:18491/"], stdout=subprocess.DEVNULL, check=False).returncode == 0

    @staticmethod
    def load(seconds, **_leaks):
        done = subprocess.run(["ab", "-q", "-t", str(seconds), "-n", "1000000", "-c", "6", "http://127.0.0.1:18491/"], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        return float(re.search(r"Requests per second: +([0-9.]+)", done)[1])


class Redis:
    name = "redis"
    ways = ("unrecorded", "unrecorded again", "exact")

    def __init__(self, folder, _way):
        self.socket = f"{folder}/redis.sock"
        self.popen = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no"],
                                      stdout=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.socket), "redis")

    def pids(self):
        return [self.popen.pid]

    def load(self, seconds, leaks=False):
        """Each request has a key of many: most make a value, and drop another. The leak: a list that gets longer."""
        done = subprocess.run(["redis-benchmark", "-s", self.socket, "-q", "-c", "20", "-r", "100000", "-d", "100", "-t",
                               "lpush,set" if leaks else "set", "-n", str(60000 * seconds)],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        return float(re.findall(r"([0-9.]+) requests per second", done)[-1])


@contextlib.contextmanager
def server(kind, way):
    with tempfile.TemporaryDirectory() as folder:
        running = kind(folder, way)
        try:
            yield running
        finally:
            running.popen.terminate()
            running.popen.wait()


@contextlib.contextmanager
def recorded(allocsnap, pids):
    with tempfile.TemporaryDirectory() as folder:
        recorder = subprocess.Popen([allocsnap, "attach", *map(str, pids), "--inject=exact", "-i", "1s", "-o", folder],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for _ in pids:
                assert recorder.stdout.readline(), "no snapshot"
            yield
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.communicate()


def measure(allocsnap, kind, way):
    with server(kind, way) as running:
        running.load(1)
        if way != "exact":
            return running.load(SECONDS)
        with recorded(allocsnap, running.pids()):
            return running.load(SECONDS)


def leaks_of(allocsnap, kind):
    """The first rows of the answer, with load all the time."""
    with server(kind, "exact") as running:
        asked = subprocess.Popen([allocsnap, "leaks", str(running.pids()[0]), "--inject=exact", "--for", f"{LEAKS_SECONDS}s"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while asked.poll() is None:
            running.load(SECONDS, leaks=True)
        return asked.stdout.read()


def main():
    rounds.end_in_order()
    allocsnap, = sys.argv[1:]
    for kind in (Gunicorn, Redis):
        found = rounds.Samples()
        rounds.in_turns(found, {way: lambda _nr, way=way: measure(allocsnap, kind, way) for way in kind.ways},
                        rounds.rounds_wanted(5), rotates=True)
        print(f"{kind.name}: {found.median('unrecorded'):.0f} requests/s. {rounds.load()}")
        for way in kind.ways[1:]:
            print(f"  {way:<18}{found.median(way):7.0f}, {found.ratio(way, 'unrecorded'):.2f} of unrecorded")
        print(leaks_of(allocsnap, kind))


if __name__ == "__main__":
    main()
