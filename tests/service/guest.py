#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tests of the unit, in the machine that run.py boots. tests/harness/suite.py describes the arguments."""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import PATIENCE, suite  # pylint: disable=wrong-import-position
from test_under_systemd import Host  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("service", suite.find_tests(HERE), Host, 180 * PATIENCE, needs_root=True))
