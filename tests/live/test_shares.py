# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The share of one program: its own tracebacks come and go, and other programs still find room."""
import os
import shutil
import signal

import harness
from harness import WORKLOADS, Workload, check, check_equal, wait_for
from test_record import World

RETIRED_MOST = 16384  # src/collect/build/traceback_versions.h


def allocated(bench, path):
    """Blocks, of all rows together."""
    rows = bench.stats(path, "--measure", "allocated", "--group-by", "function", "--top", "100000")
    return sum(row["count"] for row in rows["statistics"])


def test_shares_limit_the_remembered_tracebacks(bench):
    """The recorder remembers a bounded number of tracebacks; the bytes of all rows add up to the counter."""
    target = bench.workload("ways")
    recording = bench.attach([target])
    summed = 0
    for _ in range(3):
        target.order("go 20000")
        path = recording.snapshot()
        shown = bench.show(path)
        check(shown["counters"]["allocations"] >= 20000, "it has not allocated")
        check_equal(shown["losses"]["tracebacks_dropped"], 0, "tracebacks_dropped")
        check_equal(allocated(bench, path), shown["counters"]["allocations"], "allocations of all rows")
        check(shown["losses"]["tracebacks_summed"] >= summed, "fewer are summed up than before")
        summed = shown["losses"]["tracebacks_summed"]
    check(summed > 20000, f"only {summed} of 60,000 tracebacks are summed up")
    check(summed >= 60000 - 20000 - RETIRED_MOST - 100, f"only {summed} are summed up")
    recording.end(signal.SIGINT)
    target.is_unharmed()


def program(world, name):
    path = world.bench.path(name)
    if not os.path.exists(path):
        shutil.copy(os.path.join(os.path.abspath(WORKLOADS), "ways"), path)
    return world.bench.start([path], kind=Workload, env=world.environment).ready()


@harness.alone
def test_shares_limit_the_blocks_of_one_process(bench):
    """One process has 7,500 of 10,000 blocks. Another one may have three times what stays free, so 1,875."""
    world = World(bench)
    recorder = world.record_warm("--comm", "greedy", "--comm", "other", "--max-blocks", "10000")
    greedy, other = program(world, "greedy"), program(world, "other")
    greedy.order("keep 80000")
    other.order("keep 1500")
    shown = {path.split("/")[-2].split(".")[0]: bench.show(path) for path in recorder.pass_now()}
    lost, counted = shown["greedy"]["losses"], shown["greedy"]["counters"]
    check_equal(counted["current_blocks"], 7500, "blocks of the greedy process")
    check_equal(lost["blocks_dropped"], 80000 - 7500, "blocks_dropped of the greedy process")
    check(lost["drops_unnoted"], "it has all notes")
    check_equal(shown["other"]["counters"]["current_blocks"], 1500, "blocks of the other")
    check_equal(shown["other"]["losses"]["blocks_dropped"], 0, "blocks_dropped of the other")
    greedy.is_unharmed()
    other.is_unharmed()


@harness.alone
def test_shares_delay_last_snapshots_and_lose_none(bench):
    """Programs of one user end together, and their last snapshots are large: each comes once, in this pass or a later one."""
    world = World(bench)
    recorder = world.record_warm("--comm", "greedy", interval="0.1s")
    greedy = [program(world, "greedy") for _ in range(80)]
    for one in greedy:
        one.order("go 4000")
    for one in greedy:
        one.popen.kill()

    def lasts():
        shown = [bench.show(path)["metadata"] for path in recorder.paths() if "/greedy." in path]
        return [metadata for metadata in shown if metadata["trigger"] == "end"]

    wait_for(lambda: len(lasts()) >= len(greedy), "a last snapshot of each", 60)
    recorder.end()
    check_equal(sorted(int(metadata["pid"]) for metadata in lasts()), sorted(one.pid for one in greedy), "last snapshots")
