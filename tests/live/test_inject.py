# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""attach --inject: a sampler comes into a process that runs, is recorded, and goes, however the recording ends."""
import ctypes
import math
import os
import pathlib
import re
import signal
import time

import harness
from harness import (NO_SESSIONS, UNWINDING, WORKLOADS, check, check_equal, environment, link_holder_of,
                     losses_of, wait_for)
from load import Load, Python, Redis
import truth

INTERVAL = truth.INTERVAL
INJECT = f"--inject={INTERVAL}"
OPS = 30000
SAMPLER = "/memfd:allocsnap-sampler"
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def maps(pid):
    """(range, permissions, offset, path) of what a process maps."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return [(words[0], words[1], words[2], words[5].strip() if len(words) > 5 else "")
            for words in (line.split(None, 5) for line in lines)]


def code(pid):
    """[first address, end, offset, path] of the files that a process runs code of. A kernel may leave pages that came back as
    mappings of their own, as 6.12 does if they had breakpoints."""
    found = []
    for where, permissions, offset, path in maps(pid):
        low, high, offset = (int(number, 16) for number in (*where.split("-"), offset))
        if "x" not in permissions or not path.startswith("/") or path.startswith(SAMPLER):
            continue
        if found and found[-1][3] == path and found[-1][1] == low and found[-1][2] + low - found[-1][0] == offset:
            found[-1][1] = high
        else:
            found.append([low, high, offset, path])
    return found


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def has_sampler(pid):
    return any(row[3].startswith(SAMPLER) for row in maps(pid))


def truth_program(bench, allocator="glibc"):
    """Many threads, all functions of malloc's family; no sampler of its own."""
    harness.need_injection()
    return truth.plain(bench, allocator)


def inject(bench, program, *options):
    recording = bench.attach([program], INJECT, "--sampler-rate", str(truth.MANY), *options)
    check(has_sampler(program.pid), f"no sampler in the process; stderr {recording.stderr()!r}")
    return recording


def work(program, seed=1, ops=OPS):
    return program.order(f"go {seed} {ops}")[1]


def check_gone(program, before, what):
    """The allocator's pages are its own again."""
    wait_for(lambda: code(program.pid) == before, f"{what}: the code is not as it was: {code(program.pid)}", 30)


def check_works(program, what):
    """The process goes on as before."""
    check(work(program, 99)["count"] > 0, f"{what}: nothing is live")
    program.order("free")
    program.is_unharmed()


def check_bytes(bench, path, expected, what):
    """The truth lies within four times the half of the interval."""
    total = bench.stats(path)["total"]
    low, high = total["size_interval"]
    check(abs(total["size"] - expected["bytes"]) <= 2 * (high - low), f"{what}: {total}, truth {expected}")
    return total


def check_total(bench, path, expected, what):
    """The same of the blocks, where there are more than a few samples."""
    total = check_bytes(bench, path, expected, what)
    low, high = total.get("count_interval", [0, math.inf])
    check(abs(total["count"] - expected["count"]) <= 2 * (high - low), f"{what}: {total}, truth {expected}")


def fails(bench, *args):
    """The one line of an allocsnap that fails."""
    _, stderr = bench.allocsnap(*args, status=1)
    check(stderr.count("\n") == 1 or NO_SESSIONS, f"{args}: lines of {stderr!r}")  # a note comes with return probes
    return stderr


# ---- what it records ----

def check_recorded(bench, allocator):
    program = truth_program(bench, allocator)
    before, begun_ns = code(program.pid), time.monotonic_ns()
    recording = inject(bench, program)
    expected = work(program)
    path = recording.snapshot()
    check_total(bench, path, expected, allocator)
    shown = bench.show(path)
    check_equal(losses_of(shown, UNWINDING), {}, f"{allocator}: losses")
    check_equal(shown["counters"]["unknown_frees"], 0, f"{allocator}: unknown_frees")
    known = shown["metadata"]
    check_equal([known[f"sampler_{key}"] for key in ("kind", "weights", "chosen_bytes", "change_count", "dropped_count")],
                ["injected", "exact", INTERVAL, 0, 0], f"{allocator}: what is said of the sampler")
    check({"malloc", "free", "realloc"} <= set(re.split("[ ,;]+", known["sampler_functions"])), f"{allocator}: {known}")
    check(known["sampler"].startswith(SAMPLER) and 0 < known["sampler_stopped_ns"] < known["monotonic_ns"] - begun_ns,
          f"{allocator}: {known}")
    rows = {row["traceback"][0].get("function") for row in bench.stats(path)["statistics"]}
    check({"way_malloc", "way_resized", "align_posix"} <= rows or harness.BY_FRAME_POINTERS, f"{allocator}: rows {rows}")
    program.order("free")
    counters = bench.show(recording.snapshot())["counters"]
    check_equal(counters["current_blocks"], 0, f"{allocator}: blocks after all frees")
    recording.end(signal.SIGINT)
    check_gone(program, before, allocator)
    check_works(program, allocator)
    return shown


