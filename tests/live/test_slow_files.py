# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs on a file system that another process answers for, or does not (tests/workloads/slow_files.c)."""
import contextlib
import os
import shutil
import signal
import tempfile

import harness
from harness import (ALLOCSNAP, WORKLOADS, Skip, Workload, changed_code, check, check_equal,
                     children_of, is_running, losses_of, private_mounts, rows_of_file, wait_for)

SILENT = "its file system does not answer"


def slow_command(bench, how, name, *args):
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    folder = tempfile.mkdtemp(prefix="slow.", dir=bench.folder)
    return [os.path.join(WORKLOADS, "slow_files"), how, folder, os.path.join(WORKLOADS, name), *args]


@contextlib.contextmanager
def slow_programs(bench, hows, name):
    """Each program is on a file system of its own. The programs end first, which also ends all waits for them."""
    programs = [bench.start(slow_command(bench, how, name), kind=Workload).ready() for how in hows]
    try:
        yield programs
    finally:
        for program in programs:
            program.popen.kill()


def kept(bench, program):
    """The recording of a `pairs` that did `keep 7`: rows, losses, and what is said. Its file system is a child."""
    recording = bench.attach([program])
    program.order("keep 7")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    said = [line for line in recording.said() if "running child is not recorded" not in line]
    return rows_of_file(bench.stats(path), "pairs.c"), losses_of(bench.show(path)), said


def test_slow_files_have_names(bench):
    """A copy is complete: its tracebacks, functions and lines are the same as of a local program."""
    local = kept(bench, bench.workload("pairs"))
    check_equal([count for count, _ in local[0].values()], [7], "blocks of the local one")
    with slow_programs(bench, ("-", "o"), "pairs") as programs:
        for program in programs:
            check_equal(kept(bench, program), local, "rows, losses and notes")


def test_slow_files_are_not_probed(bench):
    """The kernel would have to read the files to place a probe. Their functions are counted, and a line reports it."""
    out, err = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--",
                          *slow_command(bench, "-", "own_malloc", "100000")])
    losses = bench.show(out.split()[-1])["losses"]
    check_equal(losses["functions_unprobed"], 2, "malloc and free")
    check_equal(err.count("nothing in it is probed"), 1, f"how often {err!r} reports it")


def test_slow_files_do_not_include_an_overlay_on_a_disk(bench):
    """Files of containers are on such an overlay, and are probed."""
    harness.need_overlays()
    for name in ("lower", "other", "over"):
        os.mkdir(bench.path(name))
    shutil.copy(os.path.join(WORKLOADS, "own_malloc"), bench.path("lower"))
    script = ("mount -t overlay over -o lowerdir=$1/lower:$1/other $1/over || exit 3; "
              "exec $1/over/own_malloc 20000000")
    program = bench.start([*private_mounts(), "sh", "-c", script, "sh", bench.folder])
    check_equal(program.line(), "", "its output when it sleeps")
    recording = bench.attach([program])
    losses = bench.show(recording.snapshot())["losses"]
    check(changed_code(program.pid) >= 2, "neither malloc nor free is probed")
    recording.end(signal.SIGINT)
    check_equal((losses["functions_unprobed"], recording.said()), (0, []), "what is left out, and said")


@harness.core
def test_slow_files_that_hang_are_abandoned(bench):
    """Only worker processes wait for such files, and the recorder can abandon a worker: all programs are
    recorded, and a line reports each silent file."""
    local = bench.workload("pairs")
    with slow_programs(bench, ("h", "ho", "h", "h"), "pairs") as programs:
        recording = bench.attach([*programs, local])
        for program in (*programs, local):
            program.order("keep 7")
        blocks = [bench.show(path)["blocks"] for path in recording.snapshots()]
        check_equal(blocks, [7] * 5, "blocks")
        left = [pid for pid, comm in children_of(recording.pid) if comm == "allocsnap-files"]
        workers = [pid for pid, _ in children_of(left[0])]
        recording.end(signal.SIGTERM)
        check_equal(recording.stderr().count(SILENT), 4, f"how often {recording.stderr()!r} says so")
        check(not is_running(left[0]), "the process that starts workers is still there")
    for worker in workers:
        wait_for(lambda worker=worker: not is_running(worker), f"the end of {worker}")
