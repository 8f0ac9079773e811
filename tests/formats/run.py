#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files for other tools and of theirs, written and read by allocsnap, judged by those tools. A test whose tool is not
installed is skipped. tests/harness/suite.py describes the arguments.

Environment: ALLOCSNAP, the binary; SNAPSHOTS, the folder that make_snapshots filled; CACHE, a folder for what is
downloaded."""
import contextlib
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
# pylint: disable=wrong-import-position
import common
import written  # pylint: disable=unused-import
import read  # pylint: disable=unused-import
import pushed  # pylint: disable=unused-import
import viewed  # pylint: disable=unused-import
import otlp  # pylint: disable=unused-import
from harness import suite

TEST_SECONDS = 1800


@contextlib.contextmanager
def own_folder():
    with tempfile.TemporaryDirectory(prefix="allocsnap-formats-") as folder:
        yield pathlib.Path(folder)


if __name__ == "__main__":
    common.CACHE.mkdir(parents=True, exist_ok=True)
    sys.exit(suite.main("formats", common.TESTS, own_folder, TEST_SECONDS))
