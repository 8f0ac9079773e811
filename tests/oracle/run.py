#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random snapshots through CPython's tracemalloc and through allocsnap, compared row by row.

    run.py [--core | --seeds 1-200] [--until-failure]

Without an option: all seeds, and one of the day. --core: those with long tracebacks or large sizes, and 25 more.
A failure prints its seed, and a small snapshot and command that show it. Environment: ALLOCSNAP,
the program; ORACLE, the server made of tests/oracle/serve.c.
"""
import argparse
import itertools
import os
import random
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import cpython_cases
import dumps
import sources
from generate import EMPTY, Palette, long_tracebacks, many, near_the_end, random_filters
from program import Program, Server
from estimates import Estimates, Samples, questions_about_samples
from questions import (ALL, KEYS, Bench, Formatted, Lines, Rows, Selection, Straight, Traces,
                       difference, reproducer, smaller)

FAILURES_SHOWN = 10
ASKED_OF_SERVER = Formatted, Estimates, Samples  # a question that does not use the command line alone
REAL_EVERY = 400  # one question in so many also goes to a process of its own


# ---- the questions of one seed ----------------------------------------------------------------


def random_selection(rng, palette):
    low = high = None
    if rng.random() < 0.1:
        low = rng.choice(palette.sizes)
    if rng.random() < 0.1:
        high = max(rng.choice(palette.sizes), low or 0)
    return Selection(random_filters(rng, palette), low, high)


def about_pair(rng, pair):
    for key_type, cumulative in KEYS:
        yield Rows(pair, key_type, cumulative)
    yield Lines(pair, *rng.choice(KEYS))
    yield Rows(pair, *rng.choice(KEYS), sort=rng.choice(("abs", "growth", "shrink")))


def about_selection(rng, palette, snapshots):
    for _ in range(20):
        yield Rows((rng.choice(snapshots),), *rng.choice(KEYS), random_selection(rng, palette))
    for _ in range(18):
        yield Traces((rng.choice(snapshots),), random_selection(rng, palette))
    for _ in range(3):
        yield Straight((rng.choice(snapshots),), random_selection(rng, palette))
        yield Traces((rng.choice(snapshots),), random_selection(rng, palette),
                     via=rng.choice((("snap",), ("snap", "--compress"))))
        yield Rows(tuple(rng.sample(snapshots, 2)), *rng.choice(KEYS), random_selection(rng, palette))
        yield Lines((rng.choice(snapshots),), *rng.choice(KEYS), random_selection(rng, palette))


def about_formats(rng, snapshot, source):
    for _ in range(8):
        limit = rng.choice((None, None, 0, 1, 2, 3, 5, 100, -1, -2, -3, -100, 2**40, -2**40))
        yield Formatted((snapshot,), limit, rng.random() < 0.5, rng.choice((source, source, "")))


def questions_of(rng, source):
    """About a hundred."""
    palette = Palette(rng)
    old = palette.snapshot()
    new = palette.changed(old)
    unrelated = Palette(rng).snapshot()
    snapshots = [old, new, unrelated]
    for snapshot in snapshots:
        for key_type, cumulative in KEYS:
            yield Rows((snapshot,), key_type, cumulative)
        yield Lines((snapshot,), *rng.choice(KEYS))
        yield Traces((snapshot,), ALL)
    pairs = [(old, new), (new, old), (old, unrelated),
             rng.choice(((EMPTY, new), (new, EMPTY), (new, new)))]
    for pair in pairs:
        yield from about_pair(rng, pair)
    yield from about_selection(rng, palette, snapshots)
    yield from about_formats(rng, sources.snapshot(rng, source), source)
    blocks = itertools.count(1) if rng.random() < 0.7 else None
    yield from questions_about_samples(rng, palette, snapshots, blocks)


def questions_of_long(rng, nframe):
    snapshot = long_tracebacks(rng, nframe)
    for key_type, cumulative in KEYS:
        yield Rows((snapshot,), key_type, cumulative)
    yield Traces((snapshot,), random_selection(rng, Palette(rng)))
    yield Rows((snapshot, long_tracebacks(rng, 10)), *rng.choice(KEYS))
    yield Formatted((snapshot,), -3)


def questions_of_large(rng, snapshot):
    for key_type, cumulative in KEYS:
        yield Rows((snapshot,), key_type, cumulative)
        yield Rows((snapshot,), key_type, cumulative, random_selection(rng, Palette(rng)))
    yield Lines((snapshot, EMPTY))
    yield Traces((snapshot,), ALL)


LONG = {7: 1000, 11: 3000, 13: 65535}
LARGE = {17: near_the_end, 18: near_the_end, 19: many}
CORE = sorted({*range(1, 32), *LONG, *LARGE})


def questions_of_seed(seed, source):
    rng = random.Random(seed)
    yield from questions_of(rng, source)
    if seed in LONG:
        yield from questions_of_long(rng, LONG[seed])
    if seed in LARGE:
        yield from questions_of_large(rng, LARGE[seed](rng))


# ---- the run ----------------------------------------------------------------------------------


class Score:
    def __init__(self, quiet=False):
        self.passed = self.failed = 0
        self.quiet = quiet

    def note(self, what, failure, explain=lambda: ""):
        """One comparison; failure is None or a line."""
        if not failure:
            self.passed += 1
            return
        self.failed += 1
        if self.quiet or self.failed > FAILURES_SHOWN:
            return
        print(f"FAIL {what}: {failure}\n{explain()}", flush=True)


def explanation(question, bench):
    small = smaller(question, bench)
    return f"{difference(small, bench)}\n{reproducer(small)}\n"


def run_seed(seed, bench, real, source, score, until_failure=False):
    """real: where some questions also go, or None."""
    rng = random.Random(-seed)
    for question in questions_of_seed(seed, source):
        what = f"seed {seed}, {type(question).__name__}"
        for snapshot in question.snapshots:
            try:
                bench.load(snapshot, rng)
            except Exception as error:  # pylint: disable=broad-except
                score.note(what, f"cannot import: {error}", lambda q=question: reproducer(q))
        score.note(what, difference(question, bench), lambda q=question: explanation(q, bench))
        if score.failed and until_failure:
            return
        if real and not isinstance(question, ASKED_OF_SERVER) and rng.randrange(REAL_EVERY) == 0:
            score.note(f"{what}, as a process", difference(question, real),
                       lambda q=question: explanation(q, real))
    bench.forget()
    if real:
        real.forget()


def memory_folder():
    """Where syncing a file costs nothing, if there is such a place."""
    shm = "/dev/shm"
    return tempfile.mkdtemp(prefix="allocsnap-oracle.",
                            dir=shm if os.access(shm, os.W_OK) else None)


def parse_seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def all_seeds():
    today = int(time.strftime("%Y%m%d"))
    print(f"oracle: the seed of the day is {today}", flush=True)
    return [*range(1, 206), today]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=parse_seeds)
    parser.add_argument("--core", action="store_const", const=CORE, dest="seeds")
    parser.add_argument("--until-failure", action="store_true", help="questions of seeds to the server, and none after one that fails")
    options = parser.parse_args()
    seeds = options.seeds or all_seeds()
    folder, begun, score = memory_folder(), time.monotonic(), Score()
    server = Server()
    try:
        bench, real = Bench(server, folder), Bench(Program(), folder)
        real.number = bench.number
        source = sources.make(os.path.join(folder, "source"))
        if options.until_failure:
            real = None
        else:
            cpython_cases.run(bench, score)
            dumps.run(bench, score)
        for seed in seeds:
            run_seed(seed, bench, real, source, score, options.until_failure)
            if score.failed and options.until_failure:
                break
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"oracle: {len(seeds)} seeds in {time.monotonic() - begun:.1f} s")
    print(f"oracle: {score.passed} passed, {score.failed} failed")
    return 1 if score.failed or not score.passed else 0


if __name__ == "__main__":
    sys.exit(main())
