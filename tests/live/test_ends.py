# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every way a recording ends: the snapshots that it leaves, and that nothing of it stays in the kernel."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import time

from cgroup import memory_group
import harness
from harness import (ALLOCSNAP, BY_FRAME_POINTERS, NO_LINKS, UNWINDING, WITHOUT_SESSIONS, WORKLOADS, Law, Process, Workload,
                     bpf_ids, bpf_ids_in_kernel, changed_code, changed_places, check, check_equal, check_unchanged,
                     environment, frame_text, losses_of, rows_of_file, strangers_probes, top_frame, uprobe_events,
                     wait_for)
from load import Load, Sqlite
from test_known import check_rows, check_totals, expected_rows


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
    known, recording = bench.recorded("known")
    _, done = known.order("go")
    paths = recording.end(how)
    check_last_snapshot(bench, recording, known, paths, done)
    check_unchanged(known.pid, "at the end")


@harness.core
def test_recording_ends_by_sigint(bench):
    end_by_signal(bench, signal.SIGINT)


@harness.core
def test_recording_ends_by_sigterm(bench):
    end_by_signal(bench, signal.SIGTERM)


@harness.core
def test_recording_ends_by_duration(bench):
    for duration in (2, 10, 60):
        known = bench.workload("known")
        begun = time.monotonic()
        recording = bench.attach([known], "--duration", f"{duration}s")
        _, done = known.order("go")
        has_time = time.monotonic() < begun + duration
        paths = recording.end()
        if has_time:
            break
    check(has_time, "a minute was not enough")
    check_last_snapshot(bench, recording, known, paths, done)
    metadata = bench.show(paths[-1])["metadata"]
    lasted = metadata["monotonic_ns"] - metadata["recording_start_monotonic_ns"]
    check(lasted > 0.8e9 * duration, f"it was recorded for {lasted / 1e9} s")


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
    known, recording = bench.recorded("known")
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
    known, recording = bench.recorded("known")
    known.order("go")
    known.write(f"exec {os.path.join(WORKLOADS, 'grow')}\n")
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
    fork, recording = bench.recorded("fork")
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


def attach_while_it_ends(bench, descriptors, *options):
    """The process is killed as soon as the recorder has so many descriptors open: at one step or other of the start."""
    target = bench.start(["sleep", "1000"])
    recorder = bench.start([ALLOCSNAP, "attach", str(target.pid), "-n", "1", "-i", "10ms", "-o", bench.path("out"), *options])
    folder = f"/proc/{recorder.pid}/fd"
    with contextlib.suppress(OSError):
        while recorder.popen.poll() is None and len(os.listdir(folder)) < descriptors:
            pass
    target.popen.kill()
    return recorder.wait(), recorder.said()


def test_ends_while_it_is_probed_are_told_as_such(bench):
    """The line is the same, whichever step fails."""
    for options in ((), ("--inject",))[:1 if NO_LINKS else 2]:
        for descriptors in range(34, 80, 4):
            status, said = attach_while_it_ends(bench, descriptors, *options)
            check(status in (0, 1), f"status {status}: {said!r}")
            check(not status or len(said) == 1 and re.search(r"process \d+ (has )?ended|no process \d+", said[0]),
                  f"{options}, killed at {descriptors} descriptors: {said!r}")


# ---- crashes ----
#
# Debian's programs, and one in C++, that end badly: what they held is known, with names.

# Walks by frame pointers end early in Debian's code; no block is missing because of it.

PYTHON = """
import os
kept = [bytes(3000) for _ in range(500)]
print("ready", flush=True)
input()
os._exit(3)
"""
KEPT = (500, 500 * 3033)  # with the header of a bytes object, and its NUL


def check_last(bench, path, end):
    """The last snapshot is whole, and its top rows name their places. Returns the rows."""
    shown = bench.show(path)
    check_equal(shown["metadata"]["end"], end, "how it ended")
    counters = shown["counters"]
    check_equal(shown["blocks"], counters["allocations"] - counters["frees"], "blocks")
    check_equal(shown["traced_memory"]["current"],
                counters["allocated_bytes"] - counters["freed_bytes"], "bytes")
    check_equal(losses_of(shown, UNWINDING), {}, "losses")
    rows = bench.stats(path)["statistics"]
    for row in rows[:10]:
        frame = top_frame(row)
        check(frame.get("function") or frame.get("object"), f"a frame without a name: {frame}")
        check(not frame["filename"].startswith("<"), f"a frame without a file: {frame}")
    return rows


def check_python(bench, path):
    """Debian's python3.11-dbg has the names; without it a frame is in the file itself."""
    row = check_last(bench, path, "exited 3")[0]
    check_equal((row["count"], row["size"]), KEPT, f"the top row, {frame_text(top_frame(row))}")
    function = top_frame(row).get("function")
    named = os.path.exists("/usr/share/doc/python3.11-dbg")
    check_equal(function, "_PyBytes_FromSize" if named else None, "its function")


