# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every way a recording ends: the snapshots that it leaves, and that nothing of it stays in the kernel."""
import contextlib
import os
import pathlib
import re
import signal
import stat
import time

import harness
from harness import (ALLOCSNAP, WORKLOADS, Law, bpf_ids, bpf_ids_in_kernel, changed_code, changed_places, check,
                     check_equal, check_unchanged, rows_of_file, strangers_probes, uprobe_events, wait_for)
from load import Load, Sqlite
from test_known import check_totals


def check_file(bench, recording, path, comm, pid):
    """DIR/HOST/COMM.PID/YYYYMMDDTHHMMSS.mmmZ.BOOT.MONOTONIC.snap, for our eyes only."""
    host = re.sub(r"^\.|[^A-Za-z0-9._-]", "_", os.uname().nodename)
    folder, name = os.path.split(path)
    check_equal(folder, f"{recording.folder}/{host}/{comm}.{pid}", "folder")
    metadata = bench.show(path)["metadata"]
    moment = f"{metadata['boot_id'][:8]}.{int(metadata['monotonic_ns']) // 10**6}"
    check(re.fullmatch(rf"\d{{8}}T\d{{6}}\.\d{{3}}Z\.{moment}(-\d+)?\.snap", name), f"file name {name}")
    check_equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of the file")
    for made in (folder, os.path.dirname(folder)):
        check_equal(stat.S_IMODE(os.stat(made).st_mode), 0o700, f"mode of {made}")


def snapshots_below(folder):
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*") if path.is_file())


def check_last_snapshot(bench, recording, known, paths, done, losses=None):
    """One more file, complete, with all live blocks; and no file that was not printed."""
    check_equal(len(paths), 1, "last snapshots")
    check_file(bench, recording, paths[0], "known", known.pid)
    check_equal(len(snapshots_below(recording.folder)), 2, "files")
    check_totals(bench, paths[0], done, losses)


def end_by_signal(bench, how):
    known = bench.workload("known")
    recording = bench.attach([known])
    _, done = known.order("go")
    paths = recording.end(how)
    check_last_snapshot(bench, recording, known, paths, done)
    check_unchanged(known.pid, "at the end")
    known.is_unharmed()


@harness.core
def test_recording_ends_by_sigint(bench):
    end_by_signal(bench, signal.SIGINT)


@harness.core
def test_recording_ends_by_sigterm(bench):
    end_by_signal(bench, signal.SIGTERM)


@harness.core
def test_recording_ends_by_duration(bench):
    known = bench.workload("known")
    for duration in (2, 10, 60):
        begun = time.monotonic()
        recording = bench.attach([known], "--duration", f"{duration}s")
        _, done = known.order("go")
        has_time = time.monotonic() < begun + duration
        paths = recording.end()
        if has_time:
            break
        known.order("free")
    check(has_time, "a minute was not enough")
    check_last_snapshot(bench, recording, known, paths, done)
    metadata = bench.show(paths[-1])["metadata"]
    lasted = metadata["monotonic_ns"] - metadata["recording_start_monotonic_ns"]
    check(lasted > 0.8e9 * duration, f"it was recorded for {lasted / 1e9} s")
    known.is_unharmed()


@harness.core
def test_recording_ends_by_count(bench):
    """N snapshots in all, the first after one interval."""
    known = bench.workload("known")
    begun = time.monotonic()
    recording = bench.attach([known], "--count", "3", wait=False, interval="400ms")
    paths = recording.end()
    check(time.monotonic() - begun >= 1.2, "not three intervals")
    check_equal(len(paths), 3, "snapshots")
    check_equal(snapshots_below(recording.folder), sorted(paths), "files")
    for path in paths:
        check_file(bench, recording, path, "known", known.pid)
        check_equal(bench.show(path)["metadata"]["interval_ns"], 400000000, "when the next one is due")
    known.is_unharmed()


@harness.core
def test_sigusr1_takes_a_snapshot(bench):
    """SIGUSR1 makes allocsnap take a snapshot, and the recording goes on."""
    known = bench.workload("known")
    recording = bench.attach([known])
    paths = [recording.snapshot() for _ in range(3)]
    check_equal(len(set(paths)), 3, "different files")
    for path in paths:
        check_file(bench, recording, path, "known", known.pid)
    check(recording.popen.poll() is None, "SIGUSR1 has ended the recording")
    check_equal(len(recording.end(signal.SIGINT)), 1, "last snapshots")


def test_last_snapshot_includes_the_last_events(bench):
    """Events between a snapshot and the signal that ends the process are not lost."""
    deep = bench.workload("deep")
    for _ in range(4):
        recording = bench.attach([deep])  # ready with a first snapshot
        deep.order("go")
        paths = recording.end(signal.SIGINT)
        check_equal(len(paths), 1, "last snapshots")
        check_equal(bench.show(paths[0])["blocks"], 7, "blocks in it")


