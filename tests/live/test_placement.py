# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where probes sit: functions that come back to their begins are counted once a call."""
import signal

from harness import MODES, NO_RETURNS, Skip, check_equal, environment

SPEC = ("name=arena,object=exe,free=give_back(ptr=1),"
        "alloc=looped_alloc(size=1),alloc=tabled_alloc(size=1),alloc=straight_alloc(size=1)")
PLACES = {"looped_alloc": 0, "tabled_alloc": 0, "straight_alloc": 3}


def check_prologues(bench, mode):
    program = bench.workload("prologue")
    with environment(mode):
        recording = bench.attach([program], "--probe", SPEC)
    for _ in range(2):
        _, done = program.order("go 2000")
        shown = bench.show(recording.snapshot())
        check_equal(shown["counters"]["allocations"], done["allocations"], f"allocations ({mode})")
        check_equal((shown["blocks"], shown["traced_memory"]["current"]),
                    (done["count"], done["size"]), f"blocks, bytes ({mode})")
        check_equal(shown["counters"]["nested_calls"], 0, f"nested calls ({mode})")
    found = {probe["function"]: probe["placement"] for probe in shown["probes"]
             if probe["function"] in PLACES}
    check_equal(found, PLACES, "where they sit")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_functions_that_come_back_to_their_begin(bench):
    if NO_RETURNS:
        raise Skip("where tabled_alloc returns cannot be followed through its table")
    for mode in MODES[:-1]:
        check_prologues(bench, mode)
