# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Allocator calls inside allocator calls on other stacks: the target survives, its totals are right.

A return probe on such a call can make the kernel lose the outer call's return address and end the
process with SIGILL; see src/collect/probe/uprobe_multi.h. Kernels before 6.13 have no sessions: such a
target is recorded without return probes there.
"""
import os
import shutil
import signal

import harness
from harness import (MODES, NO_LINKS, UNWINDING, WITHOUT_LINKS, WITHOUT_RETURNS, WITHOUT_SESSIONS, WORKLOADS, Skip,
                     Workload, check, check_equal, environment, losses_of, rows_of_file, tool, wait_for)

OUTER_CALLS = int(os.environ.get("OUTER_CALLS", "20000"))
DECLINED = {"calls_declined"}
BY_LINKS = "uprobe" if NO_LINKS else "uprobe_multi"  # probe_kind without sessions


def start_stacks(bench, name="stacks"):
    """Each test has a file of its own: recordings of two processes of one file endanger them (docs/limits.md)."""
    program = shutil.copy(os.path.join(WORKLOADS, name), bench.path(name))
    return bench.start([program], kind=Workload).ready()


def check_round(bench, stacks, recording, how, losses):
    """Gives one order, and compares the snapshot with the program's answer. Returns the metadata."""
    _, done = stacks.order(how)
    shown = bench.show(recording.snapshot())
    for name in ("allocations", "frees", "unknown_frees"):
        check_equal(shown["counters"][name], done[name], f"{how}: {name}")
    if how.startswith("nested"):
        check(shown["counters"]["nested_calls"] >= int(how.split()[1]) * 126,
              f"63 mallocs and 63 frees inside each call: {shown['counters']['nested_calls']}")
    check_equal(shown["blocks"], done["count"], f"{how}: blocks")
    check_equal(shown["traced_memory"]["current"], done["size"], f"{how}: bytes")
    check_equal(set(losses_of(shown, UNWINDING)), losses, f"{how}: losses")
    return shown["metadata"]


