# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Debian's programs, and one in C++, that end badly: what they held is known, with names."""
import os
import signal

import harness
from harness import (ALLOCSNAP, BY_FRAME_POINTERS, UNWINDING, WORKLOADS, Process, check, check_equal, frame_text,
                     losses_of, top_frame)
from load import Sqlite

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
    check((sum(hidden) >= 2 * 401) == BY_FRAME_POINTERS, f"nobody called operator new for {hidden}")


@harness.core
def test_crash_by_terminate_leaves_a_last_snapshot(bench):
    program = bench.workload("terminate")
    recording = bench.attach([program])
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
