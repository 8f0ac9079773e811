# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--follow-forks: children are recorded from their first allocation on, each with an account and snapshots of
its own, and with names even if they are short-lived."""
import collections
import json
import os
import pathlib
import re
import resource
import signal
import sys

import harness
from harness import (ALLOCSNAP, PATIENCE, WORKLOADS, Process, Skip, check, check_equal, check_unchanged, core, environment,
                     preempts_itself, rows_of_file, smoke, tool, wait_for)
from ledger import compare_all, environment_of

NAMELESS = ("frames_unmapped", "objects_unreadable", "processes_dropped", "functions_late")


def follow(bench, argv, seconds=60, options=(), **popen):
    """`allocsnap run --follow-forks` to the end: the paths of the snapshots."""
    folder = bench.path(f"out.{len(os.listdir(bench.folder))}")
    stdout, _ = bench.run([ALLOCSNAP, "run", "--follow-forks", "-o", folder,
                           *options, "--", *argv], seconds=seconds, **popen)
    paths = [line for line in stdout.splitlines() if line.endswith(".snap")]
    check_equal(len(set(paths)), len(paths), "different files")
    return paths


def check_named(bench, paths):
    """Every process, however short-lived, has names, arguments and an end. Returns the count of each command."""
    seen = collections.Counter()
    for path in paths:
        shown = bench.show(path)
        metadata = shown["metadata"]
        lost = {name: shown["losses"].get(name, 0) for name in NAMELESS if not shown["losses"].get("mappings_missed")}
        check_equal(lost, dict.fromkeys(lost, 0), f"{path}: losses of names")
        for key in ("comm", "exe", "cmdline", "start_time_ticks"):
            check(metadata.get(key), f"{path}: no {key}")
        check(metadata["end"].startswith(("exited", "killed")), f"{path}: {metadata['end']}")
        check_equal(metadata["comm"], os.path.basename(os.path.dirname(path)).rpartition(".")[0],
                    "the folder's name")
        seen[metadata["comm"]] += 1
    return seen


def test_follow_counts_late_probes_of_a_new_allocator(bench):
    """The probes of a new allocator come too late for all processes that run already, not only for the one
    that made allocsnap place them. allocsnap is stopped until two processes have allocated; the third starts
    when the probes are there."""
    own = os.path.join(WORKLOADS, "own_malloc")
    script = (f"kill -STOP $PPID; ({own} 5000000 & {own} 5000000 & wait) | "
              f"(read one; read two; kill -CONT $PPID); {own} 0 >/dev/null")
    paths = follow(bench, ["/bin/sh", "-c", script])
    shown = [bench.show(path) for path in paths if "/own_malloc." in path]
    seen = sorted((one["counters"]["allocations"], one["losses"].get("functions_late", 0)) for one in shown)
    check_equal([late for _, late in seen], [2, 2, 0], "functions late")
    if preempts_itself() and any(one["losses"].get("process_events_missed") for one in shown):
        return "allocations were not compared: events of an exec were missed, so a process may have what it had before it"
    check_equal([allocations for allocations, _ in seen], [0, 0, 1000], "allocations")
    return None


# ---- which processes are followed ----

def sites(bench, path):
    rows = rows_of_file(bench.stats(path), "fork.c")
    return {function: value for (function, _), value in rows.items()}


def child_of(bench, paths, pid):
    """The snapshots of children of pid, by their PIDs."""
    shown = {int(one["metadata"]["pid"]): (path, one) for path, one in
             ((path, bench.show(path)) for path in paths)}
    return {child: one for child, one in shown.items()
            if one[1]["metadata"].get("parent_pid") == str(pid)}


def check_children(bench, recording, fork, done):
    """The parent, its forked child, and /bin/true, which was vforked and is over."""
    paths = [recording.path()]  # of true, at once
    recording.target_nr = 2
    paths += recording.snapshots()
    children = child_of(bench, paths, fork.pid)
    path, shown = children[done["child"]]
    check_equal(sites(bench, path), {"child_site": (1009, 1009 * 89)}, "the child's rows")
    check_equal(shown["counters"]["inherited_frees"], 5, "inherited frees")
    check_equal(shown["counters"]["unknown_frees"], 0, "unknown frees")
    others = [one for child, one in children.items() if child != done["child"]]
    check_equal([one[1]["metadata"]["comm"] for one in others], ["true"], "other children")
    check_equal(others[0][1]["metadata"]["end"], "exited 0", "its end")
    return paths


def follow_fork(bench):
    fork, recording = bench.recorded("fork", "--follow-forks")
    _, done = fork.order("go")
    check_equal(done["vfork_status"], 0, "wait status of the vfork child")
    paths = check_children(bench, recording, fork, done)
    parent = next(path for path in paths if f"fork.{fork.pid}/" in path)
    check_equal(sites(bench, parent), {"parent_site": (done["count"], done["size"])}, "the parent's rows")
    check_equal(fork.order("join")[1], {"status": 0}, "the child's end")
    last = recording.path()
    check_equal(bench.show(last)["metadata"]["end"], "exited 0", "its last snapshot")
    fork.order("go")  # once more, and the child outlives the recording
    check(recording.path(), "the second true")
    recording.end(signal.SIGINT)
    children = pathlib.Path(f"/proc/{fork.pid}/task/{fork.pid}/children").read_text().split()
    check_equal(len(children), 1, "children")
    check_unchanged(children[0], "the child")
    check_equal(fork.order("join")[1], {"status": 0}, "the second child's end")


@harness.core
@harness.smoke
def test_follow_records_forked_children(bench):
    follow_fork(bench)


def test_follow_records_forked_children_without_sessions(bench):
    with environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        follow_fork(bench)


@harness.core
def test_follow_records_only_children(bench):
    """A process that only shares the allocator's file is not recorded, and its work is not disturbed."""
    stranger, grow = bench.workload("known"), bench.workload("grow")
    recording = bench.attach([grow], "--follow-forks")
    stranger.order("go")
    check_equal(len(recording.end(signal.SIGINT)), 1, "snapshots")
    stranger.is_unharmed()


