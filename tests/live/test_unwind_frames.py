# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tracebacks through frames that are hard to walk: workloads/unwind_frames.c."""
import harness
from unwinding import (BELOW_MAIN, check_chain, check_ends, needs_tables, record)


def check_frames(bench, order, *expected, stopped=None):
    """expected: (size of the blocks, their callers' names)."""
    needs_tables()
    workload = bench.workload("unwind_frames")
    path = record(bench, workload, [order])
    for size, chain in expected:
        check_chain(bench, path, size, chain, 1)
    check_ends(bench, path, stopped)
    workload.is_unharmed()


FROM_MAIN = ["obey_orders", "main", *BELOW_MAIN]


def test_unwind_follows_large_and_realigned_frames(bench):
    check_frames(bench, "large", (101, ["realigned", "large", "larger", *FROM_MAIN]))


def test_unwind_follows_a_call_that_does_not_return(bench):
    check_frames(bench, "no_return", (102, ["leaves", "ends_with_call", "no_return", *FROM_MAIN]))


@harness.core
def test_unwind_follows_signals_on_two_stacks(bench):
    raised = ["__pthread_kill_implementation", "raise", "signals", *FROM_MAIN]
    outer = ["on_outer_signal", "__restore_rt", *raised]
    check_frames(bench, "signals", (103, ["on_inner_signal", "__restore_rt", "__pthread_kill_implementation",
                                  "raise", *outer]),
                 (104, outer))


def test_unwind_follows_a_signal_at_the_first_instruction(bench):
    check_frames(bench, "first_instruction", (105, ["on_illegal", "__restore_rt", "is_interrupted",
                                                    "first_instruction", *FROM_MAIN]))


def test_unwind_leaves_a_modified_vdso(bench):
    """The process has written to its vDSO: what others' callers are found by is not read from it."""
    check_frames(bench, "calls_vdso", (107, ["on_step", "__restore_rt", "[vdso]", "clock_gettime", "calls_vdso",
                                             *FROM_MAIN]))


def test_unwind_follows_a_coroutine_to_its_entry(bench):
    """makecontext() lets it return to a function's first byte: no code that was called."""
    check_frames(bench, "coroutine", (106, ["allocates", "in_coroutine", "libc.so.6"]),
                 stopped={"no_rule": 1})


def test_unwind_ends_at_a_stack_without_callers(bench):
    check_frames(bench, "by_hand", (106, ["allocates", "by_hand"]), stopped={"no_code": 1})