@harness.core
def test_inject_estimates_are_right(bench):
    check_recorded(bench, "glibc")


def test_inject_into_a_preloaded_jemalloc(bench):
    check_recorded(bench, "jemalloc")


def test_inject_into_musl(bench):
    """Its system calls lie beside its malloc, on pages that come and go."""
    check_recorded(bench, "musl")


def test_inject_into_an_allocator_above_another(bench):
    """Each block counts once, as in a recording of every block."""
    check_recorded(bench, "shim")
    program = truth_program(bench, "shim")
    recording = bench.attach([program], "--no-sampler")
    expected = work(program)
    total = bench.stats(recording.snapshot())["total"]
    check_equal((total["size"], total["count"]), (expected["bytes"], expected["count"]), "a recording of every block")


@harness.core
def test_inject_into_a_program_with_its_own_malloc(bench):
    """Functions that call it lie on its pages, of which the sampler has copies."""
    shown = check_recorded(bench, "own")
    check("tracebacks_no_rule" not in losses_of(shown, set()), f"{shown['losses']}")


def test_inject_into_redis(bench):
    """Its jemalloc, under load."""
    harness.need_injection()
    redis = Redis.start_on(bench)
    before = code(redis.pid)
    recording = inject(bench, redis)
    load = Load(redis.step)
    _, path, least, most = load.two_snapshots(recording)
    load.stop()
    check_equal(redis.command(b"PING"), b"PONG", "redis while it is recorded")
    total = bench.stats(path)["total"]
    low, high = total["size_interval"]
    check(low > least * Redis.KEYS * Redis.VALUE_BYTES / 2, f"{total} for {least} to {most} steps")
    recording.end(signal.SIGINT)
    check_gone(redis, before, "redis")
    check_equal(redis.command(b"PING"), b"PONG", "redis afterwards")


def test_inject_into_python(bench):
    """Objects that it keeps, of 3033 bytes each."""
    harness.need_injection()
    python = Python.start_on(bench)
    before = code(python.pid)
    recording = inject(bench, python)
    for _ in range(20):
        kept, kept_bytes = python.ask("step")
    path = recording.snapshot()
    total = bench.stats(path)["total"]
    low, high = total["size_interval"]
    check(abs(total["size"] - kept_bytes) <= 2 * (high - low) + 0.05 * kept_bytes,
          f"{total}, truth {kept} objects of {kept_bytes} bytes, and little else")
    recording.end(signal.SIGTERM)
    check_gone(python, before, "python3")
    check_equal(python.ask("step")[0], kept + 50, "objects afterwards")


def test_inject_keeps_to_a_rate(bench):
    """The recorder makes the distance of an injected sampler larger, too."""
    program = truth_program(bench)
    recording = bench.attach([program], INJECT, "--sampler-rate", "200")
    seeds = iter(range(1, 200))

    def has_changed():
        work(program, next(seeds), 10 * OPS)
        return "sample_bytes_most" in bench.show(recording.snapshot())["metadata"]

    wait_for(has_changed, "the interval never grew", 60)
    expected = work(program, 1000, 10 * OPS)
    path = recording.snapshot()
    check_bytes(bench, path, expected, "at a rate")
    check(bench.show(path)["metadata"]["sample_bytes_most"] > INTERVAL, "sample_bytes_most")
    recording.end(signal.SIGINT)
    check_works(program, "at a rate")


# ---- how it ends ----

def test_inject_ends_with_the_recording(bench):
    """By SIGTERM, by --duration, and by SIGKILL, where the process that keeps the links ejects."""
    program = truth_program(bench)
    before = code(program.pid)
    inject(bench, program).end(signal.SIGTERM)
    check_gone(program, before, "SIGTERM")
    bench.attach([program], INJECT, "--duration", "500ms", wait=False).end()
    check_gone(program, before, "--duration")
    recording = inject(bench, program)
    work(program)
    recording.kill()
    check_gone(program, before, "SIGKILL")
    recording = inject(bench, program)  # again
    program.order("free")
    expected = work(program, 5)
    program.order("free")
    expected = work(program, 6)
    check_total(bench, recording.snapshot(), expected, "the next recording")
    recording.end(signal.SIGINT)
    check_gone(program, before, "the next recording")
    check_works(program, "four recordings")


def test_inject_into_a_process_that_ends(bench):
    """Its samples are in the last snapshot."""
    program = truth_program(bench)
    recording = inject(bench, program)
    expected = work(program)
    program.popen.kill()
    program.popen.wait()
    path, = recording.end()
    check_total(bench, path, expected, "killed")
    shown = bench.show(path)
    check_equal([shown["metadata"][key] for key in ("end", "sampler_kind")], ["killed by signal 9", "injected"], "its end")


