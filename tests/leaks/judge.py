# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rule of docs/leaks.md once more, in whole numbers and fractions: what `allocsnap leaks` must say of a recording.

It knows each block, from its first snapshot to its last one, and counts frees by bins of births as the program does.
"""
import math
from collections import namedtuple
from fractions import Fraction

BINS, PERIODS = 96, 8
HALF_STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SECOND = 10**9

# A recording: times of snapshots and gaps in ns since its beginning; the last snapshot is the end.
Recording = namedtuple("Recording", "times gaps")
# A block that was in snapshots number first to last. birth as its file has it.
Block = namedtuple("Block", "birth size weight first last")


class Verdict:
    """Fields have the names of `leaks --json`."""
    def __init__(self, kind):
        self.kind, self.doubts = kind, set()
        self.bytes_per_s = self.least_bytes_per_s = 0.0
        self.since_ns = self.horizon_ns = self.survivors = self.freed = self.late = self.early = self.periods = self.span = 0


def recorded(recording, a, b):
    return b - a - sum(max(0, min(b, end) - max(a, begin)) for begin, end in recording.gaps)


def horizons(recording):
    span, nr = recording.times[-1], len(recording.times)
    return [span * half // (2 * nr) for half in HALF_STEPS if 3 * half <= 4 * nr]


def histories(recording, blocks):
    """Blocks seen to be freed, for each horizon; and (number, older snapshot) of the most in one interval, and their sum."""
    times, span = recording.times, recording.times[-1]
    count = [[0] * BINS for _ in times]
    for block in blocks:
        for k in range(block.first, block.last + 1):
            count[k][min(BINS - 1, block.birth * BINS // span)] += 1
    tried = horizons(recording)
    freed, most, at, total = [0] * len(tried), 0, 0, 0
    for k in range(len(times) - 1):
        gone = 0
        for j in range(BINS):
            ends = span * (j + 1) // BINS
            less = count[k][j] - count[k + 1][j]
            if ends > times[k] or less <= 0:
                continue
            gone += less
            for i, age in enumerate(tried):
                freed[i] += less if age <= times[k] - ends else 0
        total += gone
        if gone > most:
            most, at = gone, k
    return list(zip(tried, freed)), most, at, total


def lower_bound(rate, late):
    return rate * max(0.0, 1 - 1.645 / math.sqrt(late)) if late else 0.0


def grows(recording, blocks):
    """One block, or a few, reallocated and larger each time: (bytes a second, how often), or None."""
    times, nr = recording.times, len(recording.times)
    size, count = [0.0] * nr, [0.0] * nr
    for block in blocks:
        for k in range(block.first, block.last + 1):
            size[k] += block.size * block.weight
            count[k] += block.weight
    there = [k for k in range(nr) if count[k] > 0]
    if not there or max(count) > 3 * max(1.0, min(count[k] for k in there)) or count[-1] != count[there[0]]:
        return None
    steps = [(k, size[k], size[k + 1]) for k in range(nr - 1)]
    if any(after < before for _, before, after in steps if before > 0):
        return None
    ups = [k for k, before, after in steps if before > 0 and 20 * after > 21 * before]
    late = any(k >= nr // 2 - 1 and 20 * after > 21 * before for k, before, after in steps)
    if len(ups) < 2 or not late or times[-1] == times[there[0]]:
        return None
    return (size[-1] - size[there[0]]) * SECOND / (times[-1] - times[there[0]]), len(ups)


def judge_births(recording, live):
    span = recording.times[-1]
    verdict = Verdict("freed")
    verdict.doubts = {"snapshots"}
    verdict.horizon_ns = span // 4
    born = span - verdict.horizon_ns
    quarter, kept = [0] * 4, []
    for block in live:
        until = min([begin for begin, _ in recording.gaps if begin > block.birth], default=span)
        if block.birth <= born and until - block.birth >= verdict.horizon_ns:
            kept.append(block)
            quarter[min(3, block.birth * 4 // born)] += 1
    young = sum(block.birth > born for block in live)
    verdict.survivors, verdict.since_ns = len(kept), kept[0].birth if kept else 0
    verdict.early, verdict.late = sum(quarter[:2]), sum(quarter[2:])
    verdict.periods, verdict.span = sum(n > 0 for n in quarter), 4
    verdict.bytes_per_s = 2 * sum(b.size * b.weight for b in kept if 2 * b.birth >= born) * SECOND / born
    verdict.least_bytes_per_s = lower_bound(verdict.bytes_per_s, verdict.late)
    if len(kept) < 8:
        verdict.kind = "few"
    elif verdict.late < Fraction(1, 4) * verdict.early:
        verdict.kind = "settled"
    elif min(quarter) >= Fraction(35, 100) * Fraction(len(kept), 4) and young <= len(kept) + 4:
        verdict.kind = "may-leak"
    return verdict


def find_periods(recording, verdict, kept, born):
    having = {min(PERIODS - 1, block.birth * PERIODS // born) for block in kept if block.birth >= verdict.since_ns}
    verdict.periods = len(having)
    for i in range(min(having), PERIODS):
        watched = recorded(recording, born * i // PERIODS, born * (i + 1) // PERIODS)
        verdict.span += i in having or watched > Fraction(3, 10) * Fraction(born, PERIODS)


def judge(recording, blocks, allocated):
    """blocks: all of one traceback. allocated: how many it allocated so far."""
    last = len(recording.times) - 1
    live = sorted((block for block in blocks if block.last == last), key=lambda block: block.birth)
    if len(recording.times) < 4:
        return judge_births(recording, live)
    span = recording.times[-1]
    tried, most, most_at, gone = histories(recording, blocks)
    for age, freed in tried:
        kept = [block for block in live if span - block.birth >= age]
        if len(kept) >= 3 and freed <= Fraction(5, 100) * (len(kept) + freed):
            break
    else:
        growing = grows(recording, blocks)
        if growing:
            verdict = Verdict("grows")
            verdict.bytes_per_s, verdict.periods = growing
            return verdict
        return Verdict("few" if len(live) + gone < 3 else "freed")
    born = span - age
    verdict = Verdict("leaks")
    verdict.horizon_ns, verdict.freed, verdict.survivors = age, freed, len(kept)
    verdict.since_ns = kept[len(kept) // 50].birth
    late = [block for block in kept if 2 * block.birth >= born]
    verdict.late, verdict.early = len(late), len(kept) - len(late)
    late_ns, early_ns = recorded(recording, born // 2, born), recorded(recording, 0, born // 2)
    if late_ns:
        verdict.bytes_per_s = sum(block.size * block.weight for block in late) * SECOND / late_ns
    verdict.least_bytes_per_s = lower_bound(verdict.bytes_per_s, verdict.late)
    find_periods(recording, verdict, kept, born)
    expected = Fraction(verdict.early * late_ns, early_ns) if early_ns else 0
    if len(kept) < 12 or verdict.late < 4:
        verdict.doubts.add("few")
    if verdict.span < 3 or verdict.periods < Fraction(6, 10) * verdict.span:
        verdict.doubts.add("bursts")
    if verdict.late < Fraction(1, 2) * expected:
        verdict.doubts.add("slowing")
    missed = sum(end - begin for begin, end in recording.gaps)
    share = missed / span
    ghosts = max(0, allocated - sum(block.weight for block in live)) * share / max(0.01, 1 - share)
    weight = sum(block.weight for block in kept)
    if weight < 3 * ghosts:
        verdict.doubts.add("gaps")
    if most >= 8 and most >= Fraction(8, 10) * gone and verdict.since_ns >= recording.times[most_at]:
        verdict.doubts.add("batch")
    if not late or verdict.late < Fraction(1, 4) * expected:
        verdict.kind = "settled"
    elif verdict.since_ns > Fraction(13, 16) * born:
        verdict.kind = "young"
    elif weight < ghosts:
        verdict.kind = "gaps"
    elif verdict.doubts:
        verdict.kind = "may-leak"
    return verdict