def start_python(bench, *before):
    program = bench.start([*before, "/usr/bin/python3", "-sSBc", PYTHON],
                          env=dict(os.environ, PYTHONMALLOC="malloc"))
    check_equal(program.line(), "ready", "python3")
    return program


@harness.core
def test_crash_of_python3_leaves_a_last_snapshot(bench):
    program = start_python(bench, ALLOCSNAP, "run", "--domain", "malloc", "-o", bench.path("out"), "--")
    program.write("\n")
    check_python(bench, program.line())
    check_equal(program.wait(), 3, "exit status of run")


def test_crash_of_sqlite3_leaves_a_last_snapshot(bench):
    """Debian has no names for the inside of libsqlite3: a row is a file and an offset."""
    sqlite = Sqlite.start_on(bench)
    recording = bench.attach([sqlite])
    for i in range(10):
        sqlite.step(i)
    os.kill(sqlite.pid, signal.SIGSEGV)
    paths = recording.end()
    check_equal(len(paths), 1, "last snapshots")
    row = check_last(bench, paths[0], "killed by signal 11")[0]
    held = 10 * Sqlite.ROWS * Sqlite.ROW_BYTES
    check("libsqlite3" in frame_text(top_frame(row)), f"the top row is {top_frame(row)}")
    check(held < row["size"] < 1.6 * held + 100000, f"the top row has {row['size']} bytes")


def check_terminate(bench, path):
    rows = check_last(bench, path, "killed by signal 6")
    check_equal(top_frame(rows[0]).get("function"), "get_block()", "the top row")
    check_equal((rows[0]["count"], rows[0]["size"]), (401, 401 * 4099), "its blocks")
    made = sum(row["count"] for row in rows[1:])
    check(made >= 2 * 401, f"{made} blocks of operator new: the nodes of the map, strings in them")
    hidden = [row["count"] for row in rows
              if top_frame(row).get("function", "").startswith("operator new(")]
    check((sum(hidden) >= 2 * 401) == BY_FRAME_POINTERS, f"{hidden} blocks without the caller of operator new")


@harness.core
def test_crash_by_terminate_leaves_a_last_snapshot(bench):
    program, recording = bench.recorded("terminate")
    program.write("go\n")
    check_equal(program.wait(), -signal.SIGABRT, "exit status")
    check_terminate(bench, recording.end()[-1])


def test_crash_by_terminate_under_run_leaves_a_last_snapshot(bench):
    program = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--",
                           os.path.join(WORKLOADS, "terminate")], kind=Process)
    check("ready" in program.line(), "not ready")
    program.write("go\n")
    check_terminate(bench, program.line())
    check_equal(program.wait(), 134, "exit status of run")


# ---- last snapshot ----
#
# The account outlives the process: however the process ends, the last snapshot is whole, with all names. Each kind of
# end is tested twice: for a process that was attached to, and for one that `run` has started.

MEMORY_LIMIT = 64 << 20  # a quarter of what the workload touches
EARLY_SIZE = 67  # of the blocks that it makes before it is ready
THREADS = 7  # that it ends


class Launched(Workload):
    """A workload below `allocsnap run`: the paths of snapshots come in between its answers."""

    def line(self, seconds=60):
        line = super().line(seconds)
        while line and line.endswith(".snap"):
            self.paths.append(line)
            line = super().line(seconds)
        return line

    def ready(self):
        self.paths = []
        self.child = json.loads(self.line())["ready"]
        return self

    def snapshot(self):
        self.popen.send_signal(signal.SIGUSR1)
        path = Workload.line(self)
        check(path.endswith(".snap"), f"no snapshot on SIGUSR1: {path}")
        return path

    def end(self, status):
        """The last snapshot."""
        check_equal(self.line(), None, "what it says at its end")
        check_equal(self.wait(), status, f"exit status of run (stderr {self.stderr()!r})")
        check_equal(len(self.paths), 1, "last snapshots")
        return self.paths[0]


def check_end(bench, path, answers, end):
    """Each call site has its function, line, count and size, and the snapshot says how the process ended."""
    check_rows(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), expected_rows(answers))
    check_equal(bench.show(path)["metadata"].get("end"), end, "how it ended")


def check_totals_since(bench, first, last, done, losses, threads_end):
    """Checks the events between two snapshots of `run`, which has recorded the early blocks. A thread that
    exits also frees the blocks that glibc cached for it, and perhaps those that glibc allocated for it."""
    then, now = bench.show(first), bench.show(last)
    early = done["unknown_frees"]
    expected = dict(done, count=done["count"] - early, size=done["size"] - early * EARLY_SIZE,
                    frees=done["frees"] + early, unknown_frees=0,
                    freed_bytes=done["freed_bytes"] + early * EARLY_SIZE)
    found = {name: now["counters"][name] - then["counters"][name] for name in done.keys()
             - {"count", "size"}}
    found["count"] = now["blocks"] - then["blocks"]
    found["size"] = now["traced_memory"]["current"] - then["traced_memory"]["current"]
    if threads_end:
        own = found["frees"] - expected["frees"]
        own_bytes = found["freed_bytes"] - expected["freed_bytes"]
        check(0 <= own <= THREADS, f"{own} blocks of glibc for {THREADS} threads")
        expected.update(unknown_frees=found["unknown_frees"], frees=found["frees"],
                        freed_bytes=found["freed_bytes"], count=expected["count"] - own,
                        size=expected["size"] - own_bytes)
    check_equal(found, expected, "since it was ready")
    check_equal(now["counters"]["current_blocks"], now["blocks"], "current_blocks")
    lost = {name: n - then["losses"][name] for name, n in losses_of(now).items()}
    check_equal({name: n for name, n in lost.items() if n}, losses, "losses")


