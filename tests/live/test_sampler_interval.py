# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recorder keeps the samples of liballocsnap-sampler.so to a number a second: it writes their interval in the
process, gives the chosen one back, and writes to nothing else.
"""
import json
import os
import signal

import harness
from harness import ALLOCSNAP, NEVER, WORKLOADS, Failure, check, check_equal, wait_for
import truth
from truth import INTERVAL

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
            check(now["most"] > INTERVAL and not now["most"] % INTERVAL, f"{what}: {now}")
            return expected, now
    raise Failure(f"{what}: the interval never grew: {now}")


def check_given_back(program, what):
    wait_for(lambda: info(program)["interval"] == INTERVAL, f"{what}: the chosen interval is not given back")


def test_sampler_interval_grows_and_is_given_back(bench):
    """Snapshots say so, and estimates stay right."""
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program], "--sampler-rate", "200")
    expected, now = work_until_grown(program, "attach")
    path = recording.snapshot()
    check_total(bench, path, expected, "while it is recorded")
    known = bench.show(path)["metadata"]
    check(int(known["sample_bytes_most"]) > INTERVAL, f"{known}")
    check_equal(int(known["sampler_chosen_bytes"]), INTERVAL, "sampler_chosen_bytes")
    check(now["changes"] <= int(known["sampler_change_count"]) <= info(program)["changes"], f"{known}")
    program.order("free")
    recording.end(signal.SIGINT)
    check_equal(info(program)["interval"], INTERVAL, "the interval afterwards")
    recording = bench.attach([program])
    known = bench.show(recording.snapshot())["metadata"]
    check("sample_bytes_most" not in known, f"a later recording has samples of one interval only: {known}")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_sampler_interval_shrinks_again(bench):
    program = truth.preload(bench, "glibc")
    recording = bench.attach([program], "--sampler-rate", "5000")
    work_until_grown(program, "attach")
    wait_for(lambda: info(program)["interval"] == INTERVAL, "the interval does not shrink", 30)
    check("sample_bytes_most" in bench.show(recording.snapshot())["metadata"], "the larger one is forgotten")
    recording.end(signal.SIGINT)
    program.is_unharmed()


def test_sampler_interval_is_given_back_after_sigkill(bench):
    """By the sampler itself, when it looks next."""
    program = truth.preload(bench, "jemalloc")
    recording = bench.attach([program], "--sampler-rate", "100")
    work_until_grown(program, "attach")
    recording.kill()

    def is_given_back():
        work(program, ops=20000)
        return info(program)["interval"] == INTERVAL

    wait_for(is_given_back, "after SIGKILL the chosen interval is not there", 20)
    program.is_unharmed()


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
    check_equal(info(program)["interval"], INTERVAL, "the interval of the next program")
    wait_for(lambda: tells_samples(bench, recording.snapshot()), "probes in the next program")
    expected, _ = work_until_grown(program, "the next program")
    check_total(bench, recording.snapshot(), expected, "the next program")
    recording.end(signal.SIGINT)
    check_given_back(program, "the next program")
    program.is_unharmed()


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
    os.symlink(os.path.abspath(os.path.join(WORKLOADS, "truth")), path)

    def start():
        environment = os.environ | {"LD_PRELOAD": truth.LIBRARY, "ALLOCSNAP_SAMPLE": str(INTERVAL)}
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
