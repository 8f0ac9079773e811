#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The packages of this commit, in systems that mmdebstrap makes from nothing. tests/harness/suite.py describes the
arguments.

Environment: PACKAGE_TEST, a folder for systems and packages; systems are kept there.
"""
import contextlib
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import suite  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("package", suite.find_tests(HERE), contextlib.nullcontext, seconds=2400))
