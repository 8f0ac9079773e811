#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of liballocsnap-sampler.so. tests/harness/suite.py describes the arguments.

Environment: LIBRARY, the library, with the one that has C++'s operators beside it; SAMPLER, the folder of the programs;
SAMPLER_ROUNDS (200, with --core 50), the recordings of each test of estimates.
"""
import contextlib
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position
from test_sampler import Place  # pylint: disable=wrong-import-position

TEST_SECONDS = 3600

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="allocsnap-sampler.") as own:
        place = Place(os.environ["LIBRARY"], own)
        sys.exit(suite.main("sampler", suite.find_tests(HERE), lambda: contextlib.nullcontext(place), TEST_SECONDS))
