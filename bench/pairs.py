#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A pair of malloc and free, and how much more it costs while each block is recorded in the program itself: `run
--exact`, `attach --inject=exact`, and heaptrack. Code without frame pointers, at several depths and in several shapes
(pair_target.c).

    pairs.py ALLOCSNAP BENCH PEERS   the binary; the folder with pair_target; fetch-peers.sh's

Each way has a process of its own, and a round asks all of them, shape by shape. "unprofiled again" is "unprofiled" once more:
what the machine does to a difference. At the end the injected hooks go, and "detached again" is measured beside "unprofiled"
in rounds of their own. Needs root. Environment: BENCH_ROUNDS (31), BENCH_PROGRESS.
"""
import sys

sys.dont_write_bytecode = True
import loops  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 31
PLAIN, INJECTED, DETACHED = "unprofiled", "attach --inject=exact", "detached again"
PAIRS = {"heaptrack": 30000}
PAIRS_CHEAP = 300000
SHAPES = {  # order of pair_target
    "10 frames": "same 1 10",
    "10, two threads": "same 2 10",
    "25": "same 1 25",
    "25, two threads": "same 2 25",
    "50": "same 1 50",
    "25, five random turns": "turns 1 25",
    "25, down 16 for each": "down 1 25",
    "25, one of 20,000 live blocks": "held 1 25",
}
DEPTHS = {10, 25, 50}


def profilers(places):
    return [peers.Profiler(PLAIN), peers.Profiler("unprofiled again"), peers.RunExact(),
            peers.Allocsnap(places, INJECTED, "--inject=exact"), peers.Heaptrack(places)]


def measure(running, wanted):
    """By shape. A first round is left out."""
    samples = {shape: rounds.Samples() for shape in SHAPES}
    for nr in range(wanted + 1):
        for shape, order in SHAPES.items():
            found = samples[shape] if nr else rounds.Samples()
            rounds.in_turns(found, {
                loop.name: lambda _nr, loop=loop: loop.ask(f"{order} {PAIRS.get(loop.name, PAIRS_CHEAP)}") for loop in running
            }, 1)
    return samples


def measure_detached(running, wanted):
    beside = [loop for loop in running if loop.name in (PLAIN, INJECTED)]
    for loop in beside:
        loop.detach()
    return measure(beside, wanted)


def cell(samples, name):
    found = samples.differences(name, PLAIN)
    return "{:+.1f} ({:+.1f} to {:+.1f})".format(*found) if found else "-"


def print_table(samples, names):
    """A table of Markdown: a row for each shape."""
    print(f"| more than unprofiled, ns | {PLAIN} | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for shape, found in samples.items():
        print(f"| {shape} | {found.median(PLAIN):.1f} | " + " | ".join(cell(found, name) for name in names) + " |")


def check_depths(places, loop):
    found = set(loops.depths_recorded(places, loop.attached.snapshots()[-1], 20))
    if found != DEPTHS:
        sys.exit(f"pairs: {loop.name} has recorded pairs {sorted(found)} frames deep, not {sorted(DEPTHS)}")


def main():
    rounds.end_in_order()
    places = peers.Places(*sys.argv[1:], "pairs.d")
    wanted, running = rounds.rounds_wanted(ROUNDS), []
    try:
        missing = loops.start(profilers(places), running, lambda profiler, nr:
                              loops.Loop(places, profiler, nr, "pair_target", "same 1 10 1000"))
        samples = measure(running, wanted)
        detached = measure_detached(running, wanted)
    finally:
        loops.end_all(running)
    for loop in running:
        if isinstance(loop.attached, (peers.Recording, peers.Started)):
            check_depths(places, loop)
    print(f"\nA pair of malloc and free, code without frame pointers: ns of its thread's processor time, medians of {wanted} "
          f"rounds; the others: how much more, median and quartiles of the rounds' own differences. {rounds.load()}\n")
    print_table(samples, [loop.name for loop in running if loop.name != PLAIN])
    print()
    for found in detached.values():
        found.of[DETACHED] = found.of.pop(INJECTED, [])
    print_table(detached, [DETACHED])
    for name, reason in missing.items():
        print(f"{name}: missing: {reason}")
    rounds.save(places.bench / "pairs.json", {"ns": {shape: found.of for shape, found in samples.items()},
                                              "detached": {shape: found.of for shape, found in detached.items()}})


if __name__ == "__main__":
    main()
