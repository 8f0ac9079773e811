# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares measurements on a machine that does other things, too. They are taken in turns, A B C A B C, so that
other load hits all alike; results are medians, and of ratios the median of the rounds' own ratios."""
import datetime
import json
import os
import pathlib
import signal
import statistics
import sys
import time

PROGRESS = "BENCH_PROGRESS" in os.environ


def end_in_order():
    """SIGTERM exits in order, so that the script ends the profilers it has started; they would never end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))


class Samples:
    """By name a list of one value a round; None for a round without a value."""

    def __init__(self):
        self.of = {}

    def add(self, name, value):
        self.of.setdefault(name, []).append(value)

    def values(self, name):
        return [value for value in self.of.get(name, []) if value is not None]

    def median(self, name):
        values = self.values(name)
        return statistics.median(values) if values else None

    def ratios(self, name, base):
        """Paired: the two values of one round."""
        pairs = zip(self.of.get(name, []), self.of.get(base, []))
        return [mine / other for mine, other in pairs if mine is not None and other]

    def differences(self, name, base):
        """Median, lower and upper quartile of the rounds' own differences; None: no rounds."""
        found = [mine - other for mine, other in zip(self.of.get(name, []), self.of.get(base, []))]
        if not found:
            return None
        low, middle, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
        return middle, low, high

    def ratio(self, name, base):
        ratios = self.ratios(name, base)
        return statistics.median(ratios) if ratios else None

    def quartiles(self, name, base):
        """Median, lower and upper quartile of the rounds' own ratios; None: too few rounds."""
        ratios = self.ratios(name, base)
        if len(ratios) < 4:
            return None
        low, middle, high = statistics.quantiles(ratios, n=4)
        return middle, low, high


def in_turns(samples, measures, rounds, rotates=False):
    """measures: {name: function of the round, or None if it takes no part in it}. rotates: each round begins with
    another one."""
    names = list(measures)
    for nr in range(rounds):
        first = nr % len(names) if rotates else 0
        for name in names[first:] + names[:first]:
            measure = measures[name]
            begun = time.monotonic()
            samples.add(name, measure(nr))
            if PROGRESS:
                print(f"  {nr} {name}: {samples.of[name][-1]} ({time.monotonic() - begun:.1f} s)",
                      flush=True)


def rounds_wanted(default):
    """BENCH_ROUNDS: fewer, for a quick look, or more."""
    return max(1, int(os.environ.get("BENCH_ROUNDS", default)))


def load():
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


def save(path, what):
    """The raw samples, for a reader who needs more than a median."""
    path = pathlib.Path(path)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    facts = {"time": now, "kernel": os.uname().release, "load": os.getloadavg()}
    path.write_text(json.dumps(facts | what, indent=1) + "\n", encoding="utf-8")
    print(f"raw samples: {os.path.relpath(path)}")


def number(value, digits=2):
    """Three significant digits; "-" without a value."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.{1 if value >= 10 else digits}f}"
