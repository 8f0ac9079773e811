# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where probes sit: functions that come back to their begins are counted once a call."""
import re
import signal

from harness import MODES, NO_RETURNS, Skip, check, check_equal, environment

SPEC = ("name=arena,object=exe,free=give_back(ptr=1),"
        "alloc=looped_alloc(size=1),alloc=tabled_alloc(size=1),alloc=straight_alloc(size=1)")
PLACES = {"looped_alloc": 0, "tabled_alloc": 0, "straight_alloc": 3}


def stepped(shown):
    """How many probes sit on what the kernel does not emulate."""
    return sum(not re.match(r"(push|nop|call|j[a-z]+)( |$)", probe["instruction"])
               for probe in shown["probes"])


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
    check_equal(int(shown["metadata"]["probes_stepped"]), stepped(shown), "probes_stepped")
    found = {probe["function"]: probe["placement"] for probe in shown["probes"]
             if probe["function"] in PLACES}
    check_equal(found, PLACES, "where they sit")
    check(f"{stepped(shown)} on instructions that the kernel single-steps" in
          bench.allocsnap("show", recording.end(signal.SIGINT)[-1])[0], "show says so, too")
    program.is_unharmed()


def test_functions_that_jump_back_to_their_start_are_recorded_exactly(bench):
    if NO_RETURNS:
        raise Skip("where tabled_alloc returns cannot be followed through its table")
    for mode in MODES[:-1]:
        check_prologues(bench, mode)
