# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""run --exact of programs without Python: their heap, in books that a preloaded library writes."""
import os
import signal

import harness
from harness import (ALLOCSNAP, NEVER, UNWINDING, WORKLOADS, Law, Workload, check, check_equal, losses_of, snapshots_below, tool,
                     wait_for)
import ledger
from test_inject import check_gone, check_works, code, maps, truth_program, work
from test_ledger import C_SOURCE, PYTHON, SQL, check_since, compiler, connects, make_repository, write


def workload(name):
    return os.path.join(WORKLOADS, name)


def record(bench, argv, name=None, **environment):
    """To its end, where its ledger and the snapshot have the same blocks and the same counts."""
    program = ledger.start(bench, argv, name, exact=True, **environment)
    return program.end(program.child())


@harness.core
def test_exact_heap_of_sqlite3(bench):
    record(bench, [tool("sqlite3"), "-batch", ":memory:", SQL])


@harness.core
def test_exact_heap_of_python_with_malloc(bench):
    record(bench, ["/usr/bin/python3", "-sSBc", PYTHON % 700], name="python3 with PYTHONMALLOC=malloc", PYTHONMALLOC="malloc")


def test_exact_heap_of_git_log(bench):
    record(bench, [tool("git"), "-C", make_repository(bench), "log", "-p", "--stat", "--output=/dev/null", "main"], name="git log")


def test_exact_heap_of_gcc(bench):
    source = write(bench, "source.c", C_SOURCE)
    record(bench, compiler(bench, "gcc", "cc1", source), name="cc1")


@harness.core
def test_exact_heap_of_a_storm(bench):
    """Threads that begin and end, and free each other's blocks."""
    program = ledger.start(bench, [workload("storm")], exact=True).ready()
    pid = program.child()
    for _ in range(2):
        program.stand_still(quiet=True)
        program.write("go\n")
        program.line()
    check(program.stand_still(quiet=True).found["same"] > 100, "blocks between the rounds")
    program.write("free\nquit\n")
    program.end(pid)


@harness.core
def test_exact_heap_of_a_killed_storm(bench):
    program = ledger.start(bench, [workload("storm")], exact=True).ready()
    pid = program.child()
    program.write("go\n")
    program.line()
    os.kill(pid, signal.SIGKILL)
    check(program.end(pid, status=128 + signal.SIGKILL).found["same"] > 100, "blocks at its end")


# ---- system calls ----

def check_calls(program, tids, pages):
    """pages: whether the hooks must have asked about the pages of the stack. Threads after another one have its slot."""
    for _ in range(3):
        (found,), _ = program.order("thread 20000")
        check(found["pages"] > 4 and found["asked"] <= found["pages"] + 1 and pages == (found["asked"] > 0), found)
        check_equal((found["twice"], found["tid"], found["others"]), (0, tids, 0), f"of {found}", Law)


