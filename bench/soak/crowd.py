# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recorded processes: eight kinds that live long, some that live for some intervals, and input for them."""
import json
import os
import pathlib
import random
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests"))
from harness import Failure, Process, tool, wait_for  # pylint: disable=wrong-import-position

BASH = 'while :; do read -t 1 -r line; a="$a $RANDOM"; [ ${#a} -gt 2000 ] && a=; done'
SHELL = 'while :; do a="$a $$"; [ ${#a} -gt 2000 ] && a=; sleep 5; done'
SQL = ("CREATE TABLE IF NOT EXISTS t (i INTEGER PRIMARY KEY, b BLOB); INSERT INTO t (b) VALUES (randomblob(700)); "
       "DELETE FROM t WHERE i < (SELECT max(i) FROM t) - 100; SELECT count(*), sum(length(b)) FROM t;\n")
PYTHON = [os.path.realpath("/usr/bin/python3"), "-sSB"]
BIRTHS_AT_ONCE = "30"
# Percent of the crowd.
SHARES = {"bash": 18, "dash": 13, "python": 25, "redis": 10, "sqlite": 12, "busybox": 10, "musl": 8, "go": 4}


class Member:
    """A process that lives long."""

    def __init__(self, kind, pid, started_ns):
        self.kind, self.pid, self.started_ns = kind, pid, started_ns
        self.ended_ns = self.status = None
        self.into = self.out = None
        self.socket_path = self.connection = None
        self.buffer = b""

    def write(self, text):
        os.write(self.into, text.encode())

    def lines(self):
        """The lines that it has printed since the last call."""
        try:
            while more := os.read(self.out, 65536):
                self.buffer += more
        except BlockingIOError:
            pass
        *lines, self.buffer = self.buffer.split(b"\n")
        return [line.decode() for line in lines]

    def line(self, seconds=60):
        found = []
        wait_for(lambda: found.extend(self.lines()) or found, f"{self.kind}.{self.pid}: a line", seconds)
        return found[-1]

    def set_key(self, number):
        """Sets one of 200 keys of redis."""
        if not self.connection:
            self.connection = socket.socket(socket.AF_UNIX)
            self.connection.settimeout(20)
            self.connection.connect(self.socket_path)
        self.connection.sendall(b"SET key:%d %s\r\n" % (number % 200, b"v" * (300 + number % 500)))
        if not self.connection.recv(100).startswith(b"+OK"):
            raise Failure(f"redis.{self.pid} did not take a key")