@harness.core
def test_follow_continues_after_its_first_process_exits(bench):
    """A program that forks itself into the background: Ctrl-C is for us then."""
    mark = bench.path("mark")
    script = f"(while [ ! -e {mark} ]; do sleep 0.05; done; sleep 100 & echo $! >{mark}.pid; wait) >/dev/null &"
    child = bench.start([ALLOCSNAP, "run", "-f", "-o", bench.path("out"), "--", "/bin/sh", "-c",
                         script], kind=Process)
    check("/sh." in child.line(), "no snapshot of the first process")
    pathlib.Path(mark).touch()
    wait_for(lambda: os.path.exists(mark + ".pid") and os.path.getsize(mark + ".pid"), "its PID")
    comm = pathlib.Path(f"/proc/{int(pathlib.Path(mark + '.pid').read_text())}/comm")
    wait_for(lambda: comm.read_text() == "sleep\n", "sleep")

    def ends():
        """While it still takes the first process for alive, it passes the signal on."""
        child.popen.send_signal(signal.SIGINT)
        return child.popen.poll() is not None

    wait_for(ends, "the end")
    lines = list(iter(child.line, None))
    check(any("/sleep." in line for line in lines), f"no snapshot of what goes on: {lines}")
    check_equal(child.wait(), 0, "exit status")
    os.kill(int(pathlib.Path(mark + ".pid").read_text()), signal.SIGKILL)


# ---- short-lived children ----

def test_follow_records_short_lived_processes(bench):
    script = "i=0; while [ $i -lt 40 ]; do /bin/true; /bin/echo $i; i=$((i + 1)); done; ls /"
    seen = check_named(bench, follow(bench, ["/bin/sh", "-c", script]))
    check_equal(seen, {"sh": 1, "true": 40, "echo": 40, "ls": 1}, "processes")


def test_follow_names_functions_of_short_lived_processes(bench):
    """A program that lived for a millisecond leaves named blocks in its last snapshot."""
    paths = follow(bench, ["/bin/sh", "-c", f"{tool('git')} --version; :"])
    path = next(path for path in paths if "/git." in path)
    rows = bench.stats(path)["statistics"]
    check(rows, "git has left no block")
    unnamed = [] if bench.show(path)["losses"].get("mappings_missed") else [row for row in rows if not row["traceback"][0].get("object")]
    check_equal(unnamed, [], "rows without an object")


