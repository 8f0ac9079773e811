#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A fleet of ten million rows: the speed of the index, its size, and the time of questions compared with SQL.

    fleet.py ALLOCSNAP FLEET_DATA CHILD_PEAK FOLDER [HOSTS]

Each measurement is a process of its own; the medians of time and peak memory are printed. Our questions and SQL's
take turns, on files that are in the page cache.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../tests/fleet")]
import sql_questions  # pylint: disable=wrong-import-position
from rounds import Samples, end_in_order, in_turns  # pylint: disable=wrong-import-position

INDEX_ROUNDS = 3
ROUNDS = 5
SQL_ROUNDS = 3
LEAST_ROWS_A_SECOND, MOST_SECONDS, MOST_BYTES = 3e6, 0.5, 8
OLD, NEW = (f"upload_id IN (SELECT upload_id FROM label WHERE name = 'version' AND value = '{version}')"
            for version in "AB")
COHORTS = "--baseline", "label.version=A", "--candidate", "label.version=B"

# Our command, and the SQL of the same question; None: it needs more than one statement.
QUESTIONS = {
    "diff of two versions": (("diff", *COHORTS), lambda: sql_questions.diff(
        "lineno", sql_questions.latest(OLD), sql_questions.latest(NEW))),
    "diff, all times": (("diff", *COHORTS, "--all-times"), lambda: sql_questions.diff(
        "lineno", sql_questions.all_times(OLD), sql_questions.all_times(NEW))),
    "diff by traceback, all times": (("diff", *COHORTS, "--all-times", "--group-by", "traceback"), None),
    "stats of the latest": (("stats",), lambda: sql_questions.stats("lineno", sql_questions.live())),
    "hosts": (("hosts",), None),
    "leaks": (("leaks",), None),
}


class Bench:
    """The programs to measure, and the folders of their files."""

    def __init__(self, allocsnap, fleet_data, child_peak, folder, hosts="500"):
        self.allocsnap, self.child_peak = allocsnap, child_peak
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.data, self.rows = self.folder / "data", self.folder / "rows.db"
        self.catalogue = self.folder / "fleet.db"
        made = subprocess.run([fleet_data, "--hosts", hosts, "--rows", self.rows, self.data], check=True,
                              stdout=subprocess.PIPE).stdout
        self.made = json.loads(made)
        self.peaks, self.cpu = Samples(), Samples()

    def run(self, name, argv):
        """Seconds; the peak in KiB and CPU seconds are kept."""
        path = self.folder / "peak"
        done = subprocess.run([self.child_peak, path, *map(str, argv)], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        if done.returncode not in (0, 3):  # 3: some processes of this fleet cannot be judged for leaks
            raise RuntimeError(f"{name}: exit status {done.returncode}")
        elapsed, cpu, peak = path.read_text().split()
        self.peaks.add(name, int(peak))
        self.cpu.add(name, float(cpu))
        return float(elapsed)

    def index(self, _round):
        for path in self.folder.glob("fleet.db*"):
            path.unlink()
        return self.run("index", [self.allocsnap, "fleet", "index", self.data, "--catalogue", self.catalogue])

    def ask(self, name, args):
        return self.run(name, [self.allocsnap, "fleet", *args, "--json", "--top", "0", "--catalogue",
                               self.catalogue])

    def ask_sql(self, name, sql):
        return self.run(name, ["sqlite3", "-readonly", self.rows, sql])


def measures_of(bench):
    for name, (args, sql) in QUESTIONS.items():
        yield name, lambda _round, name=name, args=args: bench.ask(name, args)
        if sql:
            yield f"SQL: {name}", lambda number, name=name, sql=sql: \
                bench.ask_sql(f"SQL: {name}", sql()) if number < SQL_ROUNDS else None


def mib(kib):
    return f"{kib / 1024:.0f} MiB" if kib else "--"


def seconds(value):
    return f"{value:.3f} s" if value else "--"


def verdict(holds):
    return "yes" if holds else "NO"


def print_index(bench, found):
    rows, size = bench.made["rows"], bench.catalogue.stat().st_size
    rate = rows / found.median("index")
    print(f"{rows} rows in {bench.made['snapshots']} files of {bench.made['bytes'] / rows:.1f} bytes a row")
    print(f"index        {rate / 1e6:.2f} million rows/s ({found.median('index'):.2f} s, {bench.cpu.median('index'):.2f} s of "
          f"CPU), aim >= "
          f"{LEAST_ROWS_A_SECOND / 1e6:.0f}: {verdict(rate >= LEAST_ROWS_A_SECOND)}; "
          f"peak {mib(bench.peaks.median('index'))}")
    print(f"index again  {found.median('again'):.2f} s, where nothing is new")
    print(f"catalogue    {size / rows:.2f} bytes a row, aim <= {MOST_BYTES}: {verdict(size <= MOST_BYTES * rows)}; "
          f"row tables of SQLite: {bench.rows.stat().st_size / rows:.1f}")


def columns(bench, found, name):
    return (f"{seconds(found.median(name)):>9} {seconds(bench.cpu.median(name)):>9} "
            f"{mib(bench.peaks.median(name)):>8}")


def print_questions(bench, found):
    print(f"\n{'':<30} {'ours':>9} {'CPU':>9} {'peak':>8}   {'SQL':>9} {'CPU':>9} {'peak':>8} {'SQL/ours':>9}")
    for name in QUESTIONS:
        ratio = found.ratio(f"SQL: {name}", name)
        print(f"{name:<30} {columns(bench, found, name)}   {columns(bench, found, f'SQL: {name}')} "
              f"{f'{ratio:.0f}' if ratio else '--':>9}")
    slowest = max(found.median(name) for name in list(QUESTIONS)[:2])
    print(f"aim: diff by line in <= {MOST_SECONDS} s: {verdict(slowest <= MOST_SECONDS)}")


def main():
    end_in_order()
    bench, found = Bench(*sys.argv[1:]), Samples()
    try:
        in_turns(found, {"index": bench.index}, INDEX_ROUNDS)
        in_turns(found, {"again": lambda _round: bench.run("again", [
            bench.allocsnap, "fleet", "index", bench.data, "--catalogue", bench.catalogue])}, INDEX_ROUNDS)
        in_turns(found, dict(measures_of(bench)), ROUNDS)
        print_index(bench, found)
        print_questions(bench, found)
    finally:
        shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