class Grouped(Process):
    """It is in a control group from its exec on."""

    def __init__(self, argv, stderr_path, group, **options):
        def join():
            with open(group / "cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(os.getpid()))

        super().__init__(argv, stderr_path, preexec_fn=join, **options)


class Nursery(Grouped):
    """See nursery.py."""

    def __init__(self, argv, stderr_path, **options):
        super().__init__(argv, stderr_path, **options)
        self.endings = {}

    def hear(self):
        """The answer to an order; ends are put aside."""
        while True:
            answer = json.loads(self.line(60))
            if "pid" in answer:
                return answer["pid"]
            self.endings[answer["ended"]] = answer["at"], answer["status"]

    def hear_of_ends(self):
        """Reads all ends until now."""
        self.write("{}\n")
        self.hear()


class Crowd:
    """All that is in the group."""

    def __init__(self, bench, group, libraries, root, workloads):
        self.bench, self.root, self.workloads = bench, root, workloads
        self.environment = dict(os.environ, LD_LIBRARY_PATH=libraries, LC_ALL="C.UTF-8")
        self.nursery = bench.start([*PYTHON, os.path.join(HERE, "nursery.py")], kind=Nursery, group=group,
                                   env=self.environment)
        self.members = []
        self.living = {}  # by PID, those whose end the nursery has not reported yet
        self.number = 0
        self.random = random.Random(8)

    def program(self, name):
        """A copy of tests/workloads/holds by another name."""
        path = pathlib.Path(self.bench.path(name))
        if not path.exists():
            path.write_bytes(pathlib.Path(self.workloads, "holds").read_bytes())
            path.chmod(0o755)
        return str(path)

    def start(self, kind, argv, fed=False, heard=False, into="/dev/null", out=None, **environment):
        """Starts it in the group; fed and heard are by FIFOs."""
        self.number += 1
        member = Member(kind, 0, time.monotonic_ns())
        if fed:
            into = self.bench.path(f"in.{self.number}")
            os.mkfifo(into)
            member.into = os.open(into, os.O_RDWR)
        if heard:
            out = self.bench.path(f"out.{self.number}")
            os.mkfifo(out)
            member.out = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
        order = {"argv": argv, "env": {**self.environment, **environment}, "in": into, "out": out or "/dev/null"}
        self.nursery.write(json.dumps(order) + "\n")
        member.pid = self.nursery.hear()
        self.note_ends()  # an earlier process with this PID may have ended
        member.started_ns = time.monotonic_ns()
        self.members.append(member)
        self.living[member.pid] = member
        return member

    # ---- kinds ----

    def bash(self, **more):
        return self.start("bash", [tool("bash"), "-c", BASH], fed=True, **more)

    def dash(self, **more):
        return self.start("dash", ["/bin/sh", "-c", SHELL], **more)

    def python(self, **more):
        return self.start("python", [*PYTHON, os.path.join(HERE, "worker.py"), "idle"], **more)

    def work(self, **more):
        return self.start("work", [*PYTHON, os.path.join(HERE, "worker.py"), "work"], fed=True, heard=True, **more)

    def redis(self, **more):
        path = self.bench.path(f"redis.{self.number}")
        member = self.start("redis", [tool("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                                      "--appendonly", "no", "--dir", self.bench.folder], **more)
        member.socket_path = path
        return member

    def sqlite(self, **more):
        return self.start("sqlite", [tool("sqlite3"), "-batch", ":memory:"], fed=True, **more)

    def busybox(self, **more):
        return self.start("busybox", [tool("chroot"), self.root, "/bin/busybox", "sh", "-c",
                                      SHELL.replace("sleep", "busybox sleep")], **more)

    def musl(self, **more):
        return self.start("musl", [tool("chroot"), self.root, "/bin/musl_holds", "20001"], fed=True, **more)

    def go(self, **more):
        """Its heap is read from its own profile."""
        return self.start("go", [os.path.join(self.root, "heap")], fed=True, **more)

    def storm(self, **more):
        return self.start("storm", [os.path.join(self.workloads, "storm")], fed=True, heard=True, **more)

    def commuter(self, seconds):
        """It ends by itself. Of some, only the resident pages can be recorded: static, stripped, with an allocator of its own."""
        program = [os.path.join(self.root, "own_pages")] if self.number % 4 == 0 else [tool("sleep"), "600"]
        return self.start("commuter", [tool("timeout"), f"{seconds:.2f}", *program])

    def start_share(self, kinds, number):
        """One of each kind at least."""
        for kind in kinds:
            for _ in range(max(1, round(SHARES[kind] * number / 100))):
                getattr(self, kind)()

    def births(self, rate):
        """Starts a process that starts short-lived programs; its last line says how often each of them ran."""
        small, big = self.program("small"), self.program("big")
        chroot = f"{tool('chroot')} {self.root} /bin"
        turns = [f"{small} 1000 -", "/bin/sh -c :", f"{small} 1000 -", f"{chroot}/busybox true",
                 f"{small} 1000 -", f"{big} 100003 -", f"{small} 1000 -", "/bin/sh -c :", f"{small} 1000 -",
                 f"{chroot}/musl_holds 1000 -"]
        return self.start_births("births", rate, turns)

    def start_births(self, kind, rate, turns):
        return self.start(kind, [*PYTHON, os.path.join(HERE, "births.py"), str(rate), BIRTHS_AT_ONCE, *turns], fed=True,
                          heard=True)

    # ---- work and lives of the processes ----

    def of(self, kind):
        return [member for member in self.members if member.kind == kind]

    def feed(self, index):
        """Some of them, each second all of them once."""
        for member in self.of("sqlite")[index % 5::5]:
            member.write(SQL)
        for member in self.of("redis")[index % 5::5]:
            member.set_key(index)
        for member in self.of("go")[index % 5::5]:
            member.write("churn 200\n")

    def note_ends(self):
        for pid, (at, status) in self.nursery.endings.items():
            member = self.living.pop(pid)
            member.ended_ns, member.status = at, status
        self.nursery.endings.clear()

    def hear_of_ends(self):
        self.nursery.hear_of_ends()
        self.note_ends()

    def send_commuters(self, number, interval):
        """Starts missing commuters; each lives for one to four intervals."""
        self.hear_of_ends()
        for _ in range(number - sum(not member.ended_ns for member in self.of("commuter"))):
            self.commuter(self.random.uniform(1, 4) * interval)
