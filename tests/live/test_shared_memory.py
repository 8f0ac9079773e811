# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Children that run in the memory of their parent, but are no threads of it: recorded with --follow-forks, else counted."""
import os
import signal

from harness import check, check_equal, core, smoke

UNRECORDED = ("vfork", "clone", "clone-vfork", "exec")


def count_of(bench, path, function):
    rows = bench.stats(path, "--group-by", "function")["statistics"]
    return sum(row["count"] for row in rows if row["key"] == function)


def unrecorded(bench, path):
    return bench.show(path)["losses"]["children_unrecorded"]


@core
@smoke
def test_children_in_the_memory_are_counted(bench):
    for way in UNRECORDED:
        program = bench.workload("shared_memory")
        recording = bench.attach([program])
        program.order(way)
        path = recording.end(signal.SIGINT)[-1]
        check_equal((count_of(bench, path, "by_parent"), unrecorded(bench, path)), (100, 1), way)
        check("--follow-forks records them" in recording.stderr(), f"{way}: {recording.stderr()}")
        program.is_unharmed()


@core
@smoke
def test_children_in_the_memory_that_allocate_nothing_are_no_loss(bench):
    program = bench.workload("shared_memory")
    recording = bench.attach([program])
    for way in ("spawn", "missing"):
        program.order(way)
    check_equal(unrecorded(bench, recording.snapshot()), 0, "children")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_a_child_that_stays_in_the_memory_is_counted_while_it_is_there(bench):
    """It outlives its parent."""
    program = bench.workload("shared_memory")
    recording = bench.attach([program])
    child = program.order("stays")[1]["child"]
    check_equal(unrecorded(bench, recording.snapshot()), 1, "now")
    program.is_unharmed()
    path = recording.end()[-1]
    os.kill(child, signal.SIGKILL)
    check_equal(unrecorded(bench, path), 1, "at its end")


def test_children_in_the_memory_are_recorded_with_follow_forks(bench):
    for way in UNRECORDED:
        program = bench.workload("shared_memory")
        recording = bench.attach([program], "--follow-forks")
        program.order(way)
        path = [path for path in recording.snapshots() if f".{program.pid}" in path][-1]
        found = count_of(bench, path, "by_parent"), count_of(bench, path, "by_child"), unrecorded(bench, path)
        check_equal(found, (40, 100, 0), way)
        recording.end(signal.SIGINT)
        program.is_unharmed()
