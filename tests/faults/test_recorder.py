# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings of a program that makes and frees blocks all the time. Snapshots are compared by what they must have: the
function that made the blocks, or losses."""
import collections
import contextlib
import ctypes
import itertools
import json
import os
import signal
import subprocess
import threading
import time

import harness
from harness import ALLOCSNAP, changed_places, strangers_probes
from faults import HEAD, MEET, ONCE, SIGNAL, SILENT, STEP, Fault, Runs, Scenario, Site, faults_of, try_all

MARKS = {"alone"}
READINGS = 16  # of the wall clock, at most
WORKLOADS = os.environ["WORKLOADS"]


class Target:
    """A program whose blocks 0 to 99 are made and freed in turn."""

    def __init__(self):
        self.popen = subprocess.Popen([f"{WORKLOADS}/blocks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.popen.pid
        self.popen.stdout.readline()
        self.answers = 0
        self.order = ""  # the next one
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        try:
            for i in itertools.count():
                for order in filter(None, (self.order, f"drop {i % 100} 1", f"make {i % 100} 1 64")):
                    self.popen.stdin.write(order.encode() + b"\n")
                    self.popen.stdin.flush()
                    self.popen.stdout.readline()
                self.order = ""
                self.answers = i
                time.sleep(0.001)
        except OSError:
            pass  # it has ended, and lives() says so

    def lives(self):
        """Whether it still answers."""
        before = self.answers
        for _ in range(500):
            if self.popen.poll() is not None or self.answers > before + 2:
                break
            time.sleep(0.02)
        return self.popen.poll() is None and self.answers > before + 2

    def is_unchanged(self):
        """Other recordings on this machine may have breakpoints of their own in it."""
        for _ in range(100):
            before, found = strangers_probes(), changed_places(self.pid)
            if not found - before - strangers_probes():
                return True
            time.sleep(0.05)
        return False

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self.thread.join()


class Recordings(Runs):
    """Their target goes on from one to the next, unless one harms it."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.target = Target()
        self.set_command()
        self.stdin = self.folder / "orders"  # of a program that is run
        self.stdin.write_text("make 0 100 64\ndrop 0 50\nquit\n")

    def set_command(self):
        self.command = [str(self.target.pid) if word == "PID" else word for word in self.scenario.command]

    def __exit__(self, *failure):
        self.target.end()
        super().__exit__(*failure)

    def replace_target(self):
        self.target.end()
        self.target = Target()
        self.set_command()

    def lives(self):
        return self.target.lives()

    def run_in(self, folder):
        outcome = super().run_in(folder)
        lives = self.lives()
        harm = "its target has ended" if not lives else "" if self.target.is_unchanged() else "a probe is left"
        if harm:
            self.replace_target()
        if lives and any("the sampler stays in process" in line and "takes it out" in line for line in outcome.err):
            harm = ""  # it cannot be taken out now, which is said with the next step
        return outcome._replace(finding=harm or outcome.finding)

    def comparable(self, folder, answer, made):
        kinds = sorted((os.path.splitext(name)[1], self.what_it_has(folder / name)) for name in made)
        return str((bool(answer), kinds)).encode(), {f"{i}{kind}": b"" for i, (kind, _) in enumerate(kinds)}

    @staticmethod
    def what_it_has(path):
        done = subprocess.run([ALLOCSNAP, "stats", path], capture_output=True, check=False)
        return "the function" if b"make_here" in done.stdout else "losses" if b"losses: " in done.stderr else "neither"

    def judge(self, outcome):
        """A snapshot that names its losses says what it lacks."""
        verdict = super().judge(outcome)
        return "said" if verdict == SILENT and b"losses" in outcome.out else verdict


class Signalled(Recordings):
    """It has written a snapshot, or says why it has not, or the signal has ended it before it began."""

    def judge(self, outcome):
        if outcome.finding or not outcome.fired:
            return super().judge(outcome)
        if any(name.endswith(".snap") for name in outcome.files):
            return "said"
        says = collections.Counter(outcome.err) - collections.Counter(self.usual.err)
        return "refused" if says or outcome.status < 0 else f"ends with {outcome.status}, without a snapshot and without a word"


tried = set()  # sites, by tests before in this process


def once(site, calls):
    """A recording takes seconds: a site fails once, and a site of several commands in the first of them."""
    if site in tried:
        return
    tried.add(site)
    yield next(faults_of(site, calls))


def records(command):
    return Scenario((), (*command.split(), "-o", "made")),


def runs(options):
    return Scenario((), ("run", "-i", "10s", "-o", "made", *options.split(), "--", f"{WORKLOADS}/blocks")),


