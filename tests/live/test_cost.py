# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of recording: every trap is counted, and the time of all traps is a part of the CPU time."""
import json
import signal

import harness
from harness import ALLOCSNAP, NO_RETURNS, check, check_equal

PAIRS = 20000


def traps(shown):
    counters = shown["counters"]
    return tuple(counters[name] for name in ("entry_traps", "stepped_traps", "return_traps"))


@harness.core
def test_cost_counts_each_trap(bench):
    """A malloc is a trap at its entry and one at its return, a free one."""
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    pairs.order(f"go 1 {PAIRS}")
    pairs.write("quit\n")
    pairs.wait()
    entry, stepped, returned = traps(bench.show(recording.end()[-1]))
    # glibc may make a call or two more at its end
    calls, rets = (entry, stepped) if NO_RETURNS else (entry + stepped, returned)
    check(2 * PAIRS <= calls <= 2 * PAIRS + 5, f"traps at entries: {calls} of {2 * PAIRS}")
    check(PAIRS <= rets <= PAIRS + 5, f"traps at returns: {rets} of {PAIRS}")


def test_cost_counts_each_trap_of_threads(bench):
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    pairs.order(f"go 4 {PAIRS}")
    pairs.write("quit\n")
    pairs.wait()
    shown = bench.show(recording.end()[-1])
    counters = shown["counters"]
    frees = counters["frees"] + counters["unknown_frees"]
    got = counters["allocations"] + counters["failed_calls"]
    # nested calls and free(NULL) are traps, too; both are rare here
    least = frees + got
    check(least <= sum(traps(shown)[:2]) - (got if NO_RETURNS else 0) <= least + 100,
          f"traps at entries: {traps(shown)}, calls: {least}")
    check(counters["allocations"] >= 4 * PAIRS, f"allocations: {counters['allocations']}")


def check_stepped(measure):
    """A trap with a single step costs more. Other work makes what is measured larger: the least of ten."""
    least = measure()
    for _ in range(9):
        if 0 < least[0] < least[1]:
            break
        least = tuple(map(min, least, measure()))
    check(0 < least[0] < least[1], f"a trap {least[0]} ns, with a step {least[1]} ns")


def check_cost(metadata, counters):
    """The numbers are consistent: each part is less than the whole, and the parts add up."""
    check_equal(int(metadata["cost_is_estimated"]), 1, "cost_is_estimated")
    for name in ("cost_entry_ns", "cost_stepped_ns", "cost_return_ns"):
        check(100 < metadata[name] < 10**6, f"{name}: {metadata[name]}")
    cost = (counters["entry_traps"] * metadata["cost_entry_ns"] +
            counters["stepped_traps"] * metadata["cost_stepped_ns"] +
            counters["return_traps"] * metadata["cost_return_ns"] + counters["program_ns"])
    check_equal(metadata["cost_ns"], cost, "cost_ns")
    check(counters["program_ns"] > 0, "the programs took no time")


def test_cost_is_in_snapshots(bench):
    pairs = bench.workload("pairs")

    def measure():
        metadata = bench.show(bench.attach([pairs]).end(signal.SIGINT)[-1])["metadata"]
        return metadata["cost_entry_ns"], metadata["cost_stepped_ns"]

    check_stepped(measure)
    recording = bench.attach([pairs])
    pairs.order("go 1 100000")
    shown = bench.show(recording.snapshot())
    check_cost(shown["metadata"], shown["counters"])
    first = shown["metadata"]
    pairs.order("go 1 100000")
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    check_cost(shown["metadata"], shown["counters"])
    check(shown["metadata"]["cost_ns"] > first["cost_ns"], "the cost does not grow")
    check(shown["metadata"]["cpu_ns"] > first["cpu_ns"], "the CPU time does not grow")


def test_cost_continues_when_traces_are_cleared(bench):
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    pairs.order("go 1 20000")
    before = traps(bench.show(recording.snapshot()))
    recording.clear()
    after = bench.show(recording.snapshot())
    check(sum(traps(after)) >= sum(before), f"{traps(after)} after {before}")
    recording.end(signal.SIGINT)


def test_cost_of_children_is_counted_separately(bench):
    """A child's cost counts from its fork on; the parent's cost does not include it. Of a process that has ended the CPU
    time is what the kernel had added up by then: the child waits for that."""
    out = bench.path("out")
    paths, _ = bench.run([ALLOCSNAP, "run", "-f", "-o", out, "--", "sh", "-c",
                          "sh -c 'perl -e \"1 until (times)[0]\"; exit 0'; exit 0"], seconds=60)
    shown = [bench.show(path) for path in paths.splitlines() if path.endswith(".snap")]
    check(len(shown) > 1, f"no children: {paths}")
    for snapshot in shown:
        if snapshot["counters"]["program_ns"]:
            check_cost(snapshot["metadata"], snapshot["counters"])
        if snapshot["metadata"]["comm"] == "perl":
            check(snapshot["metadata"]["cpu_ns"] > 0, f"no CPU time: {snapshot['metadata']}")
    check("perl" in {snapshot["metadata"]["comm"] for snapshot in shown}, f"no child: {paths}")


def test_cost_of_a_trap_is_in_doctor(bench):
    def measure():
        costs = json.loads(bench.allocsnap("doctor", "--json")[0])["machine"]["trap_costs"]
        check(costs["return_ns"] > 0, f"costs: {costs}")
        return costs["entry_ns"], costs["stepped_ns"]

    check_stepped(measure)
    check("cost of a trap" in bench.allocsnap("doctor", "-v")[0], "not in the text")
