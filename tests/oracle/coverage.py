#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How often do intervals of counts contain the truth, if there are few samples? A simulation; no recording.

    coverage.py [RUNS]   RUNS (500) for each row

Each row is a population of blocks: shares of sizes, scaled so that a number of samples is expected. The columns are the
samples of great weight that the interval adds (UNEVEN in estimates.py, UNEVEN_SAMPLES in src/engine/estimate.c): the share
of intervals that contain the truth, and their mean width as a part of it. The last one: the intervals that are given
(Sum.is_told()), and how many of those contain the truth.
"""
import math
import random
import sys

sys.dont_write_bytecode = True

import estimates

SAMPLE_BYTES = 524288
EXPECTED = (10, 15, 20, 30, 50, 70, 150)
UNEVEN = (0, 2, 4, 6)


def uniform(most, share):
    """Sizes from 1 to most, as classes that grow."""
    edges = sorted({int(most ** (i / 40)) for i in range(41)} | {most})
    return [((low + high) // 2 or 1, share * (high - low) / most) for low, high in zip(edges, edges[1:])]


POPULATIONS = {
    "of one size": [(64, 1)],
    "two sizes": [(64, 64), (4096, 1)],
    "two larger sizes": [(1024, 64), (65536, 1)],
    "five sizes, 16 bytes to 64 KiB": [(16 * 8 ** i, 8.0 ** -i) for i in range(5)],
    "13 sizes, 16 bytes to 64 KiB": [(16 << i, 2.0 ** -i) for i in range(13)],
    "as a service in C++": [(24, 30), (32, 40), (48, 20), (64, 15), (128, 8), (256, 4), (1024, 1), (4096, .3), (65536, .02)],
    "lognormal": [(round(2 ** (i / 2)), math.exp(-(i / 2 - 6) ** 2 / 8)) for i in range(6, 34)],
    "as tests/workloads/truth.c": uniform(600, 7 / 8) + uniform(6000, 1 / 8) + uniform(200000, 1 / 64),
    "large ones, few small ones": [(16, 410), (65536, 1)],
}


def draw(rng, number, chance):
    """How many of a number of blocks are samples, each with this chance."""
    if chance > 0.2:
        return sum(rng.random() < chance for _ in range(round(number)))
    taken, product, end = 0, rng.random(), math.exp(-number * chance)
    while product > end:
        taken, product = taken + 1, product * rng.random()
    return taken


def scale(population, expected):
    """(number, chance) of each size."""
    chances = [(share, -math.expm1(-size / SAMPLE_BYTES)) for size, share in population]
    factor = expected / sum(share * chance for share, chance in chances)
    return [(round(share * factor) if chance > 0.2 else share * factor, chance) for share, chance in chances]


def intervals(blocks, rng):
    """(low, high) for each number in UNEVEN, of one recording, and whether it is given; None: fewer than three samples."""
    total = estimates.Sum()
    for number, chance in blocks:
        for _ in range(draw(rng, number, chance)):
            total.add(1, int(estimates.ONE / chance))
    if total.own < 3:
        return None
    mean = estimates.fractions.Fraction(total.beyond, estimates.ONE * total.own)
    found = []
    for added in UNEVEN:
        low, high = total.uneven(mean, added).interval(total.estimate(), total.own)
        found.append((min(low.ends), max(high.ends)))
    return found, total.is_told(total.own)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'':31}{'samples':>8}" + "".join(f"{f'+ {added}':>16}" for added in UNEVEN) + f"{'given':>9}{'of':>7}")
    for name, population in POPULATIONS.items():
        for expected in EXPECTED:
            rng, blocks = random.Random(expected), scale(population, expected)
            truth = sum(number for number, _ in blocks)
            found = [each for each in (intervals(blocks, rng) for _ in range(runs)) if each]
            given = [each[UNEVEN.index(estimates.UNEVEN)] for each, is_told in found if is_told]
            columns = [(sum(low <= truth <= high for low, high in column) / len(found),
                        sum(high - low for low, high in column) / len(found) / truth) for column in zip(*(each for each, _ in found))]
            held = sum(low <= truth <= high for low, high in given) / (len(given) or 1)
            print(f"{name:31}{expected:8}" + "".join(f"{part:9.1%}{width:7.2f}" for part, width in columns) +
                  f"{held:9.1%}{len(given) / len(found):7.1%}", flush=True)


if __name__ == "__main__":
    main()
