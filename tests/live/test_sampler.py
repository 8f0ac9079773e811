# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes that take samples of their own heap and tell them at probes (USDT of provider otel_memory): their samples are
recorded, with the weights that they tell, and nothing of them is left behind.
"""
import math
import os
import signal

import harness
from harness import (ALLOCSNAP, NEVER, NO_LINKS, UNWINDING, WORKLOADS, check, check_equal, environment, keeper_of,
                     losses_of, top_frame, wait_for)
from test_sample import MOST, chance

INTERVAL = 16384  # own_sampler.h
LIBRARY = os.path.join(os.path.abspath(WORKLOADS), "own_sampler.so")
SKIP = ("--skip", "own_*", "--skip", "library_*")  # the sampler's own functions


def rows_of(bench, path):
    """Rows by the function that asked for the blocks."""
    rows = {}
    for row in bench.stats(path, *SKIP)["statistics"]:
        total = rows.setdefault(top_frame(row).get("function"), {"count": 0, "size": 0, "samples": 0})
        for measure in total:
            total[measure] += row.get(measure, 0)
    return rows


def check_rows(bench, path, answers, what, interval=INTERVAL):
    rows = rows_of(bench, path)
    for answer in answers:
        found, size, count = rows.get(answer["row"]), answer["size"], answer["count"]
        check(found and found["samples"] < count, f"{what}: {answer['row']}: {found} is no estimate")
        p = chance(size, interval)
        deviation = math.sqrt(count * (1 - p) / p) + 1
        for unit, name in ((1, "count"), (size, "size")):
            check(abs(found[name] - count * unit) <= MOST * deviation * unit,
                  f"{what}: {answer['row']}: {name} {found[name]}, truth {count * unit} ± {deviation * unit:.0f}")


def check_exact(bench, path, answers, what, more=0):
    """more: small blocks in the first row that the answers do not know."""
    rows = rows_of(bench, path)
    for answer in answers:
        found = rows.get(answer["row"], {"count": 0, "size": 0})
        beyond = (found["count"] - answer["count"], found["size"] - answer["count"] * answer["size"])
        check(beyond == (0, 0) or (0 < beyond[0] <= more and 0 < beyond[1] < 64 * more),
              f"{what}: {answer['row']}: {beyond} more than there are")
        more = 0


def probes_of(shown):
    return sorted(probe["function"] for probe in shown["probes"])


def semaphores(program):
    return program.order("semaphores")[1]


UP, DOWN = {"alloc": 1, "free": 1}, {"alloc": 0, "free": 0}


def check_down(program, what):
    wait_for(lambda: semaphores(program) == DOWN, f"{what}: the semaphores are not 0")


def check_empty(bench, recording, what):
    counters = bench.show(recording.snapshot())["counters"]
    for name in ("current_blocks", "current_bytes", "sampled_blocks"):
        check_equal(counters[name], 0, f"{what}: {name} after all frees")
    check_equal((counters["allocations"], counters["allocated_bytes"]),
                (counters["frees"], counters["freed_bytes"]), f"{what}: freed and allocated")


def check_recorded(bench, recording, program, what):
    """Checks estimates of a new round of blocks, and that nothing is left when all are freed."""
    answers, _ = program.order("go")
    path = recording.snapshot()
    check_rows(bench, path, answers, what)
    shown = bench.show(path)
    check_equal(losses_of(shown, UNWINDING), {}, f"{what}: losses")
    check_equal(probes_of(shown), ["otel_memory:alloc", "otel_memory:free"], f"{what}: probes")
    check_equal([shown["metadata"][f"sampler_{key}"] for key in ("kind", "weights", "unseen")],
                ["own", "as told", "blocks from before"], f"{what}: what is said of the sampler")
    check_equal(shown["counters"]["unknown_frees"], 0, f"{what}: unknown_frees")
    program.order("free")
    check_empty(bench, recording, what)
    return shown


@harness.core
def test_sampler_estimates_are_right(bench):
    """In all ways to attach probes; with a new interval in the middle; in a static program, too."""
    for mode in harness.modes("ALLOCSNAP_NO_UPROBE_MULTI"):
        program = bench.workload("own_sampler")
        with environment(mode):
            recording = bench.attach([program])
        check_equal(semaphores(program), UP, f"semaphores ({mode})")
        shown = check_recorded(bench, recording, program, f"{mode}")
        check_equal(shown["metadata"]["sampler"], os.path.join(os.path.abspath(WORKLOADS), "own_sampler"), "sampler")
        check("takes samples of the heap itself" in recording.stderr(), f"no note: {recording.stderr()!r}")
        recording.end(signal.SIGINT)
        check_down(program, f"{mode}")
        program.is_unharmed()


def test_sampler_in_a_static_program(bench):
    program = bench.workload("own_sampler_static")
    recording = bench.attach([program])
    check_recorded(bench, recording, program, "static")
    recording.end(signal.SIGINT)
    check_down(program, "static")
    program.is_unharmed()


def test_sampler_that_changes_its_interval(bench):
    """Each sample has the weight of its own distance. Both are in one snapshot."""
    program = bench.workload("own_sampler")
    recording = bench.attach([program])
    first, _ = program.order("go")
    program.order("interval 65536")
    program.order("go")
    both = [{**answer, "count": 2 * answer["count"]} for answer in first]
    check_rows(bench, recording.snapshot(), both, "two intervals", interval=65536)
    program.order("free")
    check_empty(bench, recording, "two intervals")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_sampler_is_left_alone_if_asked(bench):
    """--no-sampler, and domains without malloc: every block, by probes on malloc."""
    program = bench.workload("own_sampler")
    recording = bench.attach([program], "--no-sampler")
    check_equal(semaphores(program), DOWN, "semaphores with --no-sampler")
    answers, _ = program.order("go")
    check_exact(bench, recording.snapshot(), answers, "--no-sampler")
    recording.end(signal.SIGINT)
    recording = bench.attach([program], "--domain", "mmap")
    check_equal(semaphores(program), DOWN, "semaphores with --domain mmap")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_sampler_and_two_recorders(bench):
    """Both see all; when one has gone, even by SIGKILL, the other goes on."""
    program = bench.workload("own_sampler")
    first, second = bench.attach([program]), bench.attach([program])
    answers, _ = program.order("go")
    for recording in (first, second):
        check_rows(bench, recording.snapshot(), answers, "two recorders")
    first.end(signal.SIGINT)
    check(all(semaphores(program).values()), "the semaphores fell with the first recorder")
    program.order("free")
    check_recorded(bench, second, program, "the second one")
    third = bench.attach([program])
    keeper = keeper_of(third.pid) if not NO_LINKS else None
    third.kill()
    if keeper:
        wait_for(lambda: not harness.is_running(keeper), "the keeper runs on")
    check_recorded(bench, second, program, "after SIGKILL of the third one")
    second.kill()
    check_down(program, "after SIGKILL")
    program.order("go")
    program.is_unharmed()


def test_sampler_and_forked_children(bench):
    """Children of a recorded process run on; with -f they are recorded, too."""
    program = bench.workload("own_sampler")
    recording = bench.attach([program])
    for _ in range(20):
        check_equal(program.order("fork")[1]["status"], 7 << 8, "status of a child")
    recording.end(signal.SIGINT)
    check_equal(program.order("fork")[1]["status"], 7 << 8, "status of a child, later")
    folder = bench.path("children")
    recording = bench.attach([program], "-f", folder=folder)
    check_equal(program.order("fork")[1]["status"], 7 << 8, "status of a child that is recorded")
    recording.end(signal.SIGINT)
    shown = [bench.show(path) for path in harness.snapshots_below(folder)]
    child = [one for one in shown if int(one["metadata"]["pid"]) != program.pid]
    check_equal(len(child), 1, "snapshots of the child")
    counters, allocated = child[0]["counters"], 20000 * 1000
    deviation = math.sqrt(allocated * (INTERVAL + 1000))
    check(abs(counters["allocated_bytes"] - allocated) < MOST * deviation,
          f"the child allocated {counters['allocated_bytes']}, truth {allocated} ± {deviation:.0f}")
    check_equal(counters["current_bytes"], 0, "live bytes of the child")
    program.is_unharmed()


def test_sampler_that_comes_with_a_library(bench):
    """A library that was loaded before is found like any file; in a process that is recorded already, nothing changes."""
    program = bench.workload("own_sampler")
    program.order(f"load {LIBRARY}")
    recording = bench.attach([program])
    answers, _ = program.order("go")
    path = recording.snapshot()
    check_rows(bench, path, answers, "of a library")
    program.order("free")
    check_empty(bench, recording, "of a library")
    recording.end(signal.SIGINT)
    program.is_unharmed()

    program = bench.workload("own_sampler_late")
    recording = bench.attach([program])
    program.order(f"load {LIBRARY}")
    program.order("go")  # its first tracebacks make the recorder read its unwind table
    program.order("free")
    recording.snapshot()
    answers, _ = program.order("go")
    path = recording.snapshot()
    # Each of the three threads gets memory for the library's thread-local variables.
    check_exact(bench, path, answers, "a library that comes late", more=3)
    check("otel_memory:alloc" not in probes_of(bench.show(path)), "the late sampler is probed")
    recording.end(signal.SIGINT)
    program.is_unharmed()


@harness.alone
def test_sampler_under_record(bench):
    """record finds the sampler of one process beside an exact one. Blocks of before the first sample weigh themselves."""
    program, other = bench.workload("own_sampler"), bench.workload("samples")
    folder = bench.path("record")
    recording = bench.start([ALLOCSNAP, "record", "--pid", str(program.pid), "--pid", str(other.pid), "-o", folder,
                             "--interval", NEVER])
    check_equal(recording.line(), "recording 2 processes", "what record says when it records")
    check_equal(semaphores(program), UP, "semaphores of record")
    answers, _ = program.order("go")
    other_answers, _ = other.order("go")
    recording.popen.send_signal(signal.SIGINT)
    recording.wait()
    found = {int(bench.show(path)["metadata"]["pid"]): path for path in harness.snapshots_below(folder)}
    check_rows(bench, found[program.pid], answers, "record")
    check_exact(bench, found[other.pid], other_answers, "another process, recorded at the same time")
    check_down(program, "record")
    program.is_unharmed()
