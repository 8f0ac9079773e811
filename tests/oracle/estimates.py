# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Snapshots of samples: estimates and their intervals, by the words of include/engine.h, in exact
numbers. CPython filters and names the groups; what they add up to is worked out here.
"""
import collections
import decimal
import fractions
import json
import math
import tracemalloc

from generate import Snapshot, random_filters
from questions import KEYS, Grouping, Selection, Traces, clean

decimal.getcontext().prec = 50
Z = decimal.Decimal("1.959963984540054")  # 95 % of a normal distribution
ONE = 1 << 52  # a weight of 1: no double from there on has more bits behind the point
SAMPLES_TO_COUNT = 20  # fewer, of different weights, do not show how far off a count may be
ALIKE_TO_COUNT = 4
ALIKE = fractions.Fraction(11, 10)  # weights that are taken to be of one size
UNEVEN = 4  # samples of great weight that chance may have left out of a count
SLACK = decimal.Decimal("1e-9")  # of a bound, which is no rational number


class Sample(tuple):
    """A trace with a weight, and maybe with a number, its address and its birth."""
    weight = 1.0
    block = 0


def sample(trace, weight, block=0):
    made = Sample(trace)
    made.weight, made.block = weight, block
    return made


def decimal_of(number):
    number = fractions.Fraction(number)
    return decimal.Decimal(number.numerator) / number.denominator


class Bound:
    """The end of an interval, made whole: equal to what a number that is off by SLACK would be."""

    def __init__(self, number, whole, least, most):
        slack = SLACK * max(abs(number), 1)
        self.ends = [max(min(int((number + step).to_integral_value(whole)), most), least)
                     for step in (-slack, slack)]

    def __eq__(self, other):
        return min(self.ends) <= other <= max(self.ends)

    def __repr__(self):
        return repr(self.ends[0])


class Sum:
    """A sum of sizes, or of ones; exact, in units of 1, 1 / ONE, 1 / ONE**2 and 1 / ONE**3."""

    def __init__(self):
        self.own = self.beyond = self.variance = self.covariance = 0

    def add(self, size, weight):
        self.own += size
        if weight == ONE:
            return
        self.beyond += size * (weight - ONE)
        self.variance += size**2 * weight * (weight - ONE)
        self.covariance += size**3 * weight * (weight - ONE)**2

    def minus(self, other):
        made = Sum()
        made.own, made.beyond = self.own - other.own, self.beyond - other.beyond
        made.variance = self.variance + other.variance
        made.covariance = self.covariance - other.covariance
        return made

    def plus(self, other):
        made = Sum()
        made.beyond, made.variance = self.beyond + other.beyond, self.variance + other.variance
        made.covariance = self.covariance + other.covariance
        return made

    def uneven(self, mean, added=UNEVEN):
        """A sum of ones, with the samples of great weight that chance may have left out. mean: Fraction, in ONEs."""
        made = Sum()
        made.own, made.beyond, made.variance, made.covariance = self.own, self.beyond, self.variance, self.covariance
        slope = fractions.Fraction(self.covariance, self.variance * ONE) if self.variance else 0
        if slope > mean:
            made.variance += added * slope * (slope - mean) * ONE**2
            made.covariance += added * slope**2 * (slope - mean) * ONE**3
        return made

    def is_told(self, samples):
        """A sum of ones: whether it has an interval."""
        if samples >= SAMPLES_TO_COUNT or not self.variance:
            return True
        return samples >= ALIKE_TO_COUNT and \
            fractions.Fraction(self.covariance, self.variance) <= ALIKE * self.beyond / samples

    def estimate(self):
        """The sum, rounded: the part beyond the samples is rounded up from a half."""
        return self.own + (self.beyond + ONE // 2) // ONE

    def interval(self, estimate, least=-math.inf):
        """The whole numbers in it, and the estimate."""
        if not self.variance:
            return estimate, estimate
        square, slope = Z * Z, decimal_of(self.covariance) / decimal_of(self.variance * ONE)
        middle = self.own + decimal.Decimal(self.beyond) / ONE + square * slope / 2
        half = (square * decimal_of(self.variance) / ONE**2 + (square * slope / 2)**2).sqrt()
        return (Bound(middle - half, decimal.ROUND_CEILING, least, estimate),
                Bound(middle + half, decimal.ROUND_FLOOR, estimate, math.inf))


class Group:
    """The samples of a group, and apart the samples that the other snapshot does not have."""

    def __init__(self):
        self.samples = self.samples_apart = 0
        self.size, self.count, self.size_apart, self.count_apart = (Sum() for _ in range(4))

    def add(self, trace, times, is_apart):
        weight = int(getattr(trace, "weight", 1) * ONE)
        self.samples += 1
        self.size.add(trace[1] * times, weight)
        self.count.add(times, weight)
        if is_apart:
            self.samples_apart += 1
            self.size_apart.add(trace[1] * times, weight)
            self.count_apart.add(times, weight)

    def mean_beyond(self):
        return fractions.Fraction(self.count.beyond, ONE * self.samples) if self.samples else 0

    def costs(self):
        return self.size.estimate(), self.count.estimate()


def keys_of(trace, key_type, cumulative):
    """The groups of a trace, again in a recursion; frames oldest first."""
    frames = trace[2]
    if key_type == "traceback":
        return [tuple(reversed(frames))]
    frames = frames if cumulative else frames[:1]
    if key_type == "filename":
        return [((name, 0),) for name, _ in frames]
    return [(frame,) for frame in frames]


def identity(trace):
    return getattr(trace, "block", 0), trace[0], trace[1], getattr(trace, "weight", 1)


def groups_of(traces, others, key_type, cumulative):
    """Each group, and all as None."""
    known = {identity(trace) for trace in others if getattr(trace, "block", 0)}
    groups = collections.defaultdict(Group)
    for trace in traces:
        is_apart = identity(trace) not in known
        groups[None].add(trace, 1, is_apart)
        for key, times in collections.Counter(keys_of(trace, key_type, cumulative)).items():
            groups[key].add(trace, times, is_apart)
    return groups


def row_of(new, old):
    """The JSON of a group; with old None there is no diff."""
    size, count = new.costs()
    row = {"size": size, "count": count, "samples": new.samples,
           "size_interval": new.size.interval(size, new.size.own)}
    if new.count.is_told(new.samples):
        row["count_interval"] = new.count.uneven(new.mean_beyond()).interval(count, new.count.own)
    if old:
        size_diff, count_diff = size - old.costs()[0], count - old.costs()[1]
        row |= {"size_diff": size_diff, "count_diff": count_diff, "old_samples": old.samples,
                "size_diff_interval":
                    new.size_apart.minus(old.size_apart).interval(size_diff)}
        if new.count_apart.plus(old.count_apart).is_told(new.samples_apart + old.samples_apart):
            row["count_diff_interval"] = new.count_apart.uneven(new.mean_beyond()) \
                .minus(old.count_apart.uneven(old.mean_beyond())).interval(count_diff)
    return row


def is_sampled(snapshots):
    return any(isinstance(trace, Sample) for snapshot in snapshots for trace in snapshot.traces)


class Estimates(Grouping):
    """The JSON answer about samples."""

    def groups(self):
        chosen = [list(self.selection.cpython(each).traces._traces) for each in self.snapshots]
        olds = chosen[0] if len(chosen) == 2 else []
        new = groups_of(chosen[-1], olds, self.key_type, self.cumulative)
        old = groups_of(olds, chosen[-1], self.key_type, self.cumulative)
        return new, old

    def order(self, item):
        key, row = item
        place = row["size"], row["count"], tracemalloc.Traceback(tuple(reversed(key)))
        if len(self.snapshots) == 1:
            return place
        return abs(row["size_diff"]), place[0], abs(row["count_diff"]), *place[1:]

    def theirs(self):
        new, old = self.groups()
        is_diff = len(self.snapshots) == 2
        empty = Group()
        rows = {key: row_of(new.get(key, empty), old.get(key, empty) if is_diff else None)
                for key in new.keys() | old.keys() | {None}}
        if not is_sampled(self.snapshots):
            rows = {key: {name: row[name] for name in row if name in ("size", "count", "size_diff", "count_diff")}
                    for key, row in rows.items()}
        total = rows.pop(None)
        return [total, *((tuple((clean(name), lineno) for name, lineno in key), row) for key, row in
                         sorted(rows.items(), key=self.order, reverse=True))]

    def ours(self, bench):
        answer = json.loads(self.text(bench, "--json"))
        rows = [told(answer["total"])]
        for row in answer["statistics"]:
            frames = tuple(tuple(frame.values()) for frame in reversed(row.pop("traceback")))
            rows.append((frames, told(row)))
        return rows


def told(row):
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


class Samples(Traces):
    """filter_traces() of them, and what comes out of a file that went in."""


# ---- questions --------------------------------------------------------------------------------


def random_weight(rng, size):
    """Weights that sampling gives, and others; most are numbers whose sums are exact."""
    how = rng.random()
    if how < 0.2:
        return 1.0
    if how < 0.5:
        return 1 + rng.randrange(2**rng.randint(1, 16)) / 64
    if how < 0.6:
        return float(rng.randint(1, 9))
    return -1 / math.expm1(-max(size, 1) / 2**rng.choice((6, 12, 19)))


def sampled(rng, palette, blocks):
    """Small sizes; blocks: a counter of their numbers, or None."""
    traces = []
    for domain, size, frames, total in palette.snapshot().traces:
        size %= 2**rng.choice((4, 10, 20))
        traces.append(sample((domain, size, frames, total), random_weight(rng, size),
                             next(blocks) if blocks else 0))
    return Snapshot(tuple(traces), 64)


def later(rng, palette, old, blocks):
    """Some blocks are gone, some have an address again, and some are what they were."""
    traces = []
    for trace in old.traces:
        how = rng.random()
        if how < 0.2:
            continue
        if how < 0.3:
            trace = sample((trace[0], trace[1] + 1, *trace[2:]), trace.weight, trace.block)
        elif how < 0.4:
            trace = sample(trace, trace.weight + 1, trace.block)
        elif how < 0.5:
            trace = sample((trace[0] ^ 1, *trace[1:]), trace.weight, trace.block)
        traces.append(trace)
    traces += sampled(rng, palette, blocks).traces[:10]
    rng.shuffle(traces)
    return Snapshot(tuple(traces), 64)


def questions_about_samples(rng, palette, snapshots, blocks):
    """About thirty."""
    old, new = (sampled(rng, palette, blocks), None)
    new = later(rng, palette, old, blocks)
    exact = rng.choice(snapshots)
    small = Snapshot(tuple((domain, size % 1000, *rest) for domain, size, *rest in exact.traces), 64)
    for key_type, cumulative in KEYS:
        yield Estimates((old,), key_type, cumulative)
        yield Estimates((old, new), key_type, cumulative)
    for pair in (new, old), (small, new), (new, small):
        yield Estimates(pair, *rng.choice(KEYS))
    for _ in range(6):
        selection = Selection(random_filters(rng, palette), rng.choice((None, None, 1, 8)))
        yield Estimates(tuple(rng.sample((old, new), rng.randint(1, 2))), *rng.choice(KEYS), selection)
    for _ in range(2):
        yield Samples((new,), Selection(random_filters(rng, palette)),
                      via=rng.choice(((), ("snap",), ("snap", "--compress"))))