def test_follow_does_not_mix_up_images(bench):
    """A process calls exec all the time: each name is of the image that has the blocks; otherwise the name is
    missing, and that is counted."""
    execs, other = (os.path.join(WORKLOADS, name)
                    for name in ("execs", "execs_other"))
    calls = min(2000, 8000 // PATIENCE)
    paths = follow(bench, [execs, str(calls), other], options=["--interval", "50ms"])
    check(len(paths) > 10, f"{len(paths)} snapshots")
    for path in paths:
        names = {row["traceback"][0].get("function") for row in bench.stats(path)["statistics"]
                 if row["size"]}
        check(len(names) < 2 and names <= {"the_site", "the_other_site", None},
              f"{path}: {names}")
        missing = bench.show(path)["losses"].get("tracebacks_missing", 0)
        check(None not in names or missing, f"{path}: not counted")


def test_follow_loses_only_names_without_descriptors(bench):
    """Files stay open for their names: with too many files names are lost, and never snapshots."""
    programs = 300
    script = (f"i=0; while [ $i -lt {programs} ]; do cp /bin/true {bench.folder}/t$i; "
              f"{bench.folder}/t$i; i=$((i + 1)); done")
    paths = follow(bench, ["/bin/sh", "-c", script], preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (300, 300)))
    losses = [bench.show(path)["losses"] for path in paths]
    missed = sum(lost.get("process_events_missed", 0) for lost in losses)
    if not (preempts_itself() and missed):
        check_equal(len(paths), 2 * programs + 1, f"snapshots, where {missed} events of processes were missed")
    check(any(lost.get("objects_unreadable") for lost in losses), "no name was lost: too few programs")


# ---- exact totals ----

C_SOURCE = "\n".join(f"int f{i}(int a) {{ return a * {i} + f{i}(a - 1); }}" for i in range(50))


def test_follow_gcc_matches_the_ledger(bench):
    """Each program that the driver starts has its own ledger, which matches exactly."""
    source = bench.path("source.c")
    pathlib.Path(source).write_text(C_SOURCE + "\nint main(void) { return 0; }\n")
    paths = follow(bench, [tool("gcc"), source, "-o", bench.path("a.out")],
                   env=environment_of(bench, LEDGER_VFORK=""))
    check_named(bench, paths)
    seen = compare_all(bench, paths, "gcc")
    check_equal({comm: len(found) for comm, found in seen.items()},
                {"gcc": 1, "cc1": 1, "as": 1, "collect2": 1, "ld": 1}, "programs")


PYTHON = """
import os
kept = [bytearray(1000 + i) for i in range(300)]
for n in range(3):
    if not (pid := os.fork()):
        del kept[:100]
        more = [bytearray(2000 + i) for i in range(100 * n)]
        if not os.fork():
            del more, kept
            os._exit(0)
        os.wait()
        os._exit(3)
    os.waitpid(pid, 0)
"""


def test_follow_python3_forks_matches_the_ledger(bench):
    """Children of children, without an exec: what they free of their parents' is inherited."""
    paths = follow(bench, ["/usr/bin/python3", "-sSBc", PYTHON],
                   env=environment_of(bench, LEDGER_VFORK="", PYTHONMALLOC="malloc"))
    check_named(bench, paths)
    seen = compare_all(bench, paths, "python3")
    check_equal({comm: len(found) for comm, found in seen.items()}, {"python3": 7}, "processes")
    inherited = sorted(comparison.inherited for comparison in seen["python3"])
    check_equal(inherited[0], 0, "what the first process has inherited")
    check(inherited[1] >= 100, f"inherited frees: {inherited}")


def test_follow_make_matches_the_ledger(bench):
    """Many at once, by vfork and by fork."""
    tool("make")
    pathlib.Path(bench.path("Makefile")).write_text(
        "all: $(patsubst %,%.o,$(shell seq 12))\n"
        ".PHONY: all\n"
        "%.o:\n\techo 'int f$*(int a) { return a; }' >$*.c && gcc -c -o $@ $*.c\n")
    paths = follow(bench, [tool("make"), "-s", "-j2", "-C", bench.folder],
                   env=environment_of(bench, LEDGER_VFORK=""))
    check_named(bench, paths)
    seen = compare_all(bench, paths, "make")
    for comm in ("gcc", "cc1", "as"):
        check_equal(len(seen[comm]), 12, comm)


