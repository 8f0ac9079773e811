# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Children that ran before their parent was recorded: named with --follow-forks, recorded with --children."""
import os
import re
import signal
import sys

import harness
from harness import ALLOCSNAP, WORKLOADS, check, check_equal

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
    fork.is_unharmed()


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