def test_inject_and_exec(bench):
    """The sampler goes with the program. The next one is not recorded block by block, and says so."""
    program = truth_program(bench)
    recording = inject(bench, program)
    work(program)
    program.write(f"exec {os.path.join(WORKLOADS, 'truth')}\n")
    program.line()
    check(not has_sampler(program.pid), "a sampler in the next program")
    wait_for(lambda: "went with the program" in recording.stderr(), "no note of the exec")
    before = bench.show(recording.snapshot())
    check("heap_not_recorded" in before["metadata"], f"{before['metadata']}")
    work(program)
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"], before["counters"], "counters of the next program")
    check_equal(losses_of(shown, UNWINDING | {"functions_late"}), {"execs_unsampled": 1}, "losses of the next program")
    recording.end(signal.SIGINT)
    program.is_unharmed()


FORKING = """
import os, sys
print(os.getpid(), flush=True)
for line in sys.stdin:
    if os.fork():
        continue
    print(os.getpid(), flush=True)
    while os.read(0, 1):
        pass
    print(len([bytes(i) for i in range(1000)]), flush=True)
    os._exit(0)
"""


def test_inject_and_forked_children(bench):
    """They have the sampler, too, and lose it with their parent."""
    harness.need_injection()
    python = bench.start(["/usr/bin/python3", "-S", "-c", FORKING], env=os.environ | {"PYTHONMALLOC": "malloc"})
    python.line()
    before = code(python.pid)
    recording = inject(bench, python)
    python.write("fork\n")
    child = int(python.line())
    check(has_sampler(child), "no sampler in the child")
    recording.end(signal.SIGINT)
    for pid in (python.pid, child):
        wait_for(lambda pid=pid: code(pid) == before, f"process {pid}: {code(pid)}", 30)
    python.popen.stdin.close()
    check_equal(python.line(), "1000", "what the child does")


def test_inject_leaves_what_eject_takes(bench):
    """Only if the link holder is killed, too."""
    program = truth_program(bench)
    before = code(program.pid)
    recording = inject(bench, program)
    link_holder = link_holder_of(recording.pid)
    check("belongs to" in fails(bench, "eject", str(program.pid)), "eject during a recording")
    check(has_sampler(program.pid), "eject takes another's sampler away")
    os.kill(recording.pid, signal.SIGSTOP)  # it would notice
    os.kill(link_holder, signal.SIGKILL)
    recording.kill()
    wait_for(lambda: not harness.is_running(link_holder), "the link holder runs on")
    check(has_sampler(program.pid), "the sampler has gone by itself")
    work(program)
    check("allocsnap eject" in fails(bench, "attach", INJECT, str(program.pid), "-o", bench.path("no")), "a second one")
    exact = bench.attach([program])
    check("left in it" in exact.stderr(), f"note: {exact.stderr()!r}")
    exact.end(signal.SIGINT)
    out, _ = bench.allocsnap("eject", str(program.pid))
    check(re.match(r"took the sampler out of process \d+: \d+ functions, threads stopped for [\d.]+ ms\n", out), out)
    check_gone(program, before, "eject")
    check("no injected sampler" in fails(bench, "eject", str(program.pid)) or has_sampler(program.pid), "eject again")
    check_works(program, "eject")


# ---- others beside it ----

def test_inject_and_an_exact_recording(bench):
    """Another recording takes the samples, too; where it may not, it says why it records nothing."""
    program = truth_program(bench)
    before = code(program.pid)
    first = inject(bench, program)
    second = bench.attach([program])
    check("another recording" in second.stderr(), f"note: {second.stderr()!r}")
    expected = work(program)
    for recording in (first, second):
        check_total(bench, recording.snapshot(), expected, "both")
    why = fails(bench, "attach", "--no-sampler", str(program.pid), "-o", bench.path("no"))
    check("injected sampler" in why and "eject" in why, why)
    why = fails(bench, "attach", INJECT, str(program.pid), "-o", bench.path("no"))
    check("another recording" in why, why)
    program.order("free")
    check_total(bench, second.snapshot(), {"bytes": 0, "count": 0}, "all are freed")
    first.end(signal.SIGINT)
    check_gone(program, before, "both")
    wait_for(lambda: "every block is recorded" in second.stderr(), "no note that the sampler has gone")
    check_exact(bench, program, second, "the second one alone")
    second.end(signal.SIGINT)
    check_works(program, "both")


