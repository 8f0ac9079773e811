# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs, as Debian ships them, that wait until their profiler is there and then work.

Each repeats its work `factor` times; one repetition takes at least a tenth of a second.
"""
import atexit
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import peers

LONGEST = 60  # seconds until something is ready
IDLE_NS = 3000000  # of processor time in a tenth of a second


class TooLong(Exception):
    """It was ended before its work was done: its argument is the processor time until then."""


class Program:
    """Waits for its standard input, works on it, and ends."""

    name = None
    libraries = ("libc.so.6",)
    malloc_is_in = "libc.so.6"
    options = ()  # of allocsnap, to record it
    cannot = {}  # {way: why it cannot be measured}

    def __init__(self, work):
        self.work = work
        self.popen = None
        self.pid = None  # not popen's if a profiler has started it
        self.group = None

    def argv(self):
        raise NotImplementedError

    def environment(self):
        return {}

    def text(self, factor):
        """The text for its standard input."""
        raise NotImplementedError

    def start(self, environment, command=()):
        """Its PID, when it waits. command: a profiler's, which starts it. Its parent then is the profiler, which waits
        for its end: a control group has its processor time until then."""
        self.popen = subprocess.Popen([*command, *self.argv()], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      env=os.environ | self.environment() | environment)
        self.pid = peers.program_below(self.popen, command[0]) if command else self.popen.pid
        self.wait_until_idle()
        if command:
            self.group = Group()
            self.group.add(self.pid)
        return self.pid

    def cpu_ns(self):
        return self.group.cpu_ns() if self.group else peers.cpu_ns(self.pid)

    def wait_until_idle(self):
        """Waits until it uses next to no processor time; heaptrack's own thread never stands quite still."""
        deadline, seen = time.monotonic() + LONGEST, -IDLE_NS
        while (found := peers.cpu_ns(self.pid)) >= seen + IDLE_NS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not come to rest")
            seen = found
            time.sleep(0.1)

    def feed(self, factor):
        try:
            self.popen.stdin.write(self.text(factor))
            self.popen.stdin.close()
        except BrokenPipeError:
            pass  # it was ended

    def run(self, factor, limit_s):
        """The processor time of its work, in ns; it is cut off after that many seconds."""
        begun = self.cpu_ns()
        feeder = threading.Thread(target=self.feed, args=(factor,))
        feeder.start()
        is_late, status = self.wait(lambda: self.cpu_ns() > begun + limit_s * 1e9)
        feeder.join()
        taken = self.cpu_ns() - begun  # it is left to finish() to forget it
        if is_late:
            raise TooLong(taken)
        if status:
            raise RuntimeError(f"{self.name}: {self.popen.stderr.read().decode()[-200:]}")
        return taken

    def wait(self, is_late):
        """Until it has ended; whether that was because it was late, and its status."""
        was_late = False
        while not (ended := os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
            if not was_late and is_late():
                was_late = True
                self.kill()
            time.sleep(0.002)
        return was_late, ended.si_status

    def kill(self):
        if self.group:
            self.group.kill()
        self.popen.kill()

    def finish(self):
        self.kill()
        self.popen.wait()
        if self.group:
            self.group.remove()
        self.popen.stderr.close()
        self.popen.stdin.close()


class Sqlite(Program):
    """Rows into a database in memory, an index, and questions."""

    name = "sqlite3"

    def argv(self):
        return ["sqlite3", "-batch", ":memory:"]

    def text(self, factor):
        row = ("INSERT INTO item SELECT value, 'name-' || (value * 7919 % 100003), hex(value * 31) "
               f"FROM generate_series(1, {50000 * factor});\n")
        return ("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, body TEXT);\n" + row +
                "CREATE INDEX by_name ON item (name);\n"
                "SELECT count(*), max(upper(name) || lower(body)) FROM item;\n"
                "SELECT substr(name, 1, 7), count(*), group_concat(substr(body, 1, 2)) FROM item "
                "GROUP BY 1;\n").encode()


class Jq(Program):
    """A JSON document of half a MB, once or several times."""

    name = "jq"

    def __init__(self, work):
        super().__init__(work)
        numbers = random.Random(7)
        self.document = json.dumps([
            {"id": nr, "name": f"Item {nr * 7919 % 10007}", "price": numbers.random(),
             "tags": [f"tag{numbers.randrange(50)}" for _ in range(5)]}
            for nr in range(4500)]).encode() + b"\n"

    def argv(self):
        return ["jq", "-c", "[.[] | {id, name: (.name | ascii_downcase), tags: (.tags | sort | unique)}]"
                            " | group_by(.id % 7) | map(length)"]

    def text(self, factor):
        return self.document * factor


class Python(Program):
    """json and re, each object from malloc."""

    name = "python3"
    options = ("--domain", "malloc")
    SCRIPT = """
import json, re, sys
record = {"id": 7, "name": "a record", "tags": ["x%d" % nr for nr in range(20)], "parts": [
    {"key": nr, "text": "part %d of it" % nr} for nr in range(20)]}
for _ in range(int(sys.stdin.readline()) * 550):
    text = json.dumps(record)
    words = re.findall(r"[a-z]+", text)
    json.loads(text)["words"] = {word: words.count(word) for word in words}
"""

    def argv(self):
        return ["/usr/bin/python3", "-c", self.SCRIPT]

    def environment(self):
        return {"PYTHONMALLOC": "malloc"}

    def text(self, factor):
        return f"{factor}\n".encode()


class PythonObjects(Python):
    """The same, as it runs everywhere: small objects from pymalloc."""

    name = "python3, json and re"
    options = ()

    def environment(self):
        return {}


class PythonCompiler(PythonObjects):
    """Python's compiler, on a module of its library."""

    name = "python3, compile()"
    SCRIPT = """
import argparse, sys
with open(argparse.__file__, encoding="utf-8") as file:
    text = file.read()
for _ in range(int(sys.stdin.readline()) * 3):
    compile(text, "argparse.py", "exec")
"""


class PythonDeep(PythonObjects):
    """Objects that are freed at once, in functions that are 20 calls deep."""

    name = "python3, objects 20 calls deep"
    SCRIPT = """
import sys
def made(depth, number):
    if depth:
        return made(depth - 1, number)
    for i in range(number):
        b"%d" % i
made(20, int(sys.stdin.readline()) * 200000)
"""


class Perl(Program):
    """Hashes, strings and sorting."""

    name = "perl"
    SCRIPT = """
for my $round (1 .. <STDIN> * 25) {
    my %seen;
    for my $nr (1 .. 900) {
        my $key = "item-" . $nr * 7919 % 1009;
        push @{$seen{$key}}, join ",", map { $_ * $round } $nr .. $nr + 3;
    }
    my @sorted = sort { $a->[1] cmp $b->[1] } map { [$_, uc $seen{$_}[0]] } keys %seen;
    s/0/zero/g for map { $_->[1] } @sorted;
}
"""

    def argv(self):
        return ["perl", "-e", self.SCRIPT]

    def text(self, factor):
        return f"{factor}\n".encode()


class Gxx(Program):
    """cc1plus, g++'s compiler proper, on what <map> and <string> make of a few functions."""

    name = "g++"
    PART = """
namespace part_%d {
struct key { std::string text; int nr; bool operator<(const key &o) const { return nr < o.nr; } };
std::map<std::string, std::map<key, std::string>> all;
std::string find(const std::string &name) {
	std::map<key, std::string> &one = all[name];
	one[{name + "x", %d}] += name.substr(1);
	for (auto &[key, text] : one)
		if (key.text < text) return text + std::to_string(key.nr);
	return {};
}
}
"""

    def argv(self):
        program = subprocess.check_output(["g++", "-print-prog-name=cc1plus"], text=True).strip()
        return [program, "-quiet", "-std=c++20", "-fpreprocessed", "-o", "/dev/null", "-"]

    def text(self, factor):
        path = pathlib.Path(self.work) / f"{factor}.ii"
        if not path.exists():
            source = "#include <map>\n#include <string>\n" + "".join(
                self.PART % (nr, nr) for nr in range(1 + factor // 3))
            subprocess.run(["g++", "-std=c++20", "-E", "-P", "-x", "c++", "-", "-o", path],
                           input=source.encode(), check=True)
        return path.read_bytes()


class Redis(Program):
    """A server that is asked by redis-benchmark, by a socket in the file system."""

    name = "redis"
    libraries = ("libc.so.6", "libjemalloc.so.2")
    malloc_is_in = "libjemalloc.so.2"

    def argv(self):
        return ["redis-server", "--port", "0", "--unixsocket", self.socket(), "--save", "",
                "--appendonly", "no"]

    def socket(self):
        return str(pathlib.Path(self.work) / "redis.sock")

    def start(self, environment, command=()):
        pid = super().start(environment, command)
        deadline = time.monotonic() + LONGEST
        while not os.path.exists(self.socket()):
            if time.monotonic() > deadline:
                raise RuntimeError("redis-server has made no socket")
            time.sleep(0.01)
        self.wait_until_idle()
        return pid

    def text(self, factor):
        return b""

    def run(self, factor, limit_s):
        begun = self.cpu_ns()
        client = ["redis-benchmark", "-s", self.socket(), "-t", "set", "-n", str(18000 * factor),
                  "-r", "100000", "-d", "200", "-q"]
        with subprocess.Popen(client, stdout=subprocess.DEVNULL) as asking:
            while asking.poll() is None:
                if self.cpu_ns() > begun + limit_s * 1e9:
                    asking.kill()
                    asking.wait()
                    raise TooLong(self.cpu_ns() - begun)
                time.sleep(0.002)
        if asking.returncode:
            raise RuntimeError(f"redis-benchmark ended with {asking.returncode}")
        return self.cpu_ns() - begun

    def finish(self):
        self.popen.send_signal(signal.SIGTERM)
        self.popen.wait()
        super().finish()


class Postgres(Program):
    """A server with a process for each connection, under pgbench: transactions of the kind of TPC-B, without fsync.
    Each run begins with a copy of the same database. A control group has the processor time of all its processes."""

    name = "postgres"
    options = ("--follow-forks",)
    cannot = {name: "follows no forks" for name in ("heaptrack", "memleak", "memleak-bpfcc", "run --exact")}
    SETTINGS = ("fsync=off", "autovacuum=off", "jit=off", "shared_buffers=64MB", "checkpoint_timeout=1h",
                "max_wal_size=8GB", "listen_addresses=", "max_connections=10")
    CLIENTS = 2
    USER = "postgres"
    made = None  # the folder of the database that is copied

    def __init__(self, work):
        super().__init__(work)
        if not Postgres.made:
            Postgres.made = self.make()
        self.home = Postgres.made / "run"

    @staticmethod
    def tool(name):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not found:
            raise RuntimeError(f"no {name}: is postgresql installed?")
        return str(found[-1])

    @classmethod
    def make(cls):
        home = pathlib.Path(tempfile.mkdtemp(prefix="allocsnap-bench-postgres."))
        shutil.chown(home, cls.USER, cls.USER)
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        subprocess.run(["setpriv", "--reuid", cls.USER, "--regid", cls.USER, "--init-groups", cls.tool("initdb"), "-D",
                        home / "made", "-A", "trust", "-N"], cwd="/", stdout=subprocess.DEVNULL, check=True)
        server = cls.serve(home / "made", {})
        try:
            cls.wait_for_server(home / "made", server)
            subprocess.run([cls.tool("pgbench"), "-i", "-q", "-h", home / "made", "-U", cls.USER, "postgres"],
                           cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
        return home

    @classmethod
    def serve(cls, home, environment, group="/dev/null"):
        """Enters the control group as root, then runs the server as its user: one process all along."""
        argv = ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', group, "setpriv", "--reuid", cls.USER, "--regid", cls.USER,
                "--init-groups", "env", *(f"{name}={value}" for name, value in environment.items()),
                cls.tool("postgres"), "-D", home, "-k", home]
        for setting in cls.SETTINGS:
            argv += ["-c", setting]
        return subprocess.Popen(argv, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    @classmethod
    def wait_for_server(cls, home, server):
        deadline = time.monotonic() + LONGEST
        question = [cls.tool("pg_isready"), "-q", "-h", home, "-U", cls.USER]
        while subprocess.run(question, cwd="/", check=False).returncode:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("postgres does not answer")
            time.sleep(0.02)

    def start(self, environment, command=()):
        shutil.rmtree(self.home, ignore_errors=True)
        subprocess.run(["cp", "-a", self.made / "made", self.home], check=True)
        self.group = Group()
        self.popen = self.serve(self.home, environment, self.group.folder / "cgroup.procs")
        self.pid = self.popen.pid
        self.wait_for_server(self.home, self.popen)
        self.wait_until_idle()
        return self.popen.pid

    def text(self, factor):
        return b""

    def argv(self):
        return []

    def run(self, factor, limit_s):
        begun = self.group.cpu_ns()
        client = [self.tool("pgbench"), "-n", "-c", str(self.CLIENTS), "-t", str(350 * factor), "-h", self.home,
                  "-U", self.USER, "--random-seed=7", "postgres"]
        with subprocess.Popen(client, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") as asking:
            while asking.poll() is None:
                if self.group.cpu_ns() > begun + limit_s * 1e9:
                    asking.kill()
                    asking.wait()
                    raise TooLong(self.group.cpu_ns() - begun)
                time.sleep(0.005)
        if asking.returncode:
            raise RuntimeError(f"pgbench ended with {asking.returncode}")
        return self.group.cpu_ns() - begun

    def finish(self):
        if self.popen:
            self.popen.send_signal(signal.SIGINT)
            self.popen.wait()
            super().finish()
        elif self.group:
            self.group.remove()


class Group:
    """A control group that counts the processor time of its processes."""

    def __init__(self):
        self.folder, self.read = None, None
        for root, name, read in (("", "cpu.stat", self.read_v2), ("unified", "cpu.stat", self.read_v2),
                                 ("cpuacct", "cpuacct.usage", self.read_v1)):
            folder = pathlib.Path("/sys/fs/cgroup", root, f"allocsnap-bench.{os.getpid()}")
            with contextlib.suppress(OSError):
                folder.mkdir()
                if (folder / name).exists() and (folder / "cgroup.procs").exists():
                    self.folder, self.read = folder, read
                    return
                folder.rmdir()
        raise RuntimeError("no control group can be made")

    def read_v2(self):
        return int((self.folder / "cpu.stat").read_text(encoding="ascii").split()[1]) * 1000

    def read_v1(self):
        return int((self.folder / "cpuacct.usage").read_text(encoding="ascii"))

    def cpu_ns(self):
        return self.read()

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def kill(self):
        for pid in (self.folder / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def remove(self):
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)


PROGRAMS = (Redis, Sqlite, Jq, Python, Perl, Gxx, Postgres)
PYTHONS = (PythonObjects, PythonCompiler, PythonDeep)
