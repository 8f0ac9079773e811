# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The account outlives the process: however the process ends, the last snapshot is whole, with all names.

Each kind of end is tested twice: for a process that was attached to, and for one that `run` has started.
"""
import json
import os
import shutil
import signal

from cgroup import memory_group
import harness
from harness import (ALLOCSNAP, WORKLOADS, Workload, check, check_equal, check_unchanged, environment, losses_of,
                     rows_of_file, wait_for)
from test_ends import check_last_snapshot
from test_known import check_rows, check_totals, expected_rows

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
    "immediate_exit": (by_command("_exit"), "exited 3", 3),
    "crash": (by_command("crash"), "killed by signal 11", 139),
    "abort": (by_command("abort"), "killed by signal 6", 134),
    "sigkill": (by_sigkill, "killed by signal 9", 137),
    "oom": (by_oom("oom", {}), "killed by the OOM killer", 137),
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


def end_of_run(bench, name):
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


@harness.core
def test_end_by_exit_leaves_a_last_snapshot(bench):
    end_of_attached(bench, "exit")


def test_end_by_immediate_exit_leaves_a_last_snapshot(bench):
    """_exit(2), while other threads run."""
    end_of_attached(bench, "immediate_exit")


@harness.core
def test_end_by_crash_leaves_a_last_snapshot(bench):
    end_of_attached(bench, "crash")


def test_end_by_abort_leaves_a_last_snapshot(bench):
    end_of_attached(bench, "abort")


@harness.core
def test_end_by_sigkill_leaves_a_last_snapshot(bench):
    end_of_attached(bench, "sigkill")


@harness.core
def test_end_by_oom_kill_leaves_a_last_snapshot(bench):
    end_of_attached(bench, "oom")


def test_end_by_oom_kill_during_realloc_leaves_a_last_snapshot(bench):
    """Killed while realloc copies: the old block was not freed, and is counted as live again."""
    end_of_attached(bench, "oom_in_realloc")


def test_end_of_a_deleted_program_leaves_a_named_last_snapshot(bench):
    """The program's file is deleted before the end; names come from the descriptor that was opened earlier."""
    path = bench.path("known")
    shutil.copy(os.path.join(WORKLOADS, "known"), path)
    end_of_attached(bench, "sigkill", bench.start([path], kind=Workload).ready())


@harness.core
def test_run_of_a_program_that_exits_leaves_a_last_snapshot(bench):
    end_of_run(bench, "exit")


def test_run_of_a_program_that_exits_immediately_leaves_a_last_snapshot(bench):
    end_of_run(bench, "immediate_exit")


@harness.core
def test_run_of_a_program_that_crashes_leaves_a_last_snapshot(bench):
    end_of_run(bench, "crash")


def test_run_of_a_program_that_aborts_leaves_a_last_snapshot(bench):
    end_of_run(bench, "abort")


def test_run_of_a_program_killed_by_sigkill_leaves_a_last_snapshot(bench):
    end_of_run(bench, "sigkill")


def test_run_of_a_program_killed_by_oom_leaves_a_last_snapshot(bench):
    end_of_run(bench, "oom")


def test_run_of_a_program_killed_by_oom_during_realloc_leaves_a_last_snapshot(bench):
    end_of_run(bench, "oom_in_realloc")


def check_pid_reuse(bench):
    """A PID that is used again is another process: none of its calls is counted for the process before it."""
    known, other = bench.workload("known"), bench.workload("known")
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


@harness.core
def test_reused_pid_is_another_process(bench):
    check_pid_reuse(bench)


def test_reused_pid_is_another_process_without_sessions(bench):
    with environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        check_pid_reuse(bench)
