# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The process that keeps the links: only the end of the recording ends it, and nothing of it outlives the
recording."""
import os
import random
import signal
import time

import harness
from harness import (ALLOCSNAP, NO_LINKS, Law, Skip, changed_places, check, check_equal, check_unchanged, is_running,
                     link_holder_of, kill_and_check, strangers_probes, wait_for)

ROUNDS = 4 if harness.runs_core() else 12


def need_keeper():
    if NO_LINKS:
        raise Skip("without links of many uprobes no process keeps the probes")


@harness.core
def test_link_holder_cleans_up_after_a_recording_killed_at_its_start(bench):
    need_keeper()
    pairs = bench.workload("pairs")
    for _ in range(ROUNDS):
        after_ms = random.uniform(20, 400)
        recording = bench.attach([pairs], wait=False)
        time.sleep(after_ms / 1000)
        kill_and_check(bench, recording, pairs, f"killed {after_ms:.2f} ms after its start")
    pairs.order("go 1 1000")


@harness.core
def test_link_holder_cleans_up_after_a_recording_killed_at_its_end(bench):
    need_keeper()
    pairs = bench.workload("pairs")
    for _ in range(ROUNDS):
        after_ms = random.uniform(0, 150)
        recording = bench.attach([pairs])
        recording.popen.send_signal(signal.SIGINT)
        time.sleep(after_ms / 1000)
        kill_and_check(bench, recording, pairs, f"killed {after_ms:.2f} ms after its SIGINT")
    pairs.order("go 1 1000")


@harness.core
def test_link_holder_ignores_signals(bench):
    """A terminal, a shell or a service manager signals the whole group: the recorder reacts, the link holder does not."""
    need_keeper()
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    link_holder = link_holder_of(recording.pid)
    check(os.getsid(link_holder) == link_holder != os.getsid(recording.pid), "it is of the recording's session")
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1,
                signal.SIGUSR2):
        os.kill(link_holder, how)
    pairs.order("keep 7")
    check_equal(bench.show(recording.snapshot())["blocks"], 7, "blocks")
    check_equal(len(recording.end(signal.SIGINT)), 1, "last snapshots")
    check(not is_running(link_holder), "it is still there")
    check_unchanged(pairs.pid, "at the end")


@harness.core
def test_link_holder_that_is_killed_is_reported(bench):
    """The recording reports it, and its last snapshot has the time since which it is blind; the program goes on."""
    need_keeper()
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    pairs.order("keep 7")
    os.kill(link_holder_of(recording.pid), signal.SIGKILL)
    path, = recording.end(status=1)
    check("allocsnap-links" in recording.stderr(), f"stderr is {recording.stderr()!r}")
    shown = bench.show(path)
    gap, = shown["gaps"]
    check_equal(gap["end_ns"], shown["metadata"]["monotonic_ns"], "the end of the gap")
    check_equal(shown["blocks"], 7, "blocks")
    check_equal(bench.stats(path)["gap_blocks"]["count"], 7, "blocks from before the gap")
    wait_for(lambda: not changed_places(pairs.pid) - strangers_probes(), "the end of the breakpoints", 60, Law)
    pairs.order("go 1 1000")


@harness.core
def test_link_holder_holds_no_pipe(bench):
    """A reader of a killed recorder's output gets the end of file: the link holder does not hold the pipe open."""
    need_keeper()
    pairs = bench.workload("pairs")
    recording = bench.attach([pairs])
    link_holder = link_holder_of(recording.pid)
    shown = {os.readlink(f"/proc/{link_holder}/fd/{fd}") for fd in "012"}
    check_equal(shown, {"/dev/null"}, "its standard files")
    held = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{link_holder}/fd")}
    check(not any(name.startswith("pipe:") for name in held), f"it holds {held}")
    recording.end(signal.SIGINT)


@harness.core
def test_link_holder_of_run_is_not_visible_to_the_program(bench):
    """The program that is run has no end of its socket."""
    script = "ls -l /proc/self/fd; cat /proc/$PPID/comm"
    out, _ = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "sh", "-c", script])
    check("socket:" not in out, f"it has {out}")
