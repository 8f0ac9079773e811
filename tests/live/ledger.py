# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that are recorded and keep a ledger of their own, and the comparison of both accounts."""
import contextlib
import glob
import json
import os
import signal
import time

from harness import (ALLOCSNAP, NEVER, NO_LINKS, OURS, UNWINDING, Law, Process, Workload, check, check_equal, check_status,
                     children_of, losses_of, need_injection)

FOLDER = os.path.abspath(os.environ.get("LEDGER_FOLDER", ".output/ledger"))
EXACT = ("allocations", "allocated_bytes", "frees", "freed_bytes", "current_blocks",
         "current_bytes", "failed_calls")
# The most blocks that glibc caches for a thread: 7 of each of 64 sizes, and the block that lists them.
THREAD_CACHE_MAX = 64 * 7 + 1
# These losses concern stacks and names only; the totals stay exact.
NAMES = UNWINDING | {"tracebacks_limited", "frames_unmapped", "mappings_replaced",
                     "objects_unreadable", "unwind_tables_missing"}
if NO_LINKS:  # then functions of mimalloc that are seldom called are not probed
    NAMES |= {"functions_unprobed"}


def environment_of(bench, **others):
    """The environment in which a program keeps a ledger."""
    os.makedirs(bench.path("ledger"), exist_ok=True)
    return dict(os.environ, **{"LD_PRELOAD": os.path.join(FOLDER, "ledger.so"),
                               "LEDGER": bench.path("ledger"), "LC_ALL": "C.UTF-8", **others})


def ledger_of(bench, pid):
    """The ledger of the last program that the process has become."""
    found = glob.glob(bench.path(f"ledger/{pid}.*"))
    return max(found, key=lambda path: int(path.rpartition(".")[2])) if found else None


def halt(bench, pid, after, *options):
    """See halt.c."""
    return int(bench.run([os.path.join(FOLDER, "halt"), str(pid), ledger_of(bench, pid),
                          str(after), *options])[0])


def compare(bench, pid, path):
    """See compare.c."""
    return json.loads(bench.run([os.path.join(FOLDER, "compare"), ledger_of(bench, pid), path])[0])


def compare_all(bench, paths, name):
    """Snapshots of processes that have ended, each with its own ledger: one for each command."""
    seen = {}
    for path in paths:
        shown = bench.show(path)
        pid, comm = int(shown["metadata"]["pid"]), shown["metadata"]["comm"]
        if not ledger_of(bench, pid):
            check_equal(shown["counters"]["allocations"], 0, f"{name}: {comm}, without a ledger")
            continue
        comparison = Comparison(compare(bench, pid, path), f"{name}: {comm}", True,
                                shown["counters"]["inherited_frees"])
        comparison.check()
        seen.setdefault(comm, []).append(comparison)
    return seen


class Recorded(Workload):
    """`allocsnap run` of a program with the ledger in it; they share stdin and stdout."""

    def __init__(self, argv, stderr_path, bench, name, exact=False, **options):
        super().__init__(argv, stderr_path, **options)
        self.bench = bench
        self.name = name
        self.exact = exact
        self.paths = []
        self.said = []  # by the program, while a snapshot was waited for
        self.has_begun = False

    def line(self, seconds=60):
        """The program's next line; paths of snapshots are put aside."""
        while True:
            line = self.said.pop(0) if self.said else super().line(seconds)
            if line is None or not line.endswith(".snap"):
                return line
            self.paths.append(line)

    def ready(self):
        line = self.line()
        check(line and "ready" in line, f"{self.name}: not ready: {line}")
        return self

    def child(self):
        """Its PID, once it is more than a fork of the recording, which has a ledger, too, and forks
        others that will have names of their own; None: it has ended."""
        while not self.has_begun and self.popen.poll() is None:
            self.has_begun = self.running() is not None
            time.sleep(0.001)
        return self.running()

    def running(self):
        ours = (*OURS, os.path.basename(ALLOCSNAP)[:15])
        return next((pid for pid, comm in children_of(self.pid) if comm not in ours), None)

    def ledger(self):
        pid = self.child()
        return pid and ledger_of(self.bench, pid)

    def compare(self, pid, path, when, quiet=False):
        comparison = Comparison(compare(self.bench, pid, path), f"{self.name}, {when}", quiet, exact=self.exact)
        comparison.check()
        return comparison

    def halt(self, after, *options):
        """Stops it, after so many allocations, where all threads stand still: its PID, and how
        many threads are inside an allocator call."""
        pid = self.child()
        check(pid, f"{self.name}: has ended before it was stopped: {self.stderr()!r}")
        return pid, halt(self.bench, pid, after, *options)

    def stand_still(self, *options, after=0, quiet=False):
        """Compares a snapshot of the stopped process with its ledger."""
        pid, inside = self.halt(after, *options)
        try:
            return self.compare(pid, self.snapshot(), f"stopped with {inside} in a call", quiet)
        finally:
            os.kill(pid, signal.SIGCONT)

    def snapshot(self):
        self.popen.send_signal(signal.SIGUSR1)
        while True:
            line = Process.line(self)
            check(line is not None, f"{self.name}: no snapshot ({self.stderr()!r})")
            if line.endswith(".snap"):
                self.paths.append(line)
                return line
            self.said.append(line)

    def kill(self):
        """The program would go on without us."""
        pid = self.child()
        super().kill()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def begun(self):
        """Waits until the ledger exists."""
        self.until(self.ledger, f"{self.name}: its ledger")
        return self

    def end(self, pid, status=0, seconds=30):
        """Its last snapshot against the ledger's last word."""
        while self.line(seconds) is not None:
            pass
        check_status(self.wait(), status, f"{self.name} ({self.stderr()!r})")
        return self.compare(pid, self.paths[-1], "at its end")