@harness.rows({
    "attach": records("attach PID -n 2 -i 250ms"),
    "run": runs(""),
    "run_exact": runs("--exact"),
    "record": records("record --pid PID -n 2 -i 250ms --max-disk 1M --metrics metrics.prom"),
    "inject": records("attach PID --inject=64 -n 2 -i 250ms"),
    "leaks": records("leaks PID --for 4s"),
})
def test_recorder(_bench, scenario):
    return try_all(scenario, Recordings, once)


numbers = itertools.count()


def signalled(site, calls):
    """A signal at each fifth site, amid its calls."""
    number = next(numbers)
    if number % 5 == 0:
        yield Fault(site, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[number % 3], SIGNAL, calls // 2)


def rows_of(*names):
    return harness.rows({name: test_recorder.rows[name][0] for name in names})


@rows_of("attach", "inject", "run", "run_exact", "record")
def test_signal(_bench, scenario):
    return try_all(scenario, Signalled, signalled)


PTRACE_SEIZE = 0x4206


@contextlib.contextmanager
def ends(target):
    target.popen.kill()
    target.popen.wait()
    yield


@contextlib.contextmanager
def stops(target):
    os.kill(target.pid, signal.SIGSTOP)
    yield
    os.kill(target.pid, signal.SIGCONT)


@contextlib.contextmanager
def is_traced(target):
    """By this thread, until it ends."""
    ctypes.CDLL(None).ptrace(ctypes.c_long(PTRACE_SEIZE), ctypes.c_long(target.pid), None, None)
    yield


def follows(order):
    @contextlib.contextmanager
    def deed(target):
        """The recorder may hold it just now: then it does this later."""
        target.order = order
        deadline = time.monotonic() + 1
        while target.order and time.monotonic() < deadline:
            time.sleep(0.001)
        yield
    return deed


DEEDS = ends, stops, is_traced, follows("exec"), follows("fork"), follows("load")


class Meanwhile(Signalled):
    """The target does something while a call of the recorder waits."""
    fault = None

    def run(self, fault):
        self.fault = fault
        return super().run(fault)

    def run_in(self, folder):
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.meet, daemon=True)
        self.thread.start()
        return super().run_in(folder)

    def meet(self):
        with open(self.table, "r+b", buffering=0) as table:
            while self.fault and not self.is_over.wait(0.001):
                mode, _, fired, _, _ = HEAD.unpack(os.pread(table.fileno(), HEAD.size, 0))
                if mode == MEET and fired > self.fault.after:
                    with DEEDS[self.fault.err](self.target):
                        os.pwrite(table.fileno(), ONCE.to_bytes(4, "little"), 0)
                        self.is_over.wait()

    def lives(self):
        self.is_over.set()
        self.thread.join()
        if self.fault and DEEDS[self.fault.err] == ends and self.target.popen.poll() is not None:
            self.replace_target()
        return super().lives()


def met(site, calls):
    """At each fifth site, amid its calls."""
    number = next(numbers)
    if number % 5 == 0:
        yield Fault(site, number // 5 % len(DEEDS), MEET, calls // 2)


@rows_of("attach", "inject", "record")
def test_target(_bench, scenario):
    return try_all(scenario, Meanwhile, met)


class SteppedClock(Recordings):
    """Snapshots stay in the order in which they were taken, whatever their wall times are, and none is too old to keep."""

    def __enter__(self):
        super().__enter__()
        self.sites = {Site("clock_gettime", 0): 1}
        return self

    def bad_afterwards(self, folder):
        listed = json.loads(subprocess.run([ALLOCSNAP, "list", "--json", folder / "made"], capture_output=True, check=True).stdout)
        taken = sorted((int(path.name.split(".")[3]), str(path)) for path in (folder / "made").rglob("*.snap"))
        ends = [os.path.join(folder, process[end]["path"]) for process in listed["processes"] for end in ("first", "last")]
        return "" if ends == [taken[0][1], taken[-1][1]] else f"order: {ends}, taken {taken}"


def steps(site, _calls):
    """A day on and a day back, at each reading of the wall clock."""
    return (Fault(site, seconds, STEP, after) for after in range(READINGS) for seconds in (86400, -86400))


@harness.rows({
    "attach": records("attach PID -n 3 -i 250ms"),
    "record": records("record --pid PID -n 3 -i 250ms --keep 1h --max-disk 1M --metrics metrics.prom"),
})
def test_clock(_bench, scenario):
    return try_all(scenario, SteppedClock, steps)
