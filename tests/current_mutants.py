#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Whether the text that each mutant changes is still there: a look, where running them takes minutes."""

import pathlib
import runpy
import sys

TABLES = {"fake_bpf/mutants.py": "bpf", "unwind/mutants.py": "."}


def main():
    tests = pathlib.Path(__file__).parent
    gone = 0
    for table, folder in TABLES.items():
        for name, (file, old, _) in runpy.run_path(str(tests / table))["MUTANTS"].items():
            if old not in (tests.parent / folder / file).read_text(encoding="utf-8"):
                print(f"{table}: {name}: its text is no longer in {file}", file=sys.stderr)
                gone += 1
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
