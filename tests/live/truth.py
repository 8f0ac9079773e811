#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings with known answers of processes that take samples of their own heap: are the estimates unbiased, and do 95
of 100 intervals contain the truth?

    truth.py [RECORDINGS]   each way, allocator and kind of recording; RECORDINGS (2000) is the number for each way

The program is tests/workloads/truth.c: eight threads, all functions of malloc's family, reallocs that fail. Each of its
processes is recorded by allocsnap as users run it, many at a time, while other processes keep the machine busy. A
recording is a round of a process: it makes blocks, a snapshot is taken, and the blocks go. Prints a table, and exits
with 1 if a check fails. Environment: ALLOCSNAP, WORKLOADS as for run.py; TRUTH_ALLOCATORS, names that are wanted.
"""
import concurrent.futures
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # pylint: disable=wrong-import-position
from harness import UNWINDING, WORKLOADS, Workload, check_equal, losses_of

LIBRARY = os.path.abspath(os.path.join(WORKLOADS, "../liballocsnap-sampler.so"))
FOLDER = "/usr/lib/x86_64-linux-gnu/"
ALLOCATORS = {"glibc": "", "jemalloc": FOLDER + "libjemalloc.so.2", "tcmalloc": FOLDER + "libtcmalloc_minimal.so.4",
              "mimalloc": FOLDER + "libmimalloc.so.2", "musl": ""}
INTERVAL = 4096
PROCESSES = 20  # recorded at a time
MANY = 1000000000
HALF = 1.96  # half the width of a 95 % interval, in standard deviations


class Kind:
    """The work of a process in a recording. most_rate: the samples a second that the recorder allows."""

    def __init__(self, name, order, ops, most_rate, share):
        self.name, self.order, self.ops, self.most_rate, self.share = name, order, ops, most_rate, share

    def is_mixed(self):
        return self.name != "one interval"


KINDS = (Kind("one interval", "go", 4096, MANY, 0.5),
         Kind("program changes it", "change", 4096, MANY, 0.25),
         Kind("recorder changes it", "go", 40000, 1000, 0.25))


def preload(bench, allocator):
    """The way of LD_PRELOAD: a process that waits for orders."""
    name = "truth_musl" if allocator == "musl" else "truth"
    environment = os.environ | {"LD_PRELOAD": ":".join(filter(None, (LIBRARY, ALLOCATORS[allocator]))),
                                "ALLOCSNAP_SAMPLE": str(INTERVAL)}
    return bench.start([os.path.join(WORKLOADS, name)], kind=Workload, env=environment).ready()


PROGRAMS = {"musl": "truth_musl", "own": "truth_own"}
SHIM = os.path.join(WORKLOADS, "shim.so")


def plain(bench, allocator):
    """The process as it is, with an interval to compute the variance of samples with. Allocators above
    the C library's: "shim" is preloaded, "own" is the program's."""
    name = PROGRAMS.get(allocator, "truth")
    preloaded = SHIM if allocator == "shim" else ALLOCATORS.get(allocator, "")
    environment = os.environ | {"LD_PRELOAD": preloaded, "ALLOCSNAP_SAMPLE": str(INTERVAL)}
    return bench.start([os.path.join(WORKLOADS, name)], kind=Workload, env=environment).ready()


class Way:
    """How the sampler comes into the process: a function that starts it, options of attach."""

    def __init__(self, start, options=(), kinds=KINDS):
        self.start, self.options, self.kinds = start, options, kinds


# Nothing in the process knows the interval of an injected sampler, so only the recorder changes it.
WAYS = {"preload": Way(preload),
        "inject": Way(plain, (f"--inject={INTERVAL}",), (KINDS[0], KINDS[2]))}


class Tally:
    """Errors of recordings: z is an error in standard deviations."""

    def __init__(self, kind):
        self.kind = kind
        self.z, self.held, self.samples = [], 0, 0
        self.count_errors, self.told, self.held_count = [], 0, 0  # of blocks; `told`: recordings with an interval
        self.changed = 0  # recordings in which the interval changed; None: the process cannot know

    def add(self, truth, total):
        low, high = total["size_interval"]
        error = total["size"] - truth["bytes"]
        deviation = (high - low) / 2 / HALF if self.kind.is_mixed() else math.sqrt(truth["variance"])
        self.z.append(error / deviation)
        self.held += low <= truth["bytes"] <= high
        self.count_errors.append(total["count"] - truth["count"])
        if "count_interval" in total:
            low, high = total["count_interval"]
            self.told += 1
            self.held_count += low <= truth["count"] <= high
        self.samples += total["samples"]

    def join(self, other):
        self.z += other.z
        self.held += other.held
        self.count_errors += other.count_errors
        self.told += other.told
        self.held_count += other.held_count
        self.samples += other.samples
        self.changed = None if other.changed is None else self.changed + other.changed

    def count_z(self):
        """The mean error of counts by its own spread: few samples of small blocks make both the count and its variance."""
        return sum(self.count_errors) / math.sqrt(sum(error ** 2 for error in self.count_errors))

    def faults(self):
        """Lines about bad results. Few recordings have long tails: each check fails by chance less than once in 50,000 times."""
        nr = len(self.z)
        mean, square, held = sum(self.z) / nr, sum(z * z for z in self.z) / nr, self.held / nr
        spread = 6 * math.sqrt(.95 * .05 / nr) + 3 / nr
        if abs(mean) * math.sqrt(nr) >= 5:
            yield f"biased: mean z {mean:+.3f}"
        if not self.kind.is_mixed() and abs(square - 1) * math.sqrt(nr / 2) >= 6:
            yield f"mean z² {square:.3f}"
        if held < .95 - spread or (held > .95 + spread and not self.kind.is_mixed()):
            yield f"{held:.1%} of intervals contain the truth"
        if abs(self.count_z()) >= 5:
            yield f"counts are biased: {self.count_z():+.1f} standard deviations"
        if self.told and self.held_count / self.told < .93 - 6 * math.sqrt(.93 * .07 / self.told) - 3 / self.told:
            yield f"{self.held_count / self.told:.1%} of intervals of counts contain the truth"
        if self.kind.most_rate != MANY and self.changed is not None and self.changed < nr / 2:
            yield f"the recorder changed the interval in {self.changed} of {nr} recordings"

    def row(self):
        nr = len(self.z)
        return (f"{nr:6} {sum(self.z) / nr:+8.3f} {1 / math.sqrt(nr):7.3f} {sum(z * z for z in self.z) / nr:8.3f} "
                f"{self.held / nr:8.1%} {self.count_z() / math.sqrt(nr):+8.3f} "
                f"{self.held_count / (self.told or 1):8.1%} {self.told / nr:8.1%} {self.samples / nr:9.0f}")


HEAD = (f"{'':33}{'n':>6} {'mean z':>8} {'± 1':>7} {'mean z²':>8} {'bytes':>8} {'count z':>8} {'blocks':>8} {'of':>8} "
        f"{'samples':>9}")


def pid_of(path):
    return int(re.search(r"\.(\d+)/[^/]+\.snap$", path)[1])


def order_all(programs, commands):
    """All work at the same time."""
    for program, command in zip(programs, commands):
        program.write(command + "\n")
    return [json.loads(program.line(60))["done"] for program in programs]


def read_all(bench, paths):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        totals = list(pool.map(lambda path: bench.stats(path)["total"], paths))
    return {pid_of(path): total for path, total in zip(paths, totals)}


def check_kept(bench, paths, what):
    """Nothing was lost, and nothing is left when all blocks are freed."""
    for path in paths[:2]:
        shown = bench.show(path)
        lost = losses_of(shown, UNWINDING)
        check_equal(lost, {}, f"{what}: losses")
        check_equal(shown["counters"]["current_blocks"], 0, f"{what}: blocks after all frees")
        check_equal(shown["counters"]["unknown_frees"], 0, f"{what}: frees of unknown blocks")


def record(bench, way, allocator, kind, nr, seed=0, processes=PROCESSES):
    """A tally of at least nr recordings."""
    what, tally = f"{way}, {allocator}, {kind.name}", Tally(kind)
    programs = [WAYS[way].start(bench, allocator) for _ in range(min(nr, processes))]
    recording = bench.attach(programs, "--sampler-rate", str(kind.most_rate), *WAYS[way].options)
    for turn in range(-(-nr // len(programs))):
        infos = order_all(programs, ["info"] * len(programs))
        truths = order_all(programs, [f"{kind.order} {seed + turn * 1000 + i} {kind.ops}"
                                      for i in range(len(programs))])
        paths = recording.snapshots()
        totals = read_all(bench, paths)
        for program, truth, before, now in zip(programs, truths, infos, order_all(programs, ["info"] * len(programs))):
            tally.add(truth, totals[program.pid])
            has_changed = now["changes"] > before["changes"] or now["interval"] != INTERVAL if before else None
            tally.changed = tally.changed + has_changed if before else None
        order_all(programs, ["free"] * len(programs))
        for path in paths:
            os.remove(path)
    check_kept(bench, recording.snapshots(), what)
    recording.end(signal.SIGINT)
    for program, info in zip(programs, order_all(programs, ["info"] * len(programs))):
        if info and (not kind.is_mixed() or kind.most_rate != MANY):
            check_equal(info["interval"], INTERVAL, f"{what}: the interval when the recorder has gone")
        program.is_unharmed()
    return tally


@contextlib.contextmanager
def busy_machine():
    """Processes that compute beside the recorded ones, one for each processor."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def record_alone(way, allocator, kind, nr, seed):
    bench = harness.Bench()
    try:
        return record(bench, way, allocator, kind, nr, seed)
    finally:
        bench.close()


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    allocators = os.environ.get("TRUTH_ALLOCATORS", " ".join(ALLOCATORS)).split()
    faults, begun = [], time.monotonic()
    print(HEAD, flush=True)
    for way in WAYS:
        sums = {kind.name: Tally(kind) for kind in WAYS[way].kinds}
        shares = sum(kind.share for kind in WAYS[way].kinds) * len(allocators)
        for seed, (allocator, kind) in enumerate((a, k) for a in allocators for k in WAYS[way].kinds):
            with busy_machine():
                tally = record_alone(way, allocator, kind, round(wanted * kind.share / shares), seed << 20)
            sums[kind.name].join(tally)
            found = list(tally.faults())
            faults += found
            print(f"{way}, {allocator:9} {kind.name:20} {tally.row()}" + "".join(f"   {f}" for f in found), flush=True)
        for tally in sums.values():
            faults += tally.faults()
            print(f"{way}, {'all':9} {tally.kind.name:20} {tally.row()}")
        held = sum(tally.held for tally in sums.values()) / sum(len(tally.z) for tally in sums.values())
        print(f"{way}: {held:.1%} of all intervals contain the truth")
        if not .93 <= held <= (.97 if wanted >= 1000 else 1):
            faults.append(f"{way}: {held:.1%}")
        held = sum(tally.held_count for tally in sums.values()) / sum(tally.told for tally in sums.values())
        print(f"{way}: {held:.1%} of the intervals of counts")
        if not .93 <= held <= (.98 if wanted >= 1000 else 1):
            faults.append(f"{way}: {held:.1%} of the intervals of counts")
    print(f"{time.monotonic() - begun:.0f} s, {len(faults)} checks failed", *faults, sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
