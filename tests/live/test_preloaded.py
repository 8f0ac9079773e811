# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs with another allocator preloaded, compared with the ledger (tests/ledger). tcmalloc is left
out: its constructors allocate by its own operator new, which the ledger does not see.
"""
import os

from harness import tool
from ledger import FOLDER, record
from test_allocators import PRELOAD
from test_ledger import PYTHON, SQL, make_repository


def record_with(bench, allocator, argv, *after, name, **environment):
    """The ledger comes first: it passes each call on to the allocator, which counts with it."""
    return record(bench, argv, *after, name=f"{name} with {allocator}",
                  LD_PRELOAD=f"{os.path.join(FOLDER, 'ledger.so')}:{PRELOAD[allocator]}", **environment)


def check_programs(bench, allocator):
    record_with(bench, allocator, [tool("sqlite3"), "-batch", ":memory:", SQL], 10000, name="sqlite3")
    record_with(bench, allocator, ["/usr/bin/python3", "-sSBc", PYTHON % 700], 10000, name="python3",
                PYTHONMALLOC="malloc")
    record_with(bench, allocator, [tool("git"), "-C", make_repository(bench, 200), "log", "-p",
                                   "--output=/dev/null", "main"], 3000, name="git log")


def test_programs_with_preloaded_jemalloc_are_recorded(bench):
    check_programs(bench, "jemalloc")


def test_programs_with_preloaded_mimalloc_are_recorded(bench):
    check_programs(bench, "mimalloc")
