# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Calls that are left without returning, and handlers inside calls: the books stay right.

The program says what its books should be (tests/workloads/leaves.c); each test is made in each of the
three ways to see a return.
"""
import signal

from harness import MODES, UNWINDING, check_equal, environment


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
        losses = {name: n for name, n in shown["losses"].items() if n and name not in UNWINDING}
        expected = {"calls_unreturned": done["left"]} if done["left"] else {}
        check_equal(losses, expected, f"losses ({mode})")
        if how == "handler":
            check_equal(shown["counters"]["nested_calls"], 4 * number, "nested calls")
        recording.end(signal.SIGINT)
        leaves.is_unharmed()


def test_leaves_by_longjmp(bench):
    check_leaves(bench, "jump", 1000)


def test_leaves_by_thread_exit(bench):
    """Inside a realloc: what it would have freed is still there."""
    check_leaves(bench, "exit", 100)


def test_leaves_by_pthread_exit(bench):
    """The unwinder ends where it can go no further; that is no harm there."""
    check_leaves(bench, "pthread_exit", 100)


def test_leaves_handler_on_the_same_stack(bench):
    """It can't be told from the allocator's own calls: counted with the call that it is in."""
    check_leaves(bench, "handler", 1000)
