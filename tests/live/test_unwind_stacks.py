# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tracebacks on stacks that are short, or that cannot be read: workloads/unwind_stacks.c."""
import harness
from harness import check_equal
from unwinding import (BELOW_MAIN, BELOW_THREAD, check_chain, check_ends, names, needs_tables, record)

FROM_MAIN = ["obey_orders", "main", *BELOW_MAIN]
THREADS, ROUNDS = 8, 3000


def check_stack(bench, order, *expected, stopped=None):
    needs_tables()
    workload = bench.workload("unwind_stacks")
    path = record(bench, workload, [order])
    for size, chain in expected:
        check_chain(bench, path, size, chain, 1)
    check_ends(bench, path, stopped)
    workload.is_unharmed()


def test_unwind_works_near_the_top_of_memory(bench):
    """The rest of the stack is smaller than the window that the unwinder reads at once."""
    needs_tables()
    workload = bench.workload("unwind_stacks")
    workload.write("empty\n")
    workload.ready()
    path = record(bench, workload, ["alone"])
    check_chain(bench, path, 301, ["alone", *FROM_MAIN], 1)
    check_ends(bench, path)
    workload.is_unharmed()


def test_unwind_works_below_a_guard_page(bench):
    check_stack(bench, "at_guard", (302, ["below_guard", "libc.so.6"]), stopped={"no_rule": 1})


def test_unwind_reports_a_stack_that_is_not_in_memory(bench):
    check_stack(bench, "paged_out", (303, ["without_callers"]),
                (304, ["without_callers", "on_shared_stack", "libc.so.6"]),
                stopped={"unreadable": 1, "no_rule": 1})


@harness.core
def test_unwind_works_in_many_threads_at_once(bench):
    """No walk contains frames of another thread, whichever threads ran in between."""
    needs_tables()
    workload = bench.workload("unwind_stacks")
    path = record(bench, workload, ["threads"])
    rows = bench.stats(path, "--group-by", "traceback", "--measure", "allocated")["statistics"]
    found = {tuple(names(row)): row["count"] for row in rows if names(row)[0] == "at_depth"}
    expected = {tuple(["at_depth"] * (5 * i + 1) + ["in_thread", *BELOW_THREAD]): ROUNDS
                for i in range(THREADS)}
    check_equal(found, expected, "tracebacks of the threads' blocks")
    check_ends(bench, path)
    workload.is_unharmed()
