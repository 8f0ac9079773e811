# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--max-overhead of recordings by rules: links of each process take turns with shared ones, and one process pauses
alone. ALLOCSNAP_LINKS_EVERY_MS=N makes them change every N ms. All programs have a C library of their own."""
import json
import os
import shutil

import harness
from harness import WORKLOADS, Workload, changed_places, check, check_equal, check_unchanged, environment, wait_for
from test_budget import (check_gaps, check_ledger, check_quiet_ones, is_in_gap, need_links, pausing_every,
                         work_beside_others)
from test_record import World

MARKS = ("alone",)


def links_every(ms):
    return environment("ALLOCSNAP_LINKS_EVERY_MS", ms)


def paced_in(world, name="paced"):
    program = world.bench.path(name)
    if not os.path.exists(program):
        shutil.copy(os.path.join(WORKLOADS, "paced"), program)
    return world.bench.start([program], kind=Workload, env=world.environment).ready()


@harness.core
def test_budget_rules_links_that_change_count_each_event_once(bench):
    """Links of each process and shared ones take turns every 15 ms, while all four allocate and free."""
    need_links()
    world = World(bench)
    paced = [paced_in(world) for _ in range(4)]
    before = changed_places(paced[0].pid)
    with links_every(15):
        recorder = world.record("--comm", "paced")
    for process in paced:
        process.write("pace 3000 4000 300\n")
    done = [json.loads(process.line(20))["done"] for process in paced]
    paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
    for process, answer in zip(paced, done):
        shown = bench.show(paths[process.pid])
        counters, unreturned = shown["counters"], shown["losses"].get("calls_unreturned", 0)
        # realloc(malloc(16)) counts twice
        made = answer["pairs"] + 4 * answer["kept"]
        check_equal(shown.get("gaps", []), [], "gaps")
        check(made - unreturned <= counters["allocations"] <= made + 20,
              f"{counters['allocations']} allocations of {made}, {unreturned} calls lost")
        check_equal(counters["allocations"] - counters["frees"], shown["blocks"], "blocks")
        check(counters["unknown_frees"] <= unreturned, f"{counters['unknown_frees']} unknown frees")
        if not unreturned:
            check_ledger(bench, paths[process.pid], process.order("ledger")[0], "links that change")
    # a thread that loses its CPU inside a call while links change: one for each change at most
    for shown in map(bench.show, paths.values()):
        lost, metadata = shown["losses"].get("calls_unreturned", 0), shown["metadata"]
        lasted = metadata["monotonic_ns"] - metadata["recording_start_monotonic_ns"]
        check(lost <= lasted / 15e6 + 1, f"{lost} calls are lost in {lasted / 1e9} s")
    recorder.end()
    for process in paced:
        check_unchanged(process.pid, "at the end", before)
        process.is_unharmed()


def test_budget_rules_links_that_change_find_new_processes(bench):
    """Processes that come while each has links of its own are recorded, and have a gap until then."""
    need_links()
    world = World(bench)
    with links_every(100):
        recorder = world.record("--comm", "late*")
    late = []
    for i in range(12):
        late.append(world.holds(f"late{i}"))
    paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
    for process in late:
        if process.pid in paths:
            check_gaps(bench.show(paths[process.pid]))
    more = [paced_in(world, "late.paced") for _ in range(2)]

    def are_recorded():
        paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
        return all(process.pid in paths and not is_in_gap(bench.show(paths[process.pid])) for process in more)

    wait_for(are_recorded, "those that came late are recorded", 60)
    for process in more:
        process.order("pace 300 1000 300")
    paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
    for process in more:
        check_ledger(bench, paths[process.pid], process.order("ledger")[0], "a process that came late")
    recorder.end()


def test_budget_rules_links_and_pauses_that_change_keep_the_totals_exact(bench):
    """The kernel's sums equal the sums of the blocks, whatever changes at the same time."""
    need_links()
    world = World(bench)
    paced = [paced_in(world) for _ in range(3)]
    with links_every(12), pausing_every(5):
        recorder = world.record("--comm", "paced")
    for process in paced:
        process.write("pace 1500 10000 500\n")
    for process in paced:
        process.line(20)
    paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
    for process in paced:
        shown = bench.show(paths[process.pid])
        check(check_gaps(shown) > 0, "no gaps")
        check_equal(shown["counters"]["allocations"] - shown["counters"]["frees"], shown["blocks"], "blocks")
        check_equal(shown["losses"].get("blocks_replaced", 0), 0, "blocks_replaced")
    recorder.end()


def test_budget_rules_pause_the_spender_alone(bench):
    """Four processes that cost little are recorded without gaps beside one that pauses, though rules selected all."""
    need_links()
    world = World(bench)
    quiet = [paced_in(world) for _ in range(4)]
    program = bench.path("pp")
    shutil.copy(os.path.join(WORKLOADS, "pairs"), program)
    busy = bench.start([program], kind=Workload, env=world.environment).ready()
    recorder = world.record("--comm", "paced", "--comm", "pp", "--max-overhead", "10")
    for process in quiet:
        process.write("pace 5000 0 25\n")
    work_beside_others(bench, recorder, busy)
    for process in quiet:
        process.line(20)
    check_quiet_ones(bench, recorder, busy, quiet)
    check("the recording of it pauses" in recorder.stderr(), f"the process is not named: {recorder.stderr()!r}")
    recorder.end()