def check_exact(bench, program, recording, what):
    """A recording of every block that was blind for a time, before which nothing was live."""
    expected = work(program, 3)
    path = recording.snapshot()
    total, gaps = bench.stats(path)["total"], bench.show(path)["gaps"]
    check_equal((total["size"], total["count"]), (expected["bytes"], expected["count"]), what)
    check(len(gaps) == 1 and gaps[0]["start_ns"] < gaps[0]["end_ns"], f"{what}: gaps {gaps}")
    program.order("free")


def test_inject_beside_a_recording_of_every_block(bench):
    """It says that it sees nothing meanwhile, has a gap for that time, and goes on."""
    program = truth_program(bench)
    exact = bench.attach([program])
    recording = inject(bench, program)
    wait_for(lambda: "are not recorded meanwhile" in exact.stderr(), "no note of the sampler")
    expected = work(program)
    check_total(bench, recording.snapshot(), expected, "injected")
    check_equal(bench.stats(exact.snapshot())["total"]["count"], 0, "blocks of the exact one")
    program.order("free")
    recording.end(signal.SIGINT)
    before = bench.show(exact.snapshot())["gaps"]
    wait_for(lambda: bench.show(exact.snapshot())["gaps"] == before, "the gap goes on")
    check_exact(bench, program, exact, "the exact one")


def test_inject_dry_and_doctor(bench):
    """Both print the plan, and change nothing."""
    program = truth_program(bench)
    before = maps(program.pid)
    out, _ = bench.allocsnap("attach", "--inject", "--dry", str(program.pid))
    for name in ("malloc", "free", "realloc", "posix_memalign"):
        check(re.search(rf"^  {name} \(/.*libc.*\) at 0x[0-9a-f]+: a jump in place of \d+ instruction", out, re.MULTILINE),
              f"{name}: {out}")
    report = bench.json("doctor", str(program.pid))["process"]
    check_equal([row["name"] for row in report["injection"]], ["glibc"], f"injection of {report['injection']}")
    check({"malloc", "free"} <= {row["function"] for row in report["injected_functions"]}, "injected_functions")
    check_equal(maps(program.pid), before, "what is mapped")
    program.is_unharmed()


def test_inject_is_refused(bench):
    """One line, and nothing has changed."""
    program = truth_program(bench)
    before = maps(program.pid)
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    check_equal(ptrace(PTRACE_SEIZE, program.pid, 0, 0), 0, "a debugger")
    try:
        why = fails(bench, "attach", INJECT, str(program.pid), "-o", bench.path("no"))
    finally:
        os.kill(program.pid, signal.SIGSTOP)
        os.waitpid(program.pid, os.WUNTRACED | 0x40000000)
        ptrace(PTRACE_DETACH, program.pid, 0, 0)
        os.kill(program.pid, signal.SIGCONT)
    check("nothing was changed" in why, why)
    check_equal(maps(program.pid), before, "what a traced process maps")
    os.kill(program.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(program.pid) == "T", "the program does not stop")
    why = fails(bench, "attach", INJECT, str(program.pid), "-o", bench.path("no"))
    check("is stopped" in why, why)
    os.kill(program.pid, signal.SIGCONT)
    check_equal(maps(program.pid), before, "what a stopped process maps")
    with environment("ALLOCSNAP_NO_UPROBE_MULTI"):  # as before Linux 6.6
        said = [bench.allocsnap("attach", *words, str(program.pid), "-o", bench.path("no"), status=1)[1]
                for words in ([INJECT], [INJECT, "--dry"], ["--inject=exact", "--dry"])]
        process = bench.json("doctor", str(program.pid))["process"]
    for text in (*said, process["injection_refused"], process["exact"]["why"]):
        check("no links of many uprobes" in text, f"{said} {process}")
    check_equal(maps(program.pid), before, "what it maps where no process could eject")
    program.is_unharmed()

    preloaded = truth.preload(bench, "glibc")
    before = maps(preloaded.pid)
    why = fails(bench, "attach", INJECT, str(preloaded.pid), "-o", bench.path("no"))
    check("sampler" in why, why)
    check_equal(maps(preloaded.pid), before, "what a process with a sampler maps")
    preloaded.is_unharmed()
    fails(bench, "attach", INJECT, "2", "-o", bench.path("no"))  # a kernel thread
    fails(bench, "attach", INJECT, "--dry", "2")
    for option in ("--sample=4K", "--no-sampler", "-f"):
        _, stderr = bench.allocsnap("attach", INJECT, option, str(os.getpid()), status=2)
        check("exclude each other" in stderr, stderr)
    for option in ("--on-peak=10%", "--on-growth=1M", "--max-overhead=10", "-f"):
        _, stderr = bench.allocsnap("attach", "--inject=exact", option, str(os.getpid()), status=2)
        check("exclude each other" in stderr, stderr)
    _, stderr = bench.allocsnap("attach", "--inject=exakt", str(os.getpid()), status=2)
    check("exact" in stderr, stderr)
