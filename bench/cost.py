#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of a pair of malloc and free while it is recorded, next to probes that do nothing, and to peers.

    cost.py ALLOCSNAP BENCH PEERS   the binary; the folder with floor and cost_target; fetch-peers.sh's

Each way has a process of its own that waits for orders, with its profiler attached all along and a
C library of its own, so that one round asks all of them within a second. As root.
Environment: BENCH_ROUNDS (31), BENCH_PROGRESS.
"""
import sys

sys.dont_write_bytecode = True
import loops  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 31
FRAMES = 10
PAIRS = {"unprofiled": 1000000}
PAIRS_PROBED = 4000
SHAPES = {  # threads, and paths by which they call
    "1 thread": (1, 1),
    "2, own paths": (2, 2),
    "2, same path": (2, 1),
}
FLOORS = {
    "empty, placed, session": "session",
    "empty, placed, uretprobe": "uretprobe",
    "empty, first instruction": "first",
}


class Floor(peers.Profiler):
    """Empty programs: floor.c."""

    def __init__(self, name, kind):
        super().__init__(name)
        self.kind = kind

    def attach(self, places, pid, library):
        attached = peers.Attached([places.bench / "floor", self.kind, pid, library], {},
                                  places.work / f"floor.{self.kind}.log")
        attached.wait_for_line()
        return attached


class Loop(loops.Loop):
    def __init__(self, places, profiler, nr, program):
        self.pairs = self.own_ns = 0
        super().__init__(places, profiler, nr, program, "1 1 1")

    def measure(self, threads, paths):
        """ns of its threads' processor time for a pair."""
        pairs = PAIRS.get(self.name, PAIRS_PROBED)
        if self.attached:
            self.attached.begin()
        ns = self.ask(f"{threads} {paths} {pairs}")
        if self.attached:
            self.own_ns += self.attached.own_ns()
            self.pairs += threads * pairs
        return ns


def profilers(places):
    """Each with the program that it profiles. Peers see ten frames only if they have pointers."""
    plain = [peers.Profiler("unprofiled"), *(Floor(name, kind) for name, kind in FLOORS.items()),
             peers.Allocsnap(places, "allocsnap"),
             peers.Allocsnap(places, "allocsnap --sample 512K", "--sample", "512K"),
             *peers.ebpf_peers(places), peers.Heaptrack(places)]
    by_fp = [peers.Allocsnap(places, "allocsnap --unwind fp", "--unwind", "fp"),
             *peers.ebpf_peers(places)]
    for profiler in by_fp:
        profiler.name += " (fp)"
    return dict.fromkeys(plain, "cost_target") | dict.fromkeys(by_fp, "cost_target_fp")


def measure(running, wanted):
    samples = {shape: rounds.Samples() for shape in SHAPES}
    for _ in range(wanted):
        for shape, (threads, paths) in SHAPES.items():
            rounds.in_turns(samples[shape], {
                loop.name: lambda _nr, loop=loop: loop.measure(threads, paths) for loop in running
            }, 1)
    return samples


def print_table(samples, running, missing):
    floor = next((name for name in FLOORS if name not in missing), None)
    print(f"{'':<28}" + "".join(f"{shape + ', ns':>18} {'x floor':>8}" for shape in SHAPES) +
          f"{'own ns':>9}")
    for loop in running:
        cells = "".join(f"{rounds.number(samples[shape].median(loop.name)):>18} "
                        f"{rounds.number(samples[shape].ratio(loop.name, floor)):>8}"
                        for shape in SHAPES)
        own = rounds.number(loop.own_ns / loop.pairs if loop.pairs else None)
        print(f"{loop.name:<28}{cells}{own:>9}")
    for name, reason in missing.items():
        print(f"{name:<28}missing: {reason}")


def main():
    rounds.end_in_order()
    places = peers.Places(*sys.argv[1:], "cost.d")
    wanted, running = rounds.rounds_wanted(ROUNDS), []
    programs = profilers(places)
    try:
        missing = loops.start(programs, running, lambda profiler, nr: Loop(places, profiler, nr, programs[profiler]))
        samples = measure(running, wanted)
    finally:
        loops.end_all(running)
    recorded = next(loop for loop in running if loop.name == "allocsnap")
    depth = loops.depths_recorded(places, recorded.attached.snapshots()[-1], 2)
    if depth != [FRAMES, FRAMES]:  # the two paths must give two
        sys.exit(f"cost: the loops are recorded {depth} frames deep, not {FRAMES}")
    for loop in running:
        if loop.name == "heaptrack":
            loop.own_ns = peers.Heaptrack.interpret_ns(places)
            loop.pairs = wanted * PAIRS_PROBED * sum(threads for threads, _ in SHAPES.values())
    print(f"\nA pair of malloc and free, {FRAMES} frames deep: ns of its thread's processor time, "
          f"medians of {wanted} rounds; own: what the profiler takes itself; (fp): the program has "
          f"frame pointers. {rounds.load()}\n")
    print_table(samples, running, missing)
    rounds.save(places.bench / "cost.json", {
        "missing": missing, "ns": {shape: found.of for shape, found in samples.items()}})


if __name__ == "__main__":
    main()
