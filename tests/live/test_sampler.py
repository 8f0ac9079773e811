# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes that take samples of their own heap and report them at probes (USDT of provider otel_memory). allocsnap
records the samples with the reported weights, and leaves nothing behind in the process.
"""
import json
import math
import os
import signal

import harness
from harness import (ALLOCSNAP, NEVER, NO_LINKS, UNWINDING, WORKLOADS, Failure, check, check_equal, environment,
                     link_holder_of, losses_of, top_frame, wait_for)
from test_sample import MOST, chance
import truth

INTERVAL = 16384  # own_sampler.h
LIBRARY = os.path.join(WORKLOADS, "own_sampler.so")
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
    before = bench.show(recording.snapshot())["counters"]["unknown_frees"]
    answers, _ = program.order("go")
    path = recording.snapshot()
    check_rows(bench, path, answers, what)
    shown = bench.show(path)
    check_equal(losses_of(shown, UNWINDING), {}, f"{what}: losses")
    check_equal(probes_of(shown), ["otel_memory:alloc", "otel_memory:free"], f"{what}: probes")
    check_equal([shown["metadata"][f"sampler_{key}"] for key in ("kind", "weights", "unseen")],
                ["own", "as told", "blocks from before"], f"{what}: what is said of the sampler")
    check_equal(shown["counters"]["unknown_frees"], before, f"{what}: unknown_frees")
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
        check_equal(shown["metadata"]["sampler"], os.path.join(WORKLOADS, "own_sampler"), "sampler")
        check("takes samples of the heap itself" in recording.stderr(), f"no note: {recording.stderr()!r}")
        recording.end(signal.SIGINT)
        check_down(program, f"{mode}")
        program.is_unharmed()


def test_sampler_in_a_static_program(bench):
    program, recording = bench.recorded("own_sampler_static")
    check_recorded(bench, recording, program, "static")
    recording.end(signal.SIGINT)
    check_down(program, "static")


def test_sampler_of_another_provider(bench):
    program, recording = bench.recorded("own_sampler_ddheap")
    check_recorded(bench, recording, program, "ddheap")


def test_sampler_without_frees_has_what_was_allocated(bench):
    """It is not known what lives: no row does, and each answer says so."""
    program = bench.workload("own_sampler_no_frees")
    recording = bench.attach([program])
    check("It reports no frees" in recording.stderr(), recording.stderr())
    program.order("go")
    program.order("free")
    path = recording.snapshot()
    check_equal(bench.stats(path)["total"]["size"], 0, "live bytes")
    made = sum(3 * nr * size for nr, size in ((12000, 48), (1500, 700), (150, 30000), (8000, 200)))
    found = bench.stats(path, "--measure", "allocated")["total"]["size"]
    check(abs(found - made) < made / 5, f"{found} bytes allocated, truth {made}")
    check_doubted(bench, path, "reports no frees")


def check_doubted(bench, path, reason):
    """Estimates without intervals, a warning, and no verdict."""
    said = bench.stats(path)
    check(any(reason in line for line in said["warnings"]), f"{said.get('warnings')}")
    check(not any("size_low" in row for row in said["statistics"]), "an interval")


@harness.rows({"weights": ("excess 190", "weights that cannot be"), "frees_unreported": ("unreported 10", "does not report all frees")})
def test_sampler_that_is_wrong_is_doubted(bench, lie, reason):
    program, recording = bench.recorded("own_sampler")
    program.order("interval 1024")
    program.order("churn 2000")
    program.order("go")
    path = recording.snapshot()
    said = bench.stats(path)
    check(not said.get("warnings"), f"a right one: {said.get('warnings')}")
    program.order(lie)
    program.order("churn 2000")
    program.order("go")
    check_doubted(bench, recording.snapshot(), reason)


def test_sampler_whose_traces_were_cleared_is_not_doubted(bench):
    """It reports frees of blocks that were forgotten."""
    program, recording = bench.recorded("own_sampler")
    program.order("go")
    recording.clear()
    check_equal(bench.show(recording.snapshot())["metadata"]["clear_count"], 1, "clearings")
    program.order("free")
    path = recording.snapshot()
    check(bench.show(path)["counters"]["unknown_frees"], "no block from before the clearing was freed")
    check(not bench.stats(path).get("warnings"), f"{bench.stats(path).get('warnings')}")


def test_sampler_with_other_pointers_at_frees_is_doubted(bench):
    """Known only where the recording has begun with the process."""
    orders = bench.path("orders")
    with open(orders, "w", encoding="ascii") as out:
        out.write("misdirected 10\nchurn 3000\nquit\n")
    program = os.path.join(WORKLOADS, "own_sampler")
    stdout, _ = bench.run(["/bin/sh", "-c", f'exec "$@" <{orders}', "sh", ALLOCSNAP, "run", "-o", bench.path("out"), "--", program])
    check_doubted(bench, stdout.split()[-1], "blocks that it has not reported")


def test_sampler_that_changes_its_interval(bench):
    """Each sample has the weight of its own distance. Both are in one snapshot."""
    program, recording = bench.recorded("own_sampler")
    first, _ = program.order("go")
    program.order("interval 65536")
    program.order("go")
    both = [{**answer, "count": 2 * answer["count"]} for answer in first]
    check_rows(bench, recording.snapshot(), both, "two intervals", interval=65536)
    program.order("free")
    check_empty(bench, recording, "two intervals")


def test_sampler_is_left_alone_if_asked(bench):
    """--no-sampler, and domains without malloc: every block, by probes on malloc."""
    program, recording = bench.recorded("own_sampler", "--no-sampler")
    check_equal(semaphores(program), DOWN, "semaphores with --no-sampler")
    answers, _ = program.order("go")
    check_exact(bench, recording.snapshot(), answers, "--no-sampler")
    recording.end(signal.SIGINT)
    recording = bench.attach([program], "--domain", "mmap")
    check_equal(semaphores(program), DOWN, "semaphores with --domain mmap")


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
    link_holder = link_holder_of(third.pid) if not NO_LINKS else None
    third.kill()
    if link_holder:
        wait_for(lambda: not harness.is_running(link_holder), "the link holder runs on")
    check_recorded(bench, second, program, "after SIGKILL of the third one")
    second.kill()
    check_down(program, "after SIGKILL")
    program.order("go")


def test_sampler_and_forked_children(bench):
    """Children of a recorded process run on; with -f they are recorded, too."""
    program, recording = bench.recorded("own_sampler")
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

    program, recording = bench.recorded("own_sampler_late")
    program.order(f"load {LIBRARY}")
    program.order("go")  # its first tracebacks make the recorder read its unwind table
    program.order("free")
    recording.snapshot()
    answers, _ = program.order("go")
    path = recording.snapshot()
    # Each of the three threads gets memory for the library's thread-local variables.
    check_exact(bench, path, answers, "a library that comes late", more=3)
    check("otel_memory:alloc" not in probes_of(bench.show(path)), "the late sampler is probed")


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


# ---- sampler interval ----
#
# The recorder keeps the samples of liballocsnap-sampler.so to a number a second: it writes their interval in the
# process, gives the chosen one back, and writes to nothing else.

MANY_OPS = 300000


def info(program):
    return program.order("info")[1]


def work(program, seed=1, ops=MANY_OPS):
    return program.order(f"go {seed} {ops}")[1]


def check_total(bench, path, expected, what):
    """The truth lies within four times the half of the interval."""
    total = bench.stats(path)["total"]
    low, high = total["size_interval"]
    check(abs(total["size"] - expected["bytes"]) <= 2 * (high - low), f"{what}: {total}, truth {expected}")


def work_until_grown(program, what):
    """Returns the truth of the last turn, and what the sampler says. A turn may be over before the recorder looks."""
    for turn in range(100):
        expected, now = work(program, turn + 1), info(program)
        if now["changes"]:
            check(now["most"] > truth.INTERVAL and not now["most"] % truth.INTERVAL, f"{what}: {now}")
            return expected, now
    raise Failure(f"{what}: the interval never grew: {now}")


def check_given_back(program, what):
    wait_for(lambda: info(program)["interval"] == truth.INTERVAL, f"{what}: the chosen interval is not given back")


def test_sampler_interval_grows_and_is_given_back(bench):
    """Snapshots say so, and estimates stay right."""
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program], "--sampler-rate", "200")
    expected, now = work_until_grown(program, "attach")
    path = recording.snapshot()
    check_total(bench, path, expected, "while it is recorded")
    known = bench.show(path)["metadata"]
    check(int(known["sample_bytes_most"]) > truth.INTERVAL, f"{known}")
    check_equal(int(known["sampler_chosen_bytes"]), truth.INTERVAL, "sampler_chosen_bytes")
    check(now["changes"] <= int(known["sampler_change_count"]) <= info(program)["changes"], f"{known}")
    program.order("free")
    recording.end(signal.SIGINT)
    check_equal(info(program)["interval"], truth.INTERVAL, "the interval afterwards")
    recording = bench.attach([program])
    known = bench.show(recording.snapshot())["metadata"]
    check("sample_bytes_most" not in known, f"a later recording has samples of one interval only: {known}")


def test_sampler_interval_shrinks_again(bench):
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program], "--sampler-rate", "5000")
    work_until_grown(program, "attach")
    wait_for(lambda: info(program)["interval"] == truth.INTERVAL, "the interval does not shrink", 30)
    check("sample_bytes_most" in bench.show(recording.snapshot())["metadata"], "the larger one is forgotten")


def test_sampler_interval_is_given_back_after_sigkill(bench):
    """By the sampler itself, when it looks next."""
    program = truth.preload(bench, "jemalloc")
    recording = bench.attach([program], "--sampler-rate", "100")
    work_until_grown(program, "attach")
    recording.kill()

    def is_given_back():
        work(program, ops=20000)
        return info(program)["interval"] == truth.INTERVAL

    wait_for(is_given_back, "after SIGKILL the chosen interval is not there", 20)


def tells_samples(bench, path):
    """Whether the samples of the program that an exec began are recorded."""
    shown = bench.show(path)
    return int(shown["metadata"]["exec_count"]) == 1 and any("otel_memory:alloc" in row["function"] for row in shown["probes"])


def test_sampler_interval_in_the_next_program(bench):
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program], "--sampler-rate", "100")
    work_until_grown(program, "the first program")
    program.write(f"exec {os.path.join(WORKLOADS, 'truth')}\n")
    check_equal(json.loads(program.line())["ready"], program.pid, "the next program")
    check_equal(info(program)["interval"], truth.INTERVAL, "the interval of the next program")
    wait_for(lambda: tells_samples(bench, recording.snapshot()), "probes in the next program")
    expected, _ = work_until_grown(program, "the next program")
    check_total(bench, recording.snapshot(), expected, "the next program")
    recording.end(signal.SIGINT)
    check_given_back(program, "the next program")


def test_sampler_before_an_exec_hides_no_block_after_it(bench):
    """The program that an exec begins is static, so it has no sampler: all its blocks are recorded."""
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program])
    program.write(f"exec {os.path.join(WORKLOADS, 'moved')}\n")
    check_equal(json.loads(program.line())["ready"], program.pid, "the next program")
    wait_for(lambda: "malloc" in probes_of(bench.show(recording.snapshot())), "probes in the next program")
    program.order("malloc")
    check_equal(bench.show(recording.snapshot())["counters"].get("allocations"), 1, "allocations of the next program")
    recording.end(signal.SIGINT)


def test_sampler_interval_is_taken_before_a_pause(bench):
    """A budget that samples at the chosen interval would exceed. Where a trap takes long, a small one is gone before the
    interval has grown, so a larger one is tried, too."""
    for percent in ("1", "4", "16", "50", "100"):
        program = truth.preload(bench, "glibc")
        recording = bench.attach([program], "--max-overhead", percent, "--sampler-rate", "1000000000")
        expected, _ = work_until_grown(program, "with a budget")
        for seed in range(4):
            expected = work(program, seed)
        path = recording.snapshot()
        gap_nr = int(bench.show(path)["metadata"]["gap_count"])
        if not gap_nr:
            check_total(bench, path, expected, "with a budget")
        recording.end(signal.SIGINT)
        check_given_back(program, "with a budget")
        program.is_unharmed()
        if not gap_nr:
            return
    raise Failure(f"{gap_nr} gaps with {percent} %")


@harness.alone
def test_sampler_interval_under_record(bench):
    """With rules, and of a process that began later."""
    folder, name = bench.path("record"), f"truth{os.getpid()}"
    path = bench.path(name)
    os.symlink(os.path.join(WORKLOADS, "truth"), path)

    def start():
        environment = os.environ | {"LD_PRELOAD": truth.LIBRARY, "ALLOCSNAP_SAMPLE": str(truth.INTERVAL)}
        return bench.start([path], kind=truth.Workload, env=environment).ready()

    before = start()
    recorder = bench.start([ALLOCSNAP, "record", "--comm", name, "-o", folder, "--interval", NEVER,
                            "--sampler-rate", "100"])
    check_equal(recorder.line(), "recording 1 process", "record")
    after = start()
    for program in (before, after):
        work_until_grown(program, "record")
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait()
    for program in (before, after):
        check_given_back(program, "record")
        program.is_unharmed()


def test_sampler_interval_is_written_to_ours_only(bench):
    kinds = ("good", "anonymous", "shared", "readonly", "magic", "version", "bytes", "unchosen")
    programs = {kind: bench.start([os.path.join(WORKLOADS, "claims"), kind], kind=truth.Workload).ready()
                for kind in kinds}
    before = {kind: info(program) for kind, program in programs.items()}
    recording = bench.attach(list(programs.values()))
    wait_for(lambda: info(programs["good"])["interval"] > before["good"]["interval"], "the interval does not grow")
    for _ in range(5):  # looks
        recording.snapshots()
    for kind in kinds[1:]:
        check_equal(info(programs[kind]), before[kind], f"{kind}: what the process says")
    recording.end(signal.SIGINT)
    for kind, program in programs.items():
        check_equal(info(program)["interval"], before[kind]["interval"], f"{kind}: the interval afterwards")
        program.is_unharmed()