@harness.rows({
    "above": ("above", DECLINED),
    "below": ("below", DECLINED),
    "coroutines": ("coroutines", DECLINED),
    "nested": ("nested", set()),
    "above_without_sessions": ("above", DECLINED, WITHOUT_SESSIONS, "uprobe_ret"),
    "below_without_sessions": ("below", DECLINED, WITHOUT_SESSIONS, "uprobe_ret"),
    "coroutines_without_sessions": ("coroutines", DECLINED, WITHOUT_SESSIONS, "uprobe_ret"),
    # Each outer call contains 64 nested ones, whose ends are single-stepped.
    "nested_without_return_probes": ("nested", set(), WITHOUT_RETURNS, "uprobe_ret", OUTER_CALLS // 10),
}, of_core=("above", "coroutines"))
def test_stacks(bench, how, losses, mode=None, kind=None, outer_calls=OUTER_CALLS):
    """Two rounds: blocks of the first are freed in the second."""
    stacks = start_stacks(bench)
    with environment(mode):
        recording = bench.attach([stacks])
    for _ in range(2):
        metadata = check_round(bench, stacks, recording, f"{how} {outer_calls}", losses)
    if kind:
        check_equal(metadata["probe_kind"], kind, "probe_kind")


def test_calls_on_all_stacks_are_recorded_without_return_probes(bench):
    stacks = start_stacks(bench)
    with environment(WITHOUT_RETURNS):
        recording = bench.attach([stacks])
    for how in ("above", "below", "coroutines", "nested"):
        calls = OUTER_CALLS // (20 if how == "nested" else 4)
        metadata = check_round(bench, stacks, recording, f"{how} {calls}", {"calls_declined"})
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind")


def test_calls_64_deep_are_recorded_with_return_probes(bench):
    """The kernel hijacks no more than 64 return addresses of a thread at once."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(WITHOUT_SESSIONS):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, f"nested {OUTER_CALLS // 10}", set())
    check_equal(metadata["probe_kind"], BY_LINKS, "probe_kind")


def test_coroutines_are_detected_by_the_symbols_that_a_program_imports(bench):
    """The program has no symbol table; only the dynamic symbols that it imports are left."""
    stripped = bench.path("coroutine")
    bench.run([tool("strip"), "-o", stripped, os.path.join(WORKLOADS, "coroutine")])
    program = bench.start([stripped], kind=Workload).ready()
    with environment(WITHOUT_SESSIONS):
        recording = bench.attach([program])
    _, done = program.order("go 5000")
    shown = bench.show(recording.snapshot())
    check_equal((shown["blocks"], shown["traced_memory"]["current"]), (done["count"], done["size"]),
                "blocks, bytes")
    check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
    check("swapcontext" in recording.stderr(), f"stderr: {recording.stderr()!r}")


@harness.rows({"with_links": (WITHOUT_SESSIONS, BY_LINKS), "with_perf_uprobes": (WITHOUT_LINKS, "uprobe")})
def test_alternate_stack_set_later_is_noticed(bench, mode, kind):
    """No sign shows in advance what the program will do: the recorder notices it afterwards."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(mode):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, "nested 100", set())
    check_equal(metadata["probe_kind"], kind, "probe_kind before")
    metadata = check_round(bench, stacks, recording, f"above {OUTER_CALLS} 3", {"calls_declined"})
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind after")
    lines = recording.said()
    check(len(lines) == 1 and "alternate signal stack" in lines[0], f"stderr: {lines}")


@harness.rows({"with_links": (WITHOUT_SESSIONS,), "with_perf_uprobes": (WITHOUT_LINKS,)})
def test_switch_of_probes_during_calls_loses_nothing(bench, mode):
    """Return probes are taken away from a program that allocates all the time: no call is lost."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(mode):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, "churn 4", set())
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind")


@harness.rows({"with_links": (WITHOUT_SESSIONS, BY_LINKS), "with_perf_uprobes": (WITHOUT_LINKS, "uprobe")})
def test_switch_of_probes_counts_a_function_that_it_drops(bench, mode, kind):
    """A function that cannot go without a return probe is dropped, its neighbours lose nothing."""
    program = bench.workload("dropped")
    with environment(mode):
        recording = bench.attach([program], *(
            f"--probe=name={how},object=exe,alloc={how}_alloc(size=1),free={how}_free(ptr=1)"
            for how in ("easy", "hard")))
    check_equal(bench.show(recording.snapshot())["metadata"]["probe_kind"], kind, "probe_kind before")
    program.order("go 8000")
    wait_for(lambda: "cannot probe hard_alloc" in recording.stderr(), "the switch")
    _, done = program.order("go 100")
    path = recording.snapshot()
    shown = bench.show(path)
    came = {row["key"]: row["count"] for row in
            bench.stats(path, "--group-by", "function", "--measure", "allocated")["statistics"]}
    live = {row.get("name"): row["count"] for row in
            bench.stats(path, "--group-by", "domain")["statistics"]}
    check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind after")
    check_equal(shown["losses"]["functions_dropped"], 1, "functions_dropped")
    check_equal([came["make_easy"], live["easy"]], done["easy"], "what easy_alloc gave out, what is live")
    check(0 < came["make_hard"] < done["hard"][0], f"hard_alloc: {came['make_hard']} of {done['hard'][0]}")
    check("hard_alloc" not in [probe["function"] for probe in shown["probes"]], "it is no probe any more")


@harness.rows({"with_sessions": (None,), "without_sessions": (WITHOUT_SESSIONS,)}, of_core=("with_sessions",))
def test_system_calls_that_go_to_a_handler_end_no_program(bench, mode):
    """The return from a hijacked call would go to the program's handler."""
    stacks = start_stacks(bench)
    stacks.order("dispatched 10")
    with environment(mode):
        recording = bench.attach([stacks])
    stacks.order("dispatched 5000")
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"]["allocations"], 10000, "allocations")
    check_equal(shown["traced_memory"]["current"], 48, "bytes")
    check_equal(losses_of(shown, UNWINDING), {}, "losses")
    check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
    check("handles its system calls itself" in recording.stderr(), f"stderr: {recording.stderr()!r}")


@harness.core
def test_calls_are_declined_once_system_calls_go_to_a_handler(bench):
    if harness.NO_SESSIONS:
        raise Skip("only uprobe sessions decline calls")
    stacks = start_stacks(bench)
    recording = bench.attach([stacks])
    stacks.order("dispatched 5000")
    shown = bench.show(recording.snapshot())
    check_equal(losses_of(shown, UNWINDING), {"calls_declined": 10000}, "losses")
    check_equal(shown["blocks"], 0, "blocks")


# ---- leaves ----
#
# Calls that are left without returning, and signal handlers inside calls: the totals stay right. The program reports
# its own totals (tests/workloads/leaves.c); each test runs in each of the three ways to see a return.

@harness.rows({
    "longjmp": ("jump", 1000),
    "thread_exit": ("exit", 100),  # inside a realloc: the old block is still there
    # pthread_exit() unwinds the stack as far as it can; return probes there do no harm
    "pthread_exit": ("pthread_exit", 100),
    # a handler's calls look like the allocator's own nested calls: they are counted with the outer call
    "handler_on_the_same_stack": ("handler", 1000),
})
def test_calls_left_by(bench, how, number):
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


# ---- throws ----
#
# Exceptions that leave a probed function: the program catches them as it would without us. Blocks of the same
# functions are freed with their size and alignment. The unwinder reads return addresses. At one that a return probe
# has hijacked it finds no way on, and ends the program (std::terminate).

ROUNDS = 200


def kept(bench, path):
    """(count, size) of what the program holds."""
    rows = [row for (function, _), row in rows_of_file(bench.stats(path), "throws.cc").items()
            if function in ("keep()", "keep_aligned()")]
    return sum(count for count, _ in rows), sum(size for _, size in rows)


def installed(library):
    path = f"/usr/lib/{harness.MULTIARCH}/{library}"
    if not os.path.exists(path):
        raise Skip(f"{path} is not installed")
    return path


@harness.rows({"jemalloc": ("libjemalloc.so.2",), "tcmalloc": ("libtcmalloc_minimal.so.4",)})
def test_exceptions_pass_operator_new_of(bench, library):
    """Attached to, in each of the three ways to see a return."""
    for mode in MODES:
        with environment("LD_PRELOAD", installed(library)):
            throws = bench.workload("throws")
        with environment(mode):
            recording = bench.attach([throws])
        for rounds in (1, 2):
            _, done = throws.order(f"go {ROUNDS}")
            check_equal(done["caught"], 2 * ROUNDS * rounds, "exceptions caught")
        full = recording.snapshot()
        check_equal(kept(bench, full), (done["count"], done["size"]), f"blocks kept ({mode})")
        throws.order("free")
        empty = recording.snapshot()
        check_equal(kept(bench, empty), (0, 0), f"blocks kept that were freed ({mode})")
        counters = [bench.show(path)["counters"] for path in (full, empty)]
        frees, unknown = (counters[1][name] - counters[0][name] for name in
                          ("frees", "unknown_frees"))
        check_equal((frees, unknown), (done["count"], 0), f"frees, unknown ones ({mode})")
        recording.end(signal.SIGINT)
        throws.is_unharmed()


def test_operator_new_that_jumps_to_malloc_counts_once(bench):
    """A jump makes the call malloc's: a pending call of operator new would hide the return of malloc."""
    with environment("LD_PRELOAD", os.path.join(WORKLOADS, "own_new.so")):
        workload = bench.workload("throws")
    for mode in MODES:
        with environment(mode):
            recording = bench.attach([workload])
        workload.order(f"go {ROUNDS}")
        rows = rows_of_file(bench.stats(recording.snapshot()), "throws.cc")
        found = [value for (function, _), value in rows.items() if function == "keep()"]
        check_equal(found, [(ROUNDS, ROUNDS * 83)], f"blocks of keep() ({mode})")
        recording.end(signal.SIGINT)
