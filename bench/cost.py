#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of a pair of malloc and free while it is recorded, next to probes that do nothing, and to peers.

    cost.py ALLOCSNAP BENCH PEERS   the binary; the folder with floor and cost_target; fetch-peers.sh's

Each way has a process of its own that waits for orders, with its profiler attached all along and a
C library of its own, so that one round asks all of them within a second. As root.
Environment: BENCH_ROUNDS (31), BENCH_PROGRESS.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
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


class Loop:
    """A process that waits for orders, and its profiler."""

    def __init__(self, places, profiler, nr, program="cost_target"):
        self.name = profiler.name
        self.library = peers.copy_libraries(places.work / f"lib{nr}") / "libc.so.6"
        order_out, self.order = os.pipe()
        self.answer, answer_in = os.pipe()
        environment = {"LD_LIBRARY_PATH": str(self.library.parent)} | profiler.environment(places)
        self.popen = subprocess.Popen([places.bench / program, str(order_out), str(answer_in)],
                                      env=os.environ | environment, pass_fds=(order_out, answer_in))
        os.close(order_out)
        os.close(answer_in)
        self.attached = None
        self.pairs = self.own_ns = 0
        self.measure(1, 1)  # the first call resolves all functions
        try:
            self.attached = profiler.attach(places, self.popen.pid, self.library)
        except RuntimeError:
            self.end()
            raise

    def measure(self, threads, paths):
        """ns of its threads' processor time for a pair."""
        pairs = PAIRS.get(self.name, PAIRS_PROBED)
        if self.attached:
            self.attached.begin()
        os.write(self.order, f"{threads} {paths} {pairs}\n".encode())
        ns = float(os.read(self.answer, 100))
        if self.attached:
            self.own_ns += self.attached.own_ns()
            self.pairs += threads * pairs
        return ns

    def end(self):
        os.close(self.order)
        self.popen.wait()
        os.close(self.answer)
        if self.attached:
            self.attached.end()


def profilers(places):
    """(profiler, the program that it profiles). Peers see ten frames only if they have pointers."""
    plain = [peers.Profiler("unprofiled"), *(Floor(name, kind) for name, kind in FLOORS.items()),
             peers.Allocsnap(places, "allocsnap"),
             peers.Allocsnap(places, "allocsnap --sample 512K", "--sample", "512K"),
             *peers.ebpf_peers(places), peers.Heaptrack(places)]
    by_fp = [peers.Allocsnap(places, "allocsnap --unwind fp", "--unwind", "fp"),
             *peers.ebpf_peers(places)]
    for profiler in by_fp:
        profiler.name += " (fp)"
    return ([(profiler, "cost_target") for profiler in plain] +
            [(profiler, "cost_target_fp") for profiler in by_fp])


def start(places, loops):
    """Adds the loops; returns {name: reason} of the missing ones."""
    missing = {}
    for profiler, program in profilers(places):
        if profiler.missing:
            missing[profiler.name] = profiler.missing
            continue
        try:
            loops.append(Loop(places, profiler, len(loops), program))
        except RuntimeError as error:
            missing[profiler.name] = str(error)
    return missing


def frames_recorded(places, recording):
    """The depths of the recorded tracebacks: the two paths must give two, of the depths that are printed."""
    done = subprocess.run([places.allocsnap, "stats", recording.snapshots()[-1], "--group-by",
                           "traceback", "--measure", "allocated", "--top", "2", "--json"],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return [len(row["traceback"]) for row in json.loads(done.stdout)["statistics"]]


def measure(loops, wanted):
    samples = {shape: rounds.Samples() for shape in SHAPES}
    for _ in range(wanted):
        for shape, (threads, paths) in SHAPES.items():
            rounds.in_turns(samples[shape], {
                loop.name: lambda _nr, loop=loop: loop.measure(threads, paths) for loop in loops
            }, 1)
    return samples


def print_table(samples, loops, missing):
    floor = next((name for name in FLOORS if name not in missing), None)
    print(f"{'':<28}" + "".join(f"{shape + ', ns':>18} {'x floor':>8}" for shape in SHAPES) +
          f"{'own ns':>9}")
    for loop in loops:
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
    wanted, loops = rounds.rounds_wanted(ROUNDS), []
    try:
        missing = start(places, loops)
        samples = measure(loops, wanted)
    finally:
        for loop in loops:
            loop.end()
    recorded = next(loop for loop in loops if loop.name == "allocsnap")
    depth = frames_recorded(places, recorded.attached)
    if depth != [FRAMES, FRAMES]:
        sys.exit(f"cost: the loops are recorded {depth} frames deep, not {FRAMES}")
    for loop in loops:
        if loop.name == "heaptrack":
            loop.own_ns = peers.Heaptrack.interpret_ns(places)
            loop.pairs = wanted * PAIRS_PROBED * sum(threads for threads, _ in SHAPES.values())
    print(f"\nA pair of malloc and free, {FRAMES} frames deep: ns of its thread's processor time, "
          f"medians of {wanted} rounds; own: what the profiler takes itself; (fp): the program has "
          f"frame pointers. {rounds.load()}\n")
    print_table(samples, loops, missing)
    rounds.save(places.bench / "cost.json", {
        "missing": missing, "ns": {shape: found.of for shape, found in samples.items()}})


if __name__ == "__main__":
    main()
