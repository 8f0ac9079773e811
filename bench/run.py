#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The time of questions: CPython's tracemalloc, allocsnap, and reading the columns once.

    run.py DIR MEASURE TRACES   DIR: the output of make_traces; MEASURE: the compiled measure.c

CPython gets the first traces of the same snapshots, and its times are scaled up by the number of
traces. First it is checked that both give the same answers on these traces.
Environment: BENCH_ROUNDS (3).
"""
import array
import gc
import itertools
import os
import pathlib
import statistics as numbers
import subprocess
import sys
import time
import tracemalloc

DEPTH = 20
ROWS_SHOWN = 20
CUMULATIVE_PART = 10  # every trace costs DEPTH times as much: a tenth of the part is enough
ONE_PART = [tracemalloc.Filter(True, "src/part_0[1-5]/*")]
AIMS = {
    "load": ("<= 100 ms", lambda row: row.ours <= 100),
    "statistics lineno": (">= 300x CPython, <= 3x floor",
                          lambda row: row.ratio >= 300 and row.ours <= 3 * row.floor),
}


# ---- CPython ----------------------------------------------------------------------------------

def column(path, code):
    values = array.array(code)
    values.frombytes(path.read_bytes())
    return values


def read_frames(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(name, int(lineno)) for name, lineno in (line.split("\t") for line in lines)]


def read_tracebacks(folder):
    """Each a tuple of shared tuples, as CPython's C code makes them."""
    frames = read_frames(folder / "frames.txt")
    ids = column(folder / "tracebacks.u32", "I")
    return [tuple(frames[frame] for frame in ids[at:at + DEPTH])
            for at in range(0, len(ids), DEPTH)]


def read_snapshot(folder, name, tracebacks):
    domains = column(folder / f"part-{name}.domains.u32", "I")
    sizes = column(folder / f"part-{name}.sizes.u64", "Q")
    ids = column(folder / f"part-{name}.tracebacks.u32", "I")
    traces = list(zip(domains, sizes, map(tracebacks.__getitem__, ids), itertools.repeat(DEPTH)))
    return tracemalloc.Snapshot(traces, 64)


