# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""SIGUSR2: tracemalloc's clear_traces() and reset_peak() on a running process."""
import signal

import harness
from harness import check, check_equal, losses_of, rows_of_file
from test_known import check_rows, expected_rows


@harness.core
@harness.smoke
def test_clear_removes_earlier_blocks(bench):
    """No earlier block is left; later blocks are right, and frees of earlier blocks are no losses."""
    known = bench.workload("known")
    recording = bench.attach([known])
    known.order("go")
    before = bench.show(recording.snapshot())
    recording.clear()
    shown = bench.show(recording.snapshot())
    check_equal(shown["blocks"], 0, "blocks after clearing")
    check_equal(shown["traced_memory"], {"current": 0, "peak": 0}, "traced memory")
    check_equal(shown["counters"]["allocations"], 0, "allocations")
    known.order("free")
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"]["unknown_frees"], before["blocks"], "frees of blocks of before")
    check_equal(losses_of(shown), {}, "losses")
    answers, done = known.order("go")
    path = recording.snapshot()
    check_rows(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), expected_rows(answers))
    check_equal(bench.show(path)["blocks"], done["count"], "blocks after another round")
    recording.end(signal.SIGINT)
    check(known.popen.poll() is None, "the target has ended")
    known.is_unharmed()


def test_clear_under_load_keeps_the_counters_right(bench):
    """Eight threads go on while traces are cleared: after each clear the counters equal the live blocks."""
    storm = bench.workload("storm")
    recording = bench.attach([storm])
    storm.write("go on\n")
    for _ in range(20):
        recording.clear()
    storm.write("go\n")
    for _ in ("go on", "go"):
        storm.line(30)
    counters = bench.show(recording.snapshot())["counters"]
    check_equal(counters["allocations"] - counters["frees"], counters["current_blocks"], "blocks")
    check_equal(counters["allocated_bytes"] - counters["freed_bytes"], counters["current_bytes"], "bytes")
    check(counters["allocations"] > 0, "nothing was recorded after the clearing")
    check(counters["peak_blocks"] <= counters["allocations"], "the peak is above all that came")
    recording.end(signal.SIGINT)