@harness.core
def test_exact_hooks_make_no_system_calls(bench):
    """But one for each page of a thread's stack, and one for its number: each call is counted. Without a recording it makes none."""
    plain = bench.workload("no_calls")
    check_calls(plain, 0, False)
    running = bench.start([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--interval", NEVER, "--", workload("no_calls")],
                          kind=Workload)
    check("ready" in running.line(60), f"not ready: {running.stderr()!r}")
    check_calls(running, 1, True)
    running.write("quit\n")
    check_equal(running.wait(), 0, "exit status")
    path, = snapshots_below(bench.path("out"))
    check(bench.show(path)["counters"]["allocations"] > 40000, "blocks are not recorded")


@harness.core
def test_injected_exact_hooks_make_no_system_calls(bench):
    """But one for each page of a thread's stack."""
    program = bench.workload("no_calls")
    recording = bench.attach([program], "--inject=exact")
    check_calls(program, 0, True)
    check(bench.show(recording.snapshot())["counters"]["allocations"] > 40000, "blocks are not recorded")
    recording.end(signal.SIGINT)


# ---- injected ----

def inject(bench, program, waits=True):
    """Hooks come while it waits for an order, or has timers only. Returns the recording, and how both accounts differ then."""
    recording = bench.attach([program], "--inject=exact", "--domain", "malloc")
    check(any(row[3].startswith("/memfd:allocsnap-hooks") for row in maps(program.pid)), f"no hooks; stderr {recording.stderr()!r}")

    then = []

    def has_none():
        if not waits:
            ledger.halt(bench, program.pid, 0)
        then[:] = [ledger.compare(bench, program.pid, recording.snapshot())]
        os.kill(program.pid, signal.SIGCONT)
        return (then[0]["blocks"], then[0]["in_flight"]) == (0, 0)
    wait_for(has_none, "a moment without blocks and calls")
    return recording, then[0]


ALLOCATORS = {"glibc": "", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}


@harness.for_each(ALLOCATORS, of_core=("glibc", "jemalloc"))
def test_exact_heap_of_an_injected_storm(bench, allocator):
    """All blocks since, in each pause; at the end the process is as it was."""
    environment = ledger.environment_of(bench)
    environment["LD_PRELOAD"] += f":/usr/lib/x86_64-linux-gnu/{ALLOCATORS[allocator]}" if ALLOCATORS[allocator] else ""
    program = bench.start([workload("storm")], kind=Workload, env=environment).ready()
    before = code(program.pid)
    recording, then = inject(bench, program)
    for _ in range(2):
        program.order("go")
        check_since(then, ledger.compare(bench, program.pid, recording.snapshot()), exact=True)
    recording.end(signal.SIGINT)
    check_gone(program, before, allocator)
    program.order("go")


def test_exact_heap_of_an_injected_storm_that_is_killed(bench):
    program = bench.start([workload("storm")], kind=Workload, env=ledger.environment_of(bench)).ready()
    recording, then = inject(bench, program)
    program.order("go")
    os.kill(program.pid, signal.SIGKILL)
    check_since(then, ledger.compare(bench, program.pid, recording.end()[-1]), exact=True)


def test_exact_heap_of_an_injected_redis(bench):
    """jemalloc, and threads for I/O, under load. It is stopped behind it: a thread that is stopped amid a hook has no snapshot."""
    path = bench.path("redis.sock")
    redis = bench.start([tool("redis-server"), "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--io-threads", "2",
                         "--io-threads-do-reads", "yes", "--dir", bench.folder, "--logfile", bench.path("redis.log")],
                        env=ledger.environment_of(bench))
    wait_for(lambda: connects(path), "redis-server's socket")
    before = code(redis.pid)
    recording, then = inject(bench, redis, waits=False)
    load = bench.start([tool("redis-benchmark"), "-s", path, "-n", "2000", "-c", "50", "-P", "16", "-r", "1000", "-d", "300", "-t",
                        "set,get,lpush,hset", "-q"])
    check_equal(load.wait(60), 0, "redis-benchmark")
    ledger.halt(bench, redis.pid, then["ledger"]["allocations"] + 15000)
    check_since(then, ledger.compare(bench, redis.pid, recording.snapshot()), exact=True)
    os.kill(redis.pid, signal.SIGCONT)
    recording.end(signal.SIGINT)
    check_gone(redis, before, "redis")
    bench.run([tool("redis-cli"), "-s", path, "shutdown", "nosave"])
    check_equal(redis.wait(), 0, "redis-server")


@harness.for_each(("musl", "shim"), of_core=("musl",))
def test_exact_heap_of_an_injected_program_with(bench, allocator):
    """It says which blocks it keeps."""
    program = truth_program(bench, allocator)
    before = code(program.pid)
    recording = bench.attach([program], "--inject=exact")
    expected = work(program)
    path = recording.snapshot()
    total = bench.stats(path)["total"]
    check_equal((total["count"], total["size"]), (expected["count"], expected["bytes"]), "blocks, bytes")
    check_equal(losses_of(bench.show(path), UNWINDING), {}, "losses")
    program.order("free")
    check_equal(bench.show(recording.snapshot())["counters"]["current_blocks"], 0, "blocks after all frees")
    recording.end(signal.SIGINT)
    check_gone(program, before, allocator)
    check_works(program, allocator)


def blocks_of_paths(bench, *options):
    """Blocks of a program that does the same each time: {functions and lines: (count, size)}."""
    paths, recording = bench.recorded("paths", *options)
    paths.order("go 3")
    rows = bench.stats(recording.snapshot(), "--group-by", "traceback")["statistics"]
    recording.end(signal.SIGINT)
    return {tuple((frame.get("function"), frame.get("lineno")) for frame in row["traceback"]): (row["count"], row["size"]) for row in rows}


@harness.core
def test_exact_heap_of_an_injected_program_is_the_one_of_probes(bench):
    by_probes, by_hooks = blocks_of_paths(bench), blocks_of_paths(bench, "--inject=exact")
    check(len(by_probes) > 500, f"{len(by_probes)} tracebacks")
    check_equal({row: (by_probes.get(row), by_hooks.get(row)) for row in by_probes | by_hooks if by_probes.get(row) != by_hooks.get(row)}, {},
                "blocks that differ")


# ---- programs that become others ----

def run(bench, before, *prefix):
    """The last snapshot of what a shell has become, and stderr."""
    path = write(bench, "orders", "make 0 1000 100\nmore 1000 500 200\nquit\n")
    stdout, stderr = bench.run([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--domain", "malloc", "--interval", NEVER,
                                "--", *prefix, "sh", "-c", f"{before} {workload('blocks')} <{path}"], 0)
    return bench.show([line for line in stdout.splitlines() if line.endswith(".snap")][-1]), stderr


def check_all_blocks(shown):
    check_equal(shown["metadata"]["comm"], "blocks", "the program")
    check(1500 <= shown["counters"]["allocations"] < 1600, f"{shown['counters']['allocations']} allocations")
    check_equal(shown.get("gaps", []), [], "gaps")


@harness.core
def test_exact_heap_after_exec(bench):
    """The next program has books of its own: of each block, from its first one on."""
    shown, _ = run(bench, "ls / >/dev/null; exec")
    check_equal(int(shown["metadata"]["exec_count"]), 1, "execs")
    check_all_blocks(shown)


@harness.core
def test_exact_heap_after_exec_without_the_library(bench):
    shown, stderr = run(bench, "exec env -u LD_PRELOAD")
    check_equal(shown["counters"]["current_blocks"], 0, "blocks")
    check("has not loaded liballocsnap-exact.so after its exec" in stderr, stderr)
    check_equal(len(shown["gaps"]), 1, "gaps")


@harness.rows({"ended": ("true",), "lives": ("sleep 1000",)})
def test_exact_heap_hooks_go_with_the_program(bench, program):
    """Injected ones are not in the next program: that is said at once, and the time from then on is a gap."""
    shell = bench.start(["/bin/sh", "-c", f"echo ready; read line; exec {program}"])
    check_equal(shell.line(), "ready", "its first line")
    recording = bench.attach([shell], "--inject=exact")
    shell.write("go\n")
    if program == "true":
        check_equal((shell.wait(), recording.wait()), (0, 0), "exit statuses")
        path = recording.line()
    else:
        wait_for(lambda: bench.show(recording.snapshot())["metadata"]["comm"] == "sleep", "the next program", 60)
        path = recording.snapshot()
    check("the hooks went with the program before its exec" in recording.stderr(), recording.stderr())
    check_equal(len(bench.show(path)["gaps"]), 1, "gaps")


def test_exact_heap_behind_a_launcher(bench):
    """The library in the launcher waits for no recorder."""
    check_all_blocks(run(bench, "exec", "env", "A=1", "nice")[0])
