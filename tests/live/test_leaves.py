# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Calls that are left without returning, and signal handlers inside calls: the totals stay right.

The program reports its own totals (tests/workloads/leaves.c); each test runs in each of the three ways to
see a return.
"""
import signal

from harness import MODES, UNWINDING, check_equal, environment, losses_of


def check_leaves(bench, how, number):
    for mode in MODES:
        leaves = bench.workload("leaves")
        with environment(mode):
            recording = bench.attach([leaves])
        before = bench.show(recording.snapshot())["counters"]
        then = leaves.order("handler 0")[1]
        for _ in range(2):  # blocks of the first are freed in the second
            _, done = leaves.order(f"{how} {number}")
        shown = bench.show(recording.snapshot())
        for name in ("allocations", "frees", "unknown_frees"):
            check_equal(shown["counters"][name] - before[name], done[name] - then[name],
                        f"{name} ({mode})")
        check_equal(shown["blocks"], done["count"] - then["count"], f"blocks ({mode})")
        check_equal(shown["traced_memory"]["current"], done["size"] - then["size"],
                    f"bytes ({mode})")
        losses = losses_of(shown, UNWINDING)
        expected = {"calls_unreturned": done["left"]} if done["left"] else {}
        check_equal(losses, expected, f"losses ({mode})")
        if how == "handler":
            check_equal(shown["counters"]["nested_calls"], 4 * number, "nested calls")
        recording.end(signal.SIGINT)
        leaves.is_unharmed()


def test_call_left_by_longjmp_is_dropped(bench):
    check_leaves(bench, "jump", 1000)


def test_call_left_by_thread_exit_is_dropped(bench):
    """A thread exits inside a realloc: the old block is still there."""
    check_leaves(bench, "exit", 100)


def test_call_left_by_pthread_exit_is_dropped(bench):
    """pthread_exit() unwinds the stack as far as it can; return probes there do no harm."""
    check_leaves(bench, "pthread_exit", 100)


def test_handler_on_the_same_stack_counts_as_nested(bench):
    """A handler's calls look like the allocator's own nested calls: they are counted with the outer call."""
    check_leaves(bench, "handler", 1000)
