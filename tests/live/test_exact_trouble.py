# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exact recordings of a heap where something goes wrong: no room, limits, a recorder or a program that is killed. What the books
have is compared with a ledger that the program keeps."""
import os
import pathlib
import re
import signal

from cgroup import memory_group
import harness
from harness import ALLOCSNAP, NEVER, Law, Workload, check, check_equal, losses_of, private_mounts, snapshots_below, tool, wait_for
import ledger
from test_exact_heap import inject, workload
from test_inject import check_gone, code, maps
from test_ledger import check_since
from test_python import PYTHON

EXACT = "--inject=exact"


# ---- a program that the OOM killer ends ----

MEMORY_LIMIT = 64 << 20


def out_of_memory(bench, program, pid, command):
    with memory_group(bench, MEMORY_LIMIT) as group:
        group.take_in(pid)
        program.write(command + "\n")
        wait_for(lambda: group.pids() == [], "the OOM kill", 60)
        check_equal(group.kill_count(), 1, "kills of the OOM killer")


OOM = {"its_own_pages": ("oom",), "realloc": ("oom in realloc",)}


@harness.core
@harness.rows(OOM, of_core=("realloc",))
def test_exact_heap_of_one_that_runs_out_of_memory_by(bench, command):
    """A block that realloc() was copying is live: it was not freed."""
    program = ledger.start(bench, [workload("known")], exact=True).ready()
    pid = program.child()
    program.write("go\n")
    program.line()
    out_of_memory(bench, program, pid, command)
    found = program.end(pid, status=128 + signal.SIGKILL).found
    check_equal((found["only_ledger"]["count"], found["only_snapshot"]["count"]), (0, found["in_flight"]), "blocks that differ")


@harness.rows(OOM)
def test_exact_heap_of_an_injected_one_that_runs_out_of_memory_by(bench, command):
    program = bench.start([workload("known")], kind=Workload, env=ledger.environment_of(bench)).ready()
    recording, then = inject(bench, program)
    program.order("go")
    out_of_memory(bench, program, program.pid, command)
    path = recording.end()[-1]
    found = ledger.compare(bench, program.pid, path)
    check_equal(losses_of(bench.show(path), ledger.NAMES), {"calls_unreturned": 1} if found["in_flight"] else {}, "losses")
    check_equal(found["only_snapshot"], {"count": found["in_flight"], "explained": found["in_flight"]}, "blocks only in the snapshot")
    found["same"] += found["only_snapshot"]["count"]
    found["only_snapshot"]["count"] = 0
    check_since(then, found, exact=True)


# ---- a recorder that is interrupted ----

def tracer_of(pid):
    return int(re.search(r"TracerPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))[1])


def await_injector(recording, pid):
    """Waits, without sleep, until a millisecond comes in which the threads stand still: False if it was missed."""
    hooks = has_hooks(pid)
    while recording.popen.poll() is None and has_hooks(pid) == hooks:
        for _ in range(100):
            if tracer_of(pid):
                return True
    return False


def has_hooks(pid):
    return any("memfd:allocsnap" in row[3] for row in maps(pid))


def interrupt(bench, program, before, is_way_out, number):
    """Whether that was amid the work of the injector."""
    recording = bench.attach([program], EXACT, wait=False)
    if is_way_out:
        recording.ready()
        recording.popen.send_signal(signal.SIGINT)
    was_amid = await_injector(recording, program.pid)
    for _ in range(2 if number == signal.SIGINT else 1):
        recording.popen.send_signal(number)
    recording.popen.wait()
    wait_for(lambda: not has_hooks(program.pid) or not tracer_of(program.pid), "the end of the injector")
    check_gone(program, before, "storm")
    if has_hooks(program.pid):  # a thread may have been in one
        wait_for(lambda: eject(bench, program.pid), "the hooks can be unmapped", 60, Law)
    return was_amid


def eject(bench, pid):
    bench.run([ALLOCSNAP, "eject", str(pid)], None)
    return not has_hooks(pid)


INTERRUPTED = {"by_two_signals_on_the_way_in": (False, signal.SIGINT), "by_two_signals_on_the_way_out": (True, signal.SIGINT),
               "by_a_kill_on_the_way_in": (False, signal.SIGKILL), "by_a_kill_on_the_way_out": (True, signal.SIGKILL)}


@harness.rows(INTERRUPTED)
def test_exact_heap_of_a_recorder_that_is_ended(bench, is_way_out, number):
    """The program goes on, and its code is its own again."""
    harness.need_injection()
    program = bench.workload("storm")
    before = code(program.pid)
    program.write("go on\n")
    wanted, amid, tries = 2, 0, 0
    while amid < wanted:
        amid += interrupt(bench, program, before, is_way_out, number)
        tries += 1
        check(tries < 20 * wanted, f"the moment was seen {amid} times in {tries} tries")
    program.order("go")
    return f"{amid} times in {tries} tries"


# ---- no room for a snapshot ----

def on_small_disk(bench, *argv):
    """A file system without room; a line makes some."""
    os.mkdir(bench.path("out"))
    script = ('mount -t tmpfs -o size=32k none "$0" || exit 99; head -c 32k /dev/zero >"$0/ballast"; '
              '"$@" & read line; mount -o remount,size=8m "$0"; rm "$0/ballast"; read line; kill -INT $!; wait $!; status=$?; '
              'cp -r "$0/." "$0.kept"; exit $status')
    return bench.start([*private_mounts(), "sh", "-c", script, bench.path("out"), *argv])


def test_exact_heap_when_the_disk_is_full(bench):
    """Later snapshots have all blocks, and the hooks go."""
    program = bench.start([workload("storm")], kind=Workload, env=ledger.environment_of(bench)).ready()
    before = code(program.pid)
    then = ledger.compare(bench, program.pid, first_snapshot(bench, program))
    shell = on_small_disk(bench, ALLOCSNAP, "attach", EXACT, str(program.pid), "-o", bench.path("out"), "-i", "200ms")
    wait_for(lambda: "No space left on device; the recording goes on" in shell.stderr(), "the line about the disk")
    program.order("go")
    shell.write("\n")
    wait_for(lambda: "snapshots are written again: " in shell.stderr(), "the line about room")
    shell.write("\n")
    check_equal(shell.wait(), 1, f"exit status ({shell.stderr()!r})")
    path = max(snapshots_below(bench.path("out.kept")), key=os.path.basename)
    check_since(then, ledger.compare(bench, program.pid, path), exact=True)
    check_gone(program, before, "storm")


def first_snapshot(bench, program):
    recording = bench.attach([program], EXACT)
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    return path


# ---- limits ----

def attach_is_refused(bench, program, words, prefix=()):
    """Also by --dry, in one line, and the program is as it was."""
    harness.need_injection()
    before = maps(program.pid)
    for options in (), ("--dry",):
        _, stderr = bench.run([*prefix, ALLOCSNAP, "attach", EXACT, *options, str(program.pid), "-o", bench.path("out")], 1)
        check_equal((words in stderr, stderr.count("\n")), (True, 1), f"words and lines of {stderr!r}")
    check_equal(maps(program.pid), before, "what is mapped", Law)
    program.order("go")


def test_injected_hooks_of_a_heap_are_refused_below_a_limit_on_addresses(bench):
    attach_is_refused(bench, bench.start([tool("prlimit"), f"--as={4 << 30}", workload("storm")], kind=Workload).ready(),
                      "limit on addresses")


def strict_memory(bench):
    """The command before a command that reads 2 in vm.overcommit_memory. The machine's own setting stays."""
    setting = pathlib.Path(bench.path("overcommit_memory"))
    setting.write_text("2\n", encoding="utf-8")
    return [*private_mounts(), "sh", "-c", f'mount --bind {setting} /proc/sys/vm/overcommit_memory || exit 99; exec "$@"', "sh"]


