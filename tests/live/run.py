#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live tests: allocsnap attached to real processes, as root. tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP, the binary; WORKLOADS, the folder of the compiled tests/workloads.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import Bench, PATIENCE, suite  # pylint: disable=wrong-import-position

TEST_SECONDS = 180

if __name__ == "__main__":
    sys.exit(suite.main("live", suite.find_tests(HERE), Bench, TEST_SECONDS * PATIENCE, needs_root=True,
                        workers=lambda options: 2 if options.core else 1))
