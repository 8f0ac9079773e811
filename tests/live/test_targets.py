# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs in unusual places: each answers as it does at home."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import harness
from harness import (WORKLOADS, Law, Skip, Workload, check, check_equal, check_unchanged, private_mounts,
                     rows_of_file, tool, top_frame, wait_for)
from test_known import check_rows, check_totals, expected_rows

KNOWN = os.path.join(WORKLOADS, "known")


def check_answers(bench, known, recording):
    """Its work is recorded exactly, with names and lines."""
    answers, done = known.order("go")
    path = recording.snapshot()
    check_rows(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), expected_rows(answers))
    check_totals(bench, path, done)
    recording.end(signal.SIGINT)
    known.is_unharmed()


@harness.core
def test_target_in_another_mount_namespace_is_recorded(bench):
    """The program's file is on a file system that we do not see."""
    place = bench.path("place")
    os.mkdir(place)
    script = 'mount -t tmpfs none "$1" && cp "$0" "$1/known" && exec "$1/known"'
    known = bench.start([*private_mounts(), "sh", "-c", script, KNOWN, place],
                        kind=Workload).ready()
    check(not os.path.exists(f"{place}/known"), "the mount is not private")
    check_answers(bench, known, bench.attach([known]))


def test_target_in_a_chroot_is_recorded(bench):
    """The target's libc is not ours, though it has the same path."""
    root = bench.path("root")
    objects = re.findall(r"(/\S+) \(0x", bench.run([tool("ldd"), KNOWN])[0])
    for path in objects:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(KNOWN, root + "/known")
    known = bench.start([tool("chroot"), root, "/known"], kind=Workload).ready()
    check_answers(bench, known, bench.attach([known]))


@harness.core
def test_target_in_another_pid_namespace_is_recorded(bench):
    """The target sees itself as PID 1; allocsnap uses the PID of our namespace."""
    outer = bench.start([tool("unshare"), "-p", "--fork", KNOWN], kind=Workload)
    check_equal(json.loads(outer.line()), {"ready": 1}, "its own PID")
    children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
    check_answers(bench, outer, bench.attach([int(children)]))


@harness.core
def test_target_with_a_replaced_file_is_recorded(bench):
    """A package upgrade: the running file is deleted, and another program has its path."""
    path = bench.path("program")
    shutil.copy(KNOWN, path)
    known = bench.start([path], kind=Workload).ready()
    os.unlink(path)
    shutil.copy(os.path.join(WORKLOADS, "grow"), path)
    check_answers(bench, known, bench.attach([known]))


def test_target_with_a_hostile_name_is_recorded(bench):
    """The name is cleaned for the folder and for the terminal."""
    path = bench.path("..\x1b[2J\nknown")
    shutil.copy(KNOWN, path)
    known = bench.start([path], kind=Workload).ready()
    recording = bench.attach([known])
    snapshot = recording.snapshot()
    check(f"/_.__2J_known.{known.pid}/" in snapshot, f"the path is {snapshot!r}")
    out, _ = bench.allocsnap("show", snapshot)
    check("\x1b" not in out, "show prints an escape sequence")
    check_answers(bench, known, recording)


def test_target_that_is_static_with_symbols_is_recorded(bench):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/known.c")
    compiled = subprocess.run(
        [tool("gcc"), "-static", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", source, "-o",
         bench.path("known")], capture_output=True, check=False)
    if compiled.returncode:
        raise Skip("gcc -static does not work")
    known = bench.start([bench.path("known")], kind=Workload).ready()
    check_answers(bench, known, bench.attach([known]))


@harness.core
def test_target_with_preloaded_jemalloc_is_recorded(bench):
    """An allocator replaces libc's, and has a domain of its own."""
    library = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if not library:
        raise Skip("libjemalloc.so.2 is not installed")
    known = bench.start([KNOWN, "without-pvalloc"], kind=Workload,
                        env=dict(os.environ, LD_PRELOAD=str(library))).ready()
    check_answers(bench, known, bench.attach([known]))


def test_operator_new_of_jemalloc_has_the_right_caller(bench):
    """jemalloc's operator new does not call its malloc: the recorded caller is operator new's direct caller."""
    library = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if not library:
        raise Skip("libjemalloc.so.2 is not installed")
    cxx = bench.start([os.path.join(WORKLOADS, "cxx")], kind=Workload,
                      env=dict(os.environ, LD_PRELOAD=str(library))).ready()
    recording = bench.attach([cxx])
    _, done = cxx.order("go")
    path = recording.snapshot()
    rows = {top_frame(row).get("function"): (row["count"], row["size"])
            for row in bench.stats(path, "--group-by", "lineno")["statistics"]}
    check_equal(rows.get("shop::stock()"), (done["items"], done["items"] * done["item_size"]),
                "items")
    check("shop::discard()" not in rows, "deleted blocks are live")
    check_equal(bench.stats(path, "--group-by", "domain")["statistics"][0]["key"], "2", "domain")


@harness.core
def test_target_that_is_stopped_is_recorded(bench):
    known = bench.workload("known")
    known.popen.send_signal(signal.SIGSTOP)
    recording = bench.attach([known])
    known.popen.send_signal(signal.SIGCONT)
    check_answers(bench, known, recording)


def stopped(_bench, target):
    target.popen.send_signal(signal.SIGSTOP)
    return lambda: target.popen.send_signal(signal.SIGCONT)


def held_by_gdb(bench, target):
    gdb = bench.start([tool("gdb"), "-nx", "-q", "-p", str(target.pid)])

    def let_go():
        gdb.write("detach\nquit\n")
        check_equal(gdb.wait(), 0, "exit status of gdb")
    return let_go


@harness.rows({"stopped": (stopped, "T"), "held_by_gdb": (held_by_gdb, "t")}, of_core=("stopped",))
def test_target_stays_as_it_is_when_the_recording_ends(bench, hold, state):
    known = bench.workload("known")
    recording = bench.attach([known])
    _, done = known.order("go")
    go_on = hold(bench, known)
    wait_for(lambda: state_of(known.pid) == state, "the target is held")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    check_totals(bench, path, done)
    check_unchanged(known.pid, "its end")
    check_equal(state_of(known.pid), state, "state of the target", Law)
    go_on()
    known.order("free")
    known.is_unharmed()


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@harness.core
def test_two_recorders_do_not_disturb_each_other(bench):
    """Two recorders of one process do not disturb each other; the end of one does not affect the other."""
    known = bench.workload("known")
    first, second = bench.attach([known]), bench.attach([known])
    _, done = known.order("go")
    check_totals(bench, first.snapshot(), done)
    first.end(signal.SIGINT)
    _, done = known.order("free")
    check_totals(bench, second.snapshot(), done)
    second.end(signal.SIGINT)