@harness.core
def test_exec_starts_a_new_accounting(bench):
    """exec clears the account; the new program is recorded under the same PID."""
    known = bench.workload("known")
    recording = bench.attach([known])
    known.order("go")
    known.write(f"exec {os.path.abspath(os.path.join(WORKLOADS, 'grow'))}\n")
    known.ready()

    def names(path):
        return {function for function, _ in rows_of_file(bench.stats(path), "grow.c")}

    wait_for(lambda: "grow_here" in names(recording.snapshot()), "blocks of the new program, with names")
    path = recording.snapshot()
    check_equal(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), {}, "rows of the program that is gone")
    shown = bench.show(path)
    check_equal(shown["metadata"]["comm"], "grow", "comm")
    os.kill(known.pid, signal.SIGTERM)
    paths = recording.end()
    check_equal(len(paths), 1, "last snapshots")
    shown = bench.show(paths[0])
    check_equal(shown["blocks"], shown["counters"]["allocations"] - shown["counters"]["frees"],
                "blocks")


@harness.core
def test_attach_to_a_thread_records_its_process(bench):
    known = bench.workload("known")
    thread = max(int(name) for name in os.listdir(f"/proc/{known.pid}/task"))
    check(thread != known.pid, "the workload has no other thread")
    recording = bench.attach([thread])
    _, done = known.order("go")
    paths = recording.end(signal.SIGINT)
    check_last_snapshot(bench, recording, known, paths, done)
    known.is_unharmed()


@harness.core
def test_attach_to_a_pid_and_its_tid_records_one_process(bench):
    """A PID and a TID of it, in one command: one process, one snapshot."""
    known = bench.workload("known")
    thread = max(int(name) for name in os.listdir(f"/proc/{known.pid}/task"))
    recording = bench.attach([known, thread], wait=False)
    recording.target_nr = 1
    recording.ready()
    _, done = known.order("go")
    check_totals(bench, recording.end(signal.SIGINT)[0], done)


@harness.core
@harness.alone
def test_killed_recorder_leaves_nothing_in_the_kernel(bench):
    """kill -9 of allocsnap: soon nothing of it is left in the kernel, and the target goes on."""
    events = uprobe_events(bench)
    sqlite = Sqlite.start_on(bench)
    recording = bench.attach([sqlite])
    load = Load(sqlite.step)
    wait_for(lambda: load.done > 10, "the load begins")
    ours = {}

    def bpftool_sees_all():
        """The links that measure the price of a trap may end between the two looks."""
        ours.update(bpf_ids(recording.pid))
        here = bpf_ids_in_kernel()
        return all(ids <= here[kind] for kind, ids in ours.items())
    wait_for(bpftool_sees_all, "bpftool sees what attach holds")
    check(len(ours["prog"]) >= 4 and ours["link"], f"what attach holds: {ours}")
    check(changed_code(sqlite.pid) > 0, "no breakpoint is seen in the code")
    recording.popen.kill()
    wait_for(lambda: not any(ids & ours[kind] for kind, ids in bpf_ids_in_kernel().items())
             and not changed_places(sqlite.pid) - strangers_probes(), "the end of programs, links and breakpoints", kind=Law)
    check_equal(uprobe_events(bench), events, "uprobe events", Law)
    load.stop()
    check_equal(sqlite.row_count(), load.done * Sqlite.ROWS, "rows in the table")
    leftovers = [path for path in snapshots_below(recording.folder) if not path.endswith(".snap")]
    check_equal(leftovers, [], "half a snapshot")


@harness.core
def test_fork_does_not_count_for_the_parent(bench):
    """A child's blocks do not count for its parent, and the child survives."""
    fork = bench.workload("fork")
    recording = bench.attach([fork])
    _, done = fork.order("go")
    check_equal(done["vfork_status"], 0, "wait status of the vfork child")
    path = recording.snapshot()
    rows = {function: value for (function, _), value in
            rows_of_file(bench.stats(path), "fork.c").items()}
    check_equal(rows, {"parent_site": (done["count"], done["size"])}, "rows")
    check_equal(bench.show(path)["counters"]["frees"], 0, "frees")
    check_equal(fork.order("join")[1], {"status": 0}, "the child's end")
    fork.order("go")  # once more, and the child outlives the recording
    recording.end(signal.SIGINT)
    children = pathlib.Path(f"/proc/{fork.pid}/task/{fork.pid}/children").read_text().split()
    check_equal(len(children), 1, "children")
    check_unchanged(children[0], "the child")
    check_equal(fork.order("join")[1], {"status": 0}, "the second child's end")
    fork.is_unharmed()


def attach_while_it_ends(bench, descriptors, *options):
    """The process is killed as soon as the recorder has so many descriptors open: at one step or other of the start."""
    target = bench.start(["sleep", "1000"])
    recorder = bench.start([ALLOCSNAP, "attach", str(target.pid), "-n", "1", "-i", "10ms", "-o", bench.path("out"), *options])
    folder = f"/proc/{recorder.pid}/fd"
    with contextlib.suppress(OSError):
        while recorder.popen.poll() is None and len(os.listdir(folder)) < descriptors:
            pass
    target.popen.kill()
    return recorder.wait(), recorder.stderr()


def test_ends_while_it_is_probed_are_told_as_such(bench):
    """The line is the same, whichever step fails."""
    for options in ((), ("--inject",)):
        for descriptors in range(34, 80, 4):
            status, said = attach_while_it_ends(bench, descriptors, *options)
            check(status in (0, 1), f"status {status}: {said!r}")
            check(not status or said.count("\n") == 1 and re.search(r"process \d+ (has )?ended|no process \d+", said),
                  f"{options}, killed at {descriptors} descriptors: {said!r}")
