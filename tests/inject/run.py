#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of injection: a sampler is put into running programs, and taken out. tests/harness/suite.py describes the
arguments.

Environment: ALLOCSNAP, the binary; INJECT, the folder of the programs of these tests; SAMPLER, tests/sampler's folder;
INJECT_ROUNDS (100), the recordings of each test of estimates.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from bench import Bench  # pylint: disable=wrong-import-position
from harness import suite  # pylint: disable=wrong-import-position,wrong-import-order

TEST_SECONDS = 3600

if __name__ == "__main__":
    sys.exit(suite.main("inject", suite.find_tests(HERE), Bench, TEST_SECONDS, needs_root=True))