# ---- children ----
#
# Children that ran before their parent was recorded: named with --follow-forks, recorded with --children.

GROWING = """
import os, time
for _ in range(3):
    if not os.fork():
        os.fork()
        keep = []
        while True:
            keep.append(bytearray(3000))
            time.sleep(0.01)
print("ready", flush=True)
time.sleep(1000)
"""

THREADS = """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


def fork_with_child(bench, argv=()):
    """The workload fork, started by argv, and its child, which waits."""
    fork = bench.start([*argv, os.path.join(WORKLOADS, "fork")], kind=harness.Workload)
    check("ready" in fork.line(), "fork is not ready")
    _, done = fork.order("go")
    return fork, done["child"]


def attach_all(bench, fork, target_nr, *options):
    recording = bench.attach([fork], "--children", *options, wait=False)
    recording.target_nr = target_nr
    return recording.ready()


def check_recorded(fork, recording, child):
    """The child's last snapshot has what it has allocated since the recording began."""
    check_equal(fork.order("join")[1], {"status": 0}, "the child's end")
    path = recording.path()
    check(f"/fork.{child}/" in path, f"{path} is no snapshot of the child {child}")
    return path


@harness.core
def test_running_children_are_named(bench):
    fork, child = fork_with_child(bench)
    recording = bench.attach([fork], "--follow-forks")
    paths = recording.end(signal.SIGINT)
    check("1 running child is not recorded, only new ones: --children" in recording.stderr(), recording.stderr())
    check(not [path for path in paths if f"fork.{child}/" in path], "the child was recorded")


@harness.core
def test_running_children_without_follow_forks_are_named(bench):
    """By each command that records processes; not a child that is recorded, too, nor a thread."""
    fork, child = fork_with_child(bench)
    said = "1 running child is not recorded: --children records it, --follow-forks new ones\n"
    for argv in (["leaks", fork.pid, "--for", "4s"], ["top", fork.pid, "--batch", "-n", "1"]):
        _, errors = bench.run([ALLOCSNAP, *map(str, argv)], status=None)
        check_equal(errors.count(said), 1, f"lines of {argv}: {errors}")
    for options, wanted in (([], said), (["--inject"], "1 running child is not recorded: name its PID, too\n")):
        recording = bench.attach([fork], *options)
        recording.end(signal.SIGINT)
        check_equal(recording.stderr().count(wanted), 1, f"lines of attach {options}: {recording.stderr()}")
    recording = bench.attach([fork, child])
    recording.end(signal.SIGINT)
    check("child" not in recording.stderr(), recording.stderr())
    threads = bench.start([sys.executable, "-c", THREADS])
    check_equal(threads.line(), "ready", "its line")
    recording = bench.attach([threads], "--domain", "malloc")
    recording.end(signal.SIGINT)
    check("child" not in recording.stderr(), recording.stderr())


def test_top_shows_the_children(bench):
    fork, child = fork_with_child(bench)
    out, errors = bench.run([ALLOCSNAP, "top", str(fork.pid), "--children", "--batch", "-n", "2"])
    check("1 running child is recorded, too" in errors, errors)
    check(re.search(rf"^ *{child} ", out, re.MULTILINE), out)


@harness.core
def test_children_are_recorded_on_request(bench):
    for options in ((), ("--follow-forks",)):
        fork, child = fork_with_child(bench)
        recording = attach_all(bench, fork, 2, *options)
        shown = bench.show(check_recorded(fork, recording, child))
        check_equal(shown["counters"]["allocations"], 1, "allocations of the child since then")
        check("1 running child is recorded, too" in recording.stderr(), recording.stderr())
        recording.end(signal.SIGINT)
        fork.is_unharmed()


