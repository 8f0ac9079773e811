#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks in a second that the text that each mutant changes still exists; running the mutants takes minutes."""

import pathlib
import runpy
import sys

TABLES = {"fake_bpf/mutants.py": "bpf", "oracle/mutants.py": ".", "leaks/mutants.py": ".", "unwind/mutants.py": ".",
          "live/python_mutants.py": "."}


def edits_of(row):
    """A row is (file, old, new), or (file, (old, new)…)."""
    file, *rest = row
    return file, [edit[0] for edit in rest] if isinstance(rest[0], tuple) else [rest[0]]


def main():
    tests = pathlib.Path(__file__).parent
    gone = 0
    for table, folder in TABLES.items():
        sys.path.insert(0, str((tests / table).parent))
        for name, row in runpy.run_path(str(tests / table))["MUTANTS"].items():
            file, olds = edits_of(row)
            text = (tests.parent / folder / file).read_text(encoding="utf-8")
            if not all(old in text for old in olds):
                print(f"{table}: {name}: its text is no longer in {file}", file=sys.stderr)
                gone += 1
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