# ---- ways to end: each returns the program's last answers, if there are any, and the losses ----

def by_command(command):
    def end(_bench, program, _pid):
        program.write(command + "\n")
        return None, {}
    return end


def by_sigkill(_bench, _program, pid):
    os.kill(pid, signal.SIGKILL)
    return None, {}


def by_oom(command, losses):
    """The kernel's OOM killer, in a group that has no other process."""
    def end(bench, program, pid):
        with memory_group(bench, MEMORY_LIMIT) as group:
            group.take_in(pid)
            answers = program.order(command)
            wait_for(lambda: group.pids() == [], "the OOM kill", seconds=60)
            check_equal(group.kill_count(), 1, "kills of the OOM killer")
        return answers, losses
    return end


# name: (way, "end" in the metadata, exit status of `run`)
ENDS = {
    "exit": (by_command("quit"), "exited 0", 0),
    "immediate_exit": (by_command("_exit"), "exited 3", 3),  # _exit(2), while other threads run
    "crash": (by_command("crash"), "killed by signal 11", 139),
    "abort": (by_command("abort"), "killed by signal 6", 134),
    "sigkill": (by_sigkill, "killed by signal 9", 137),
    "oom": (by_oom("oom", {}), "killed by the OOM killer", 137),
    # Killed while realloc copies: the old block was not freed, and is counted as live again.
    "oom_in_realloc": (by_oom("oom in realloc", {"calls_unreturned": 1}), "killed by the OOM killer", 137),
}


def end_of_attached(bench, name, program=None):
    way, end, _ = ENDS[name]
    known = program or bench.workload("known")
    recording = bench.attach([known])
    answers, done = known.order("go")
    if program:
        os.unlink(program.popen.args[0])
    last, losses = way(bench, known, known.pid)
    answers, done = last or (answers, done)
    if name == "exit":
        del done["unknown_frees"]  # see check_totals_since()
    known.wait()
    paths = recording.end()
    check_last_snapshot(bench, recording, known, paths, done, losses)
    check_end(bench, paths[0], answers, end)


@harness.for_each(ENDS, of_core=("exit", "crash"))
def test_end_of_run_leaves_a_last_snapshot(bench, name):
    way, end, status = ENDS[name]
    known = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--interval", "1h", "--",
                         os.path.join(WORKLOADS, "known")], kind=Launched).ready()
    first = known.snapshot()
    answers, done = known.order("go")
    last, losses = way(bench, known, known.child)
    answers, done = last or (answers, done)
    path = known.end(status)
    check_totals_since(bench, first, path, done, losses, name == "exit")
    check_end(bench, path, answers, end)


@harness.for_each(ENDS, of_core=("exit", "crash", "sigkill", "oom"))
def test_end_leaves_a_last_snapshot(bench, name):
    end_of_attached(bench, name)


def test_end_of_a_deleted_program_leaves_a_named_last_snapshot(bench):
    """The program's file is deleted before the end; names come from the descriptor that was opened earlier."""
    path = bench.path("known")
    shutil.copy(os.path.join(WORKLOADS, "known"), path)
    end_of_attached(bench, "sigkill", bench.start([path], kind=Workload).ready())


@harness.rows({"with_sessions": (None,), "without_sessions": (WITHOUT_SESSIONS,)}, of_core=("with_sessions",))
def test_reused_pid_is_another_process(bench, mode):
    """A PID that is used again is another process: none of its calls is counted for the process before it."""
    known, other = bench.workload("known"), bench.workload("known")
    with environment(mode):
        recording = bench.attach([known, other])
    answers, done = known.order("go")
    os.kill(known.pid, signal.SIGKILL)
    known.wait()
    program = [os.path.join(WORKLOADS, name) for name in ("as_pid", "known")]
    heir = bench.start([program[0], str(known.pid), program[1]], kind=Workload)
    line = heir.line()
    check(line and json.loads(line)["ready"] == known.pid, f"the PID could not be taken: {line}")
    heir.order("go")
    other.order("go")
    paths = recording.end(signal.SIGINT)
    check_unchanged(known.pid, "the process that has the PID now")
    path, = (path for path in paths if f"known.{known.pid}/" in path)
    check_totals(bench, path, done)
    check_end(bench, path, answers, "killed by signal 9")
    heir.is_unharmed()
