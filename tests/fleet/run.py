#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many snapshots together: what SQL says of the same fleet, indexing that is killed, files that are bad.

    run.py [-l] [NAME…]     those whose names contain one of NAME; -l lists them

Environment: ALLOCSNAP, the binary; FLEET_DATA, the compiled scripts/fleet-data; REPAIR, tests/damage/repair.c;
GOLDEN_SNAPSHOTS, tests/golden/make_snapshots.c;
FLEET_HOSTS, on how many hosts the large fleet is (500: ten million rows).
"""
import importlib
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True
from fleet import FLEET_HOSTS, Large  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position,wrong-import-order


def find_tests():
    for path in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
        for name, function in vars(importlib.import_module(path.stem)).items():
            if name.startswith("test_"):
                yield name, function


def run(name, function, large):
    """"ok", "FAIL" or "skip", after its line is printed."""
    verdict, reason, begun = "ok", "", time.monotonic()
    try:
        function(large)
    except harness.Skip as skip:
        verdict, reason = "skip", f": because {skip}"
    except Exception as error:  # pylint: disable=broad-except
        verdict, reason = "FAIL", f": {type(error).__name__}: {error}"
    print(f"{verdict} {name} ({time.monotonic() - begun:.0f} s){reason}", flush=True)
    return verdict


def main():
    words = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    tests = [(name, function) for name, function in find_tests()
             if not words or any(word in name for word in words)]
    if "-l" in sys.argv:
        print(*(name for name, _ in tests), sep="\n")
        return 0
    large = Large(FLEET_HOSTS)
    try:
        verdicts = [run(name, function, large) for name, function in tests]
    finally:
        large.close()
    print(f"fleet: {verdicts.count('ok')} passed, {verdicts.count('FAIL')} failed, "
          f"{verdicts.count('skip')} skipped")
    return 1 if "FAIL" in verdicts or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
