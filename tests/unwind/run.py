#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Unwind tables and stacks beside elfutils'. tests/harness/suite.py describes the arguments.

Environment: UNWIND, the compiled programs; ALLOCSNAP; WORKLOADS; UNWIND_FILES=all, every ELF file below /usr/bin,
/usr/sbin and /usr/lib; UNWIND_STACKS (300), stacks of each program; UNWIND_HOW (auto), as allocsnap's --unwind.
"""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position

TEST_SECONDS = 3600

if __name__ == "__main__":
    sys.exit(suite.main("unwind", suite.find_tests(HERE), tempfile.TemporaryDirectory, TEST_SECONDS, needs_root=True))
