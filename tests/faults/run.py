#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each allocation and system call of the program fails in turn. tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP, the program; FAULTY, the same one linked with faults.c; SNAPSHOTS, the folder of golden snapshots;
WORKLOADS.
"""
import contextlib
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("faults", suite.find_tests(HERE), contextlib.nullcontext, seconds=2400))
