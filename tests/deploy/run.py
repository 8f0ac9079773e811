#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The image and the DaemonSet of deploy/: its container runs here, with exactly the rights that the DaemonSet gives it.
tests/harness/suite.py describes the arguments.

Environment: PACKAGE_TEST, a folder for the package, a system and images; they are kept there.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = os.path.join(HERE, ".."), os.path.join(HERE, "../package")
from harness import suite  # pylint: disable=wrong-import-position
from node import Node  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(suite.main("deploy", suite.find_tests(HERE), Node, seconds=2400))