class Comparison:
    """The differences that compare.c found, and which of them have a known cause."""

    def __init__(self, found, what, is_quiet, inherited=0, exact=False):
        self.found = found
        self.exact = exact  # books have no peak between snapshots, and no failed calls
        self.inherited = inherited  # frees of blocks that a forked process had from its parent
        self.what = what
        self.is_quiet = is_quiet  # the program itself reports that no thread is in a call
        self.ledger, self.snapshot = found["ledger"], found["snapshot"]
        self.in_flight = found["in_flight"]
        self.explained = []

    def difference(self, name):
        return self.snapshot[name] - self.ledger[name]

    def check(self):
        self.check_ledger()
        self.check_losses()
        self.check_blocks()
        self.check_counters()
        self.check_unknown_frees()
        if not self.exact:
            self.check_peak()
        print(f"   ledger: {self.what}: {self.ledger['allocations']} allocations, "
              f"{self.ledger['frees']} frees, {self.found['same']} blocks live of "
              f"{self.ledger['current_bytes']} bytes, peak {self.ledger['peak_bytes']}, "
              f"{self.ledger['threads']} threads; unexplained: 0; explained: "
              f"{', '.join(self.explained) or '0'}", flush=True)

    def check_ledger(self):
        for name in ("blocks_replaced", "blocks_dropped"):
            check_equal(self.ledger[name], 0, f"{self.what}: the ledger's own {name}")
        if self.is_quiet:
            check_equal(self.in_flight, 0, f"{self.what}: calls in flight")

    def check_losses(self):
        lost = losses_of(self.found, NAMES)
        unreturned = lost.pop("calls_unreturned", 0)
        check_equal(lost, {}, f"{self.what}: losses")
        check(unreturned <= self.in_flight,
              f"{self.what}: {unreturned} calls_unreturned, {self.in_flight} calls in flight")
        if unreturned:
            self.explained.append(f"{unreturned} calls_unreturned of {self.in_flight} in flight")

    def check_blocks(self):
        """Address and size of each block. During a call the two accounts may differ by the call's block."""
        for name in ("only_ledger", "only_snapshot", "other_size"):
            differ = self.found[name]
            check_equal(differ["explained"], differ["count"], f"{self.what}: {name}: those explained, of all; {self.found['examples']}; "
                        f"the snapshot {self.snapshot}, the ledger {self.ledger}", Law)
            if differ["count"]:
                self.explained.append(f"{differ['count']} {name} of {self.in_flight} calls in "
                                      "flight")
        check(self.found["same"] or not self.ledger["current_blocks"], f"{self.what}: no block")

    def check_counters(self):
        for name in set(EXACT) - ({"failed_calls"} if self.exact else set()):
            most = self.in_flight
            if name.endswith("bytes"):
                most = self.ledger["most_in_flight"] if self.in_flight else 0
            difference = self.difference(name)
            check(abs(difference) <= most,
                  f"{self.what}: {name}: {self.snapshot[name]}, the ledger has "
                  f"{self.ledger[name]}; {self.in_flight} calls in flight", Law)
            if difference:
                self.explained.append(f"{difference} {name} of {self.in_flight} calls in flight")

    def check_unknown_frees(self):
        """At a thread's end glibc frees the thread's cached blocks a second time, directly."""
        difference = self.difference("unknown_frees") + self.inherited
        ended = self.ledger["threads_ended"]
        check(-self.in_flight <= difference <= ended * THREAD_CACHE_MAX + self.in_flight,
              f"{self.what}: unknown_frees: {self.snapshot['unknown_frees']}, the ledger has "
              f"{self.ledger['unknown_frees']}; {ended} threads have ended", Law)
        if difference:
            self.explained.append(f"{difference} unknown_frees: glibc's, of the caches of "
                                  f"{ended} threads at their end")

    def check_peak(self):
        difference = self.difference("peak_bytes")
        most = self.ledger["most_in_flight"] if self.ledger["threads"] > 1 else 0
        check(abs(difference) <= most,
              f"{self.what}: peak_bytes: {self.snapshot['peak_bytes']}, the ledger has "
              f"{self.ledger['peak_bytes']}; {most} bytes were in flight at most", Law)
        if difference:
            self.explained.append(f"{difference} peak_bytes of at most {most} in flight")


def start(bench, argv, name=None, exact=False, **environment):
    """exact: by books that the program writes itself."""
    if exact:
        need_injection()
    run = [ALLOCSNAP, "run", *(["--exact"] if exact else []), "-o", bench.path("out"), "--interval", NEVER,
           "--domain", "malloc", "--"]
    return bench.start([*run, *argv], kind=Recorded, bench=bench, exact=exact, cwd=bench.folder,
                       env=environment_of(bench, **environment),
                       name=name or os.path.basename(argv[0])).begun()


def stops(argv, *after):
    """The program stops itself there, so that it is not past it, or at its end, before halt looks."""
    return ",".join(map(str, (os.path.basename(argv[0])[:15], *after)))


def record(bench, argv, *after, name=None, **environment):
    """To its end, with a comparison there and after so many allocations."""
    program = start(bench, argv, name, LEDGER_STOPS=stops(argv, *after), **environment)
    pid = program.child()
    for allocations in after:
        comparison = program.stand_still(after=allocations)
        check_equal(comparison.in_flight, 0, "calls in flight")
    return program.end(pid)
