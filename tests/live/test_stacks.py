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
from harness import UNWINDING, WORKLOADS, Workload, check, check_equal, environment, losses_of, tool, wait_for

OUTER_CALLS = int(os.environ.get("OUTER_CALLS", "20000"))
NO_SESSION = "ALLOCSNAP_NO_UPROBE_SESSION"
NO_LINKS = "ALLOCSNAP_NO_UPROBE_MULTI"
NO_RETURN = "ALLOCSNAP_NO_UPROBE_RETURN"


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


def check_stacks(bench, how, losses, name=None, kind=None, outer_calls=OUTER_CALLS):
    """Two rounds: blocks of the first are freed in the second."""
    stacks = start_stacks(bench)
    with environment(name):
        recording = bench.attach([stacks])
    for _ in range(2):
        metadata = check_round(bench, stacks, recording, f"{how} {outer_calls}", losses)
    if kind:
        check_equal(metadata["probe_kind"], kind, "probe_kind")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


@harness.core
def test_handler_on_a_stack_above_is_declined(bench):
    check_stacks(bench, "above", {"calls_declined"})


def test_handler_on_a_stack_below_is_declined(bench):
    check_stacks(bench, "below", {"calls_declined"})


@harness.core
def test_coroutines_inside_calls_are_declined(bench):
    check_stacks(bench, "coroutines", {"calls_declined"})


def test_calls_64_deep_are_recorded(bench):
    check_stacks(bench, "nested", set())


def test_handler_on_a_stack_above_is_declined_without_sessions(bench):
    check_stacks(bench, "above", {"calls_declined"}, NO_SESSION, "uprobe_ret")


def test_handler_on_a_stack_below_is_declined_without_sessions(bench):
    check_stacks(bench, "below", {"calls_declined"}, NO_SESSION, "uprobe_ret")


def test_coroutines_inside_calls_are_declined_without_sessions(bench):
    check_stacks(bench, "coroutines", {"calls_declined"}, NO_SESSION, "uprobe_ret")


def test_calls_64_deep_are_recorded_without_return_probes(bench):
    """Each outer call contains 64 nested ones, whose ends are single-stepped."""
    check_stacks(bench, "nested", set(), NO_RETURN, "uprobe_ret", OUTER_CALLS // 10)


def test_calls_on_all_stacks_are_recorded_without_return_probes(bench):
    stacks = start_stacks(bench)
    with environment(NO_RETURN):
        recording = bench.attach([stacks])
    for how in ("above", "below", "coroutines", "nested"):
        calls = OUTER_CALLS // (20 if how == "nested" else 4)
        metadata = check_round(bench, stacks, recording, f"{how} {calls}", {"calls_declined"})
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


def test_calls_64_deep_are_recorded_with_return_probes(bench):
    """The kernel hijacks no more than 64 return addresses of a thread at once."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(NO_SESSION):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, f"nested {OUTER_CALLS // 10}", set())
    check_equal(metadata["probe_kind"], "uprobe_multi", "probe_kind")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


def test_coroutines_are_detected_by_the_symbols_that_a_program_imports(bench):
    """The program has no symbol table; only the dynamic symbols that it imports are left."""
    stripped = bench.path("coroutine")
    bench.run([tool("strip"), "-o", stripped, os.path.join(WORKLOADS, "coroutine")])
    program = bench.start([stripped], kind=Workload).ready()
    with environment(NO_SESSION):
        recording = bench.attach([program])
    _, done = program.order("go 5000")
    shown = bench.show(recording.snapshot())
    check_equal((shown["blocks"], shown["traced_memory"]["current"]), (done["count"], done["size"]),
                "blocks, bytes")
    check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
    check("swapcontext" in recording.stderr(), f"stderr: {recording.stderr()!r}")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def check_late(bench, how, name, kind):
    """No sign tells in advance what the program will do: the recorder notices it afterwards."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(name):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, "nested 100", set())
    check_equal(metadata["probe_kind"], kind, "probe_kind before")
    metadata = check_round(bench, stacks, recording, f"{how} {OUTER_CALLS} 3", {"calls_declined"})
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind after")
    lines = recording.stderr().splitlines()
    check(len(lines) == 1 and "alternate signal stack" in lines[0], f"stderr: {lines}")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


def test_alternate_stack_set_later_is_noticed(bench):
    check_late(bench, "above", NO_SESSION, "uprobe_multi")


def test_alternate_stack_set_later_is_noticed_with_perf_uprobes(bench):
    check_late(bench, "above", NO_LINKS, "uprobe")


def check_switch(bench, name):
    """Return probes are taken away from a program that allocates all the time: no call is lost."""
    stacks = start_stacks(bench, "stacks_late")
    with environment(name):
        recording = bench.attach([stacks])
    metadata = check_round(bench, stacks, recording, "churn 4", set())
    check_equal(metadata["probe_kind"], "uprobe_ret", "probe_kind")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


def test_switch_of_probes_during_calls_loses_nothing(bench):
    check_switch(bench, NO_SESSION)


def test_switch_of_probes_during_calls_loses_nothing_with_perf_uprobes(bench):
    check_switch(bench, NO_LINKS)


def check_dropped(bench, name, kind):
    """A function that cannot go without a return probe is dropped, its neighbours lose nothing."""
    program = bench.workload("dropped")
    with environment(name):
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
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_switch_of_probes_counts_a_function_that_it_drops(bench):
    check_dropped(bench, NO_SESSION, "uprobe_multi")


def test_switch_of_probes_counts_a_function_that_it_drops_with_perf_uprobes(bench):
    check_dropped(bench, NO_LINKS, "uprobe")


def check_dispatched(bench, name=None):
    """The return from a hijacked call would go to the program's handler."""
    stacks = start_stacks(bench)
    stacks.order("dispatched 10")
    with environment(name):
        recording = bench.attach([stacks])
    stacks.order("dispatched 5000")
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"]["allocations"], 10000, "allocations")
    check_equal(shown["traced_memory"]["current"], 48, "bytes")
    check_equal(losses_of(shown, UNWINDING), {}, "losses")
    check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
    check("handles its system calls itself" in recording.stderr(), f"stderr: {recording.stderr()!r}")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()


@harness.core
def test_system_calls_that_go_to_a_handler_end_no_program(bench):
    check_dispatched(bench)


def test_system_calls_that_go_to_a_handler_end_no_program_without_sessions(bench):
    check_dispatched(bench, NO_SESSION)


@harness.core
def test_calls_are_declined_once_system_calls_go_to_a_handler(bench):
    stacks = start_stacks(bench)
    recording = bench.attach([stacks])
    stacks.order("dispatched 5000")
    shown = bench.show(recording.snapshot())
    check_equal(losses_of(shown, UNWINDING), {"calls_declined": 10000}, "losses")
    check_equal(shown["blocks"], 0, "blocks")
    recording.end(signal.SIGINT)
    stacks.is_unharmed()
