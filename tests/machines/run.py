#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The program that only reads snapshots: built without clang, and for arm64. tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP and SNAPSHOTS as in tests/golden/run.py; MACHINES, a folder for the files of another machine's system,
which are kept.
"""
import contextlib
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("machines", suite.find_tests(HERE), contextlib.nullcontext, seconds=1200))
