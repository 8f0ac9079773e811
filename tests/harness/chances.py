# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests that failed beside others and then passed alone: tests/chance.tsv counts them (date, suite, test, reason).

A chance is a defect of the test or a race of the product. The gate adds a row and passes once; it fails as long as a test
has two rows, or the file more than five. A row goes when its cause is mended, or when the test leaves the gate."""
import collections
import pathlib
import time

FILE = pathlib.Path(__file__).resolve().parent.parent / "chance.tsv"
ROWS = 5


def add(chances):
    """Adds rows of (suite, test, reason); returns what is wrong with the file then."""
    with open(FILE, "a", encoding="utf-8") as file:
        for suite, test, reason in chances:
            print("\t".join((time.strftime("%Y-%m-%d"), suite, test, " ".join(reason.split()))), file=file)
            print(f"chance: {suite} {test} failed beside others and passed alone, see {FILE.name}: {reason}")
    rows = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    faults = [f"chance: {test} has {nr} rows in {FILE.name}: mend it, or take it out of the gate"
              for test, nr in collections.Counter(tuple(row[1:3]) for row in rows).items() if nr > 1]
    if len(rows) > ROWS:
        faults.append(f"chance: {FILE.name} has {len(rows)} rows, more than {ROWS}: mend these tests")
    return faults
