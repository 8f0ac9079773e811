#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tests of what a user meets at the terminal. tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP, the binary; SNAPSHOTS, the folder that make_snapshots filled; MAN, COMPLETION, folders of the
build; MAKE_TRACES, bench/make_traces.c.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("terminal", suite.find_tests(HERE, marks=("core",)), seconds=600))