def test_exact_heap_is_refused_where_memory_is_not_promised(bench):
    attach_is_refused(bench, bench.workload("storm"), "vm.overcommit_memory", strict_memory(bench))
    mark = bench.path("mark")
    _, stderr = bench.run([*strict_memory(bench), ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--", tool("touch"), mark], 125)
    check_equal(("vm.overcommit_memory" in stderr, os.path.exists(mark)), (True, False), f"words of {stderr!r}, whether it was started")


LIMITS = {"on_addresses": (f"--as={4 << 30}", False), "on_files": (f"--fsize={1 << 20}", False),
          "on_data": (f"--data={256 << 20}", True), "on_locked_memory": ("--memlock=65536", True)}


@harness.rows(LIMITS)
def test_exact_heap_below_a_limit(bench, limit, has_books):
    """A program whose limit leaves no room for the books goes on as it would: a note says so, and all of its time is a gap."""
    orders = bench.path("orders")
    pathlib.Path(orders).write_text("make 0 1000 100\nmore 1000 500 200\nquit\n", encoding="utf-8")
    argv = [ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--interval", NEVER, "--", tool("prlimit"), limit, "sh", "-c",
            f"exec {workload('blocks')} <{orders}"]
    stdout, stderr = bench.run(argv)
    path, = [line for line in stdout.splitlines() if line.endswith(".snap")]
    shown = bench.show(path)
    check_equal((shown["metadata"]["end"], shown["counters"]["allocations"] >= 1500, len(shown.get("gaps", [])),
                 "no room for books of 15 GiB" in stderr), ("exited 0", has_books, not has_books, not has_books), f"end, blocks, gaps, {stderr!r}")


def test_exact_heap_of_one_that_limits_its_addresses(bench):
    """It can use as much memory as without the library, and not more; its hard limit stays where it was set."""
    code = ("import resource\nlimit = resource.RLIMIT_AS\n"
            "for size in (4 << 30, 4 << 30), (3 << 30, 4 << 30): resource.setrlimit(limit, size)\n"
            "kept = [bytes(100000) for _ in range(2000)]\n"
            "try: bytes(5 << 30)\nexcept MemoryError: print(len(kept))")
    for prefix in (), ("prlimit", f"--as={100 << 30}"):
        argv = [ALLOCSNAP, "run", "--exact", "--domain", "malloc", "-o", bench.path("out"), "--interval", NEVER, "--", *prefix, PYTHON, "-Sc", code]
        stdout, stderr = bench.run(argv)
        check_equal(stdout.splitlines()[0], "2000", f"what the program says; {stderr!r}")
        path, = [line for line in stdout.splitlines() if line.endswith(".snap")]
        check_equal(losses_of(bench.show(path), ledger.NAMES), {}, "losses")
        check(bench.show(path)["counters"]["allocated_bytes"] > 200000000, "its blocks")


def test_exact_heap_of_an_injected_program_below_a_limit_on_files(bench):
    """Its own limit on the size of files does not count for the books."""
    program = bench.start([workload("storm")], kind=Workload, env=ledger.environment_of(bench)).ready()
    bench.run([tool("prlimit"), "--pid", str(program.pid), f"--fsize={1 << 20}"])
    recording, then = inject(bench, program)
    program.order("go")
    check_since(then, ledger.compare(bench, program.pid, recording.snapshot()), exact=True)
    recording.end(signal.SIGINT)