class CPython:
    def __init__(self, folder):
        gc.disable()
        tracebacks = read_tracebacks(folder)
        self.old = read_snapshot(folder, "old", tracebacks)
        self.new = read_snapshot(folder, "new", tracebacks)
        gc.freeze()
        gc.enable()
        self.trace_nr = len(self.old.traces._traces)  # pylint: disable=protected-access
        few = self.old.traces._traces[:max(1, self.trace_nr // CUMULATIVE_PART)]
        self.few = tracemalloc.Snapshot(few, 64)
        old = self.old
        self.questions = {
            "statistics lineno": lambda: old.statistics("lineno"),
            "statistics filename": lambda: old.statistics("filename"),
            "statistics traceback": lambda: old.statistics("traceback"),
            "statistics lineno cumulative": lambda: self.few.statistics("lineno", True),
            "statistics lineno filtered":
                lambda: old.filter_traces(ONE_PART).statistics("lineno"),
            "filter_traces": lambda: old.filter_traces(ONE_PART),
            "compare_to lineno": lambda: old_compared(self, "lineno"),
            "compare_to traceback": lambda: old_compared(self, "traceback"),
        }

    def asked_of(self, question):
        """How many traces it is asked of."""
        return len(self.few.traces) if "cumulative" in question else self.trace_nr

    def round(self):
        """(question, seconds) of each."""
        for question, ask in self.questions.items():
            begun = time.perf_counter()
            answer = ask()
            yield question, time.perf_counter() - begun
            del answer

    def answer(self, question):
        """As measure.c prints it."""
        if question == "filter_traces":
            found = self.old.filter_traces(ONE_PART).statistics("lineno")
        elif "cumulative" in question:
            found = self.old.statistics("lineno", True)
        else:
            found = self.questions[question]()
        yield (question, f"{len(found)} rows", str(sum(row.size for row in found)),
               str(sum(row.count for row in found)))
        for row in found[:ROWS_SHOWN]:
            place = ";".join(f"{frame.filename}:{frame.lineno}" for frame in row.traceback)
            yield (question, place, str(row.size), str(row.count),
                   str(getattr(row, "size_diff", 0)), str(getattr(row, "count_diff", 0)))


def old_compared(cpython, key_type):
    return cpython.new.compare_to(cpython.old, key_type)


# ---- ours -------------------------------------------------------------------------------------

def ours(measure, *argv):
    done = subprocess.run([measure, *argv], check=True, stdout=subprocess.PIPE, text=True)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def check_answers(cpython, measure, folder):
    """Ends everything where one number differs."""
    found = ours(measure, "rows", folder / "part-old.snap", folder / "part-new.snap")
    right = [row for question in cpython.questions for row in cpython.answer(question)]
    for mine, theirs in itertools.zip_longest(found, right, fillvalue=("nothing",)):
        if mine != theirs:
            sys.exit("bench: WRONG ANSWER\n  allocsnap: " + " ".join(mine) +
                     "\n  CPython:   " + " ".join(theirs))
    return len(right)


# ---- the table --------------------------------------------------------------------------------

class Row:
    """One question; times are medians."""

    def __init__(self, scale):
        self.scale = scale
        self.samples = {"cpython": [], "ours": [], "floor": []}

    def add(self, kind, value):
        self.samples[kind].append(value)

    def median(self, kind):
        return numbers.median(self.samples[kind]) if self.samples[kind] else None

    @property
    def cpython(self):
        seconds = self.median("cpython")
        return seconds and seconds * self.scale

    @property
    def ours(self):
        return self.median("ours")

    @property
    def floor(self):
        return self.median("floor")

    def least(self, kind):
        return min(self.samples[kind])

    @property
    def ratio(self):
        return self.cpython and self.cpython * 1e3 / self.ours


def measure_all(cpython, measure, folder, trace_nr):
    rows = {}
    for _ in range(int(os.environ.get("BENCH_ROUNDS", "3"))):
        for question, mine, least in ours(measure, "time", folder):
            row = rows.setdefault(question, Row(1))
            row.add("ours", float(mine))
            row.add("floor", float(least))
        for question, seconds in cpython.round():
            rows[question].scale = trace_nr / cpython.asked_of(question)
            rows[question].add("cpython", seconds)
    return rows


def verdict(question, row):
    if question not in AIMS:
        return ""
    aim, holds = AIMS[question]
    return f"{aim}: {'yes' if holds(row) else 'NO'}"


def print_table(rows):
    print(f"{'question':<29} {'CPython s':>10} {'ours ms':>9} {'least':>8} {'ratio':>7} "
          f"{'floor ms':>9} {'least':>8} {'x floor':>8}  aim")
    for question, row in rows.items():
        cpython, ratio = (f"{row.cpython:.1f}", f"{row.ratio:.0f}") if row.cpython else "--"
        print(f"{question:<29} {cpython:>10} {row.ours:9.1f} {row.least('ours'):8.1f} {ratio:>7} "
              f"{row.floor:9.1f} {row.least('floor'):8.1f} {row.ours / row.floor:8.2f}  "
              f"{verdict(question, row)}")


def print_peaks(measure, folder):
    for name in ("old.snap", "old-zstd.snap"):
        size, peak = map(int, ours(measure, "peak", folder / name)[0])
        raw = (folder / "old.snap").stat().st_size
        aim = f"aim <= 1.5 of the rows: {'yes' if peak <= 1.5 * raw else 'NO'}"
        print(f"peak memory, statistics lineno of {name}: {peak / 2**20:.0f} MiB; file "
              f"{size / 2**20:.0f} MiB, rows {raw / 2**20:.0f} MiB, {peak / raw:.2f}; {aim}")


def main():
    folder, measure = pathlib.Path(sys.argv[1]), sys.argv[2]
    trace_nr = int(sys.argv[3])
    cpython = CPython(folder)
    rows = check_answers(cpython, measure, folder)
    print(f"bench: {rows} rows of answers on {cpython.trace_nr} traces equal CPython's")
    found = measure_all(cpython, measure, folder, trace_nr)
    print(f"\n{trace_nr} traces of {DEPTH} frames. CPython {sys.version.split()[0]} was asked of "
          f"{cpython.trace_nr} (cumulative: {len(cpython.few.traces)})"
          f"{', its seconds are scaled to all' if cpython.trace_nr < trace_nr else ''}.")
    print("Medians, and the least; the floor adds up two columns, for load it reads the file.\n")
    print_table(found)
    print()
    print_peaks(measure, folder)


if __name__ == "__main__":
    main()
