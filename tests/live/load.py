# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs under load, which know how much they hold."""
import os
import socket
import threading
import time

from harness import Process, check, check_equal, tool, wait_for


class Load:
    """Steps of growth in a thread of its own. At any moment the program holds at least the `done` steps, which
    it has answered, and at most the `begun` ones, which it was asked for."""

    STEPS_MAX = 400  # a limit for a test that does not end it

    def __init__(self, step):
        self.step = step
        self.begun = self.done = 0
        self.error = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.stopping.is_set() and self.begun < self.STEPS_MAX:
                self.begun += 1
                self.step(self.done)
                self.done += 1
                time.sleep(0.01)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        self.thread.join(60)
        check(not self.thread.is_alive(), "the program does not answer any more")
        check(self.error is None, f"the program stopped answering: {self.error!r}")

    def snapshot(self, recording):
        """A snapshot, and how many steps it holds: (path, least, most)."""
        least = self.done
        path = recording.snapshot()
        return path, least, self.begun

    def two_snapshots(self, recording):
        """(old, new, least steps between, most steps between): a hundred of them."""
        wait_for(lambda: self.done >= 5 or self.error, "the load begins")
        old, old_least, old_most = self.snapshot(recording)
        wait_for(lambda: self.done >= old_most + 100 or self.error, "the load goes on", 60)
        new, new_least, new_most = self.snapshot(recording)
        check(new_least > old_most, f"no load between the snapshots: {self.error!r}")
        return old, new, new_least - old_most, new_most - old_least


class Sqlite(Process):
    """The shell, fed through stdin; a step inserts ROWS rows of ROW_BYTES."""

    ROWS = 50
    ROW_BYTES = 3000  # one row a page of 4096

    def ask(self, sql):
        self.write(sql + "\n")
        return self.line()

    def ready(self):
        check_equal(self.ask("CREATE TABLE t (i INTEGER PRIMARY KEY, b BLOB); SELECT 'ready';"),
                    "ready", "sqlite3")
        return self

    def step(self, _index):
        check_equal(self.ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                             f"LIMIT {self.ROWS}) INSERT INTO t (b) "
                             f"SELECT randomblob({self.ROW_BYTES}) FROM n; SELECT 'done';"),
                    "done", "sqlite3")

    def row_count(self):
        return int(self.ask("SELECT count(*) FROM t WHERE length(b) = %d;" % self.ROW_BYTES))

    @staticmethod
    def start_on(bench):
        return bench.start([tool("sqlite3"), "-batch", ":memory:"], kind=Sqlite).ready()


class Redis(Process):
    """A server on a unix socket of its own; a step sets KEYS keys of VALUE_BYTES."""

    KEYS = 50
    VALUE_BYTES = 3000

    def connects(self, path):
        """Between bind() and listen() the socket is there and refuses."""
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(10)
        try:
            self.connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            self.connection.close()
            return False
        return True

    def ready(self, path):
        wait_for(lambda: self.connects(path), "redis-server's socket")
        self.answers = self.connection.makefile("rb")
        check_equal(self.command(b"PING"), b"PONG", "redis")
        return self

    def send(self, *words):
        self.connection.sendall(b"*%d\r\n" % len(words) +
                                b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def answer(self):
        line = self.answers.readline().rstrip()
        if line[:1] != b"$":
            return line[1:]
        return self.answers.read(int(line[1:]) + 2)[:-2]

    def command(self, *words):
        self.send(*words)
        return self.answer()

    def key(self, step, i):
        return b"key:%06d:%04d" % (step, i)

    def step(self, index):
        for i in range(self.KEYS):
            self.send(b"SET", self.key(index, i), b"v" * self.VALUE_BYTES)
        for i in range(self.KEYS):
            check_equal(self.answer(), b"OK", "redis")

    def used_memory(self):
        for line in self.command(b"INFO", b"memory").splitlines():
            if line.startswith(b"used_memory:"):
                return int(line.split(b":")[1])
        return 0

    def kill(self):
        if hasattr(self, "answers"):
            self.answers.close()
            self.connection.close()
        super().kill()

    @staticmethod
    def object_name():
        """The file behind the name: a link to another of its names in Debian."""
        return os.path.realpath(tool("redis-server"))

    @staticmethod
    def start_on(bench, env=None):
        path = bench.path("redis.sock")
        argv = [tool("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                "--appendonly", "no", "--daemonize", "no", "--dir", bench.folder]
        return bench.start(argv, kind=Redis, env=env).ready(path)


PYTHON_PROGRAM = """
import sys
kept = []
print("ready", flush=True)
for line in sys.stdin:
    if line == "step\\n":
        kept.extend(bytes(3000) for _ in range(50))
        ["%d" % i for i in range(2000)]
    print(len(kept), sum(map(sys.getsizeof, kept)), flush=True)
"""


class Python(Process):
    """Debian's python3 with every object from malloc(); a step keeps 50 bytes objects."""

    def ready(self):
        check_equal(self.line(), "ready", "python3")
        return self

    def ask(self, command):
        """How many objects it keeps, and their bytes."""
        self.write(command + "\n")
        return tuple(map(int, self.line().split()))

    def step(self, _index):
        self.ask("step")

    @staticmethod
    def start_on(bench):
        return bench.start(["/usr/bin/python3", "-S", "-c", PYTHON_PROGRAM], kind=Python,
                           env=dict(os.environ, PYTHONMALLOC="malloc")).ready()
