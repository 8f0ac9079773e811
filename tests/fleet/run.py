#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many snapshots together: what SQL says of the same fleet, indexing that is killed, files that are bad.
tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP, the binary; FLEET_DATA, the compiled scripts/fleet-data; REPAIR, tests/damage/repair.c;
GOLDEN_SNAPSHOTS, tests/golden/make_snapshots.c;
FLEET_HOSTS, on how many hosts the large fleet is (500: ten million rows; with --core 10).
"""
import contextlib
import os
import sys

sys.dont_write_bytecode = True
from fleet import FLEET_HOSTS, Large  # pylint: disable=wrong-import-position
from harness import suite  # pylint: disable=wrong-import-position,wrong-import-order

TEST_SECONDS = 1800


def main():
    large = Large(FLEET_HOSTS)
    try:
        tests = suite.find_tests(os.path.dirname(os.path.abspath(__file__)))
        return suite.main("fleet", tests, lambda: contextlib.nullcontext(large), TEST_SECONDS)
    finally:
        large.close()


if __name__ == "__main__":
    sys.exit(main())