def test_children_of_children_are_recorded(bench):
    """The process that is named is a shell, two generations above."""
    fork, child = fork_with_child(bench, ["sh", "-c", '"$0"; exit'])
    recording = attach_all(bench, fork, 3)
    check("2 running children are recorded, too" in recording.stderr(), recording.stderr())
    check_recorded(fork, recording, child)
    recording.end(signal.SIGINT)


def test_a_child_without_allocator_is_named_and_no_failure(bench):
    """A child that cannot be recorded: a static program without names, beside one that can."""
    source, still = bench.path("still.c"), bench.path("still")
    with open(source, "w", encoding="ascii") as file:
        file.write("#include <unistd.h>\nint main(void) { pause(); return 0; }\n")
    bench.run([harness.tool("gcc"), "-static", "-s", source, "-o", still])
    fork, child = fork_with_child(bench, ["sh", "-c", f'{still} & "$0"; kill $!'])
    recording = attach_all(bench, fork, 3)
    said = recording.stderr()
    check("2 running children are recorded, too" in said and "1 running child is not recorded: " in said, said)
    check_recorded(fork, recording, child)
    recording.end(signal.SIGINT)


def test_leaks_judges_the_children(bench):
    parent = bench.start([sys.executable, "-c", GROWING])
    check_equal(parent.line(), "ready", "its line")
    out, _ = bench.run([ALLOCSNAP, "leaks", str(parent.pid), "--children", "--domain", "malloc", "--for", "8s"], seconds=90)
    check("in 6 of 6 processes" in out, out)


# ---- shared memory ----
#
# Children that run in the memory of their parent, but are no threads of it: recorded with --follow-forks, else
# counted.

UNRECORDED = ("vfork", "clone", "clone-vfork", "exec")


def count_of(bench, path, function):
    rows = bench.stats(path, "--group-by", "function")["statistics"]
    return sum(row["count"] for row in rows if row["key"] == function)


def unrecorded(bench, path):
    return bench.show(path)["losses"]["children_unrecorded"]


def need_ends_of_children(bench):
    """Without fentry the tracepoint at an exit must say whose end it is, which it does with this type (Linux 6.16)."""
    checks = {row["name"]: row for row in json.loads(bench.allocsnap("doctor", "--json")[0])["machine"]["checks"]}
    if checks["fentry"]["state"] != "ok" and b"trace_event_raw_sched_process_exit" not in pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes():
        raise Skip("the kernel has neither fentry nor a tracepoint that tells whose end it is")


@core
@smoke
def test_children_in_the_memory_are_counted(bench):
    need_ends_of_children(bench)
    for way in UNRECORDED:
        program, recording = bench.recorded("shared_memory")
        program.order(way)
        path = recording.end(signal.SIGINT)[-1]
        check_equal((count_of(bench, path, "by_parent"), unrecorded(bench, path)), (100, 1), way)
        check("--follow-forks records them" in recording.stderr(), f"{way}: {recording.stderr()}")
        program.is_unharmed()


@core
@smoke
def test_children_in_the_memory_that_allocate_nothing_are_no_loss(bench):
    program, recording = bench.recorded("shared_memory")
    for way in ("spawn", "missing"):
        program.order(way)
    check_equal(unrecorded(bench, recording.snapshot()), 0, "children")


def test_a_child_that_stays_in_the_memory_is_counted_while_it_is_there(bench):
    """It outlives its parent."""
    need_ends_of_children(bench)
    program, recording = bench.recorded("shared_memory")
    child = program.order("stays")[1]["child"]
    check_equal(unrecorded(bench, recording.snapshot()), 1, "now")
    program.is_unharmed()
    path = recording.end()[-1]
    os.kill(child, signal.SIGKILL)
    check_equal(unrecorded(bench, path), 1, "at its end")


def test_children_in_the_memory_are_recorded_with_follow_forks(bench):
    for way in UNRECORDED:
        program, recording = bench.recorded("shared_memory", "--follow-forks")
        program.order(way)
        path = [path for path in recording.snapshots() if f".{program.pid}" in path][-1]
        found = count_of(bench, path, "by_parent"), count_of(bench, path, "by_child"), unrecorded(bench, path)
        check_equal(found, (40, 100, 0), way)
        recording.end(signal.SIGINT)
        program.is_unharmed()
