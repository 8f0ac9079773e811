# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python of a program that says it is CPython, and lies: what it costs is bounded, and the lies are counted."""
import pathlib
import signal

from harness import NO_SESSIONS, Skip, check, check_equal, losses_of

CALLS = 400
MEMORY_MOST = 300 << 20  # of the recorder; a lie is 1 GiB long


def attach(bench):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    target = bench.workload("forged_python")
    return target, bench.attach([target], "--domain", "python", "--traceback-limit", "25")


def peak_memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def shown_after(bench, what, calls=CALLS):
    """The JSON of `show` for a snapshot after such a lie, and its path."""
    target, recording = attach(bench)
    target.order("forge " + what)
    target.order(f"call {calls}")
    path = recording.snapshot()
    check(peak_memory(recording.pid) < MEMORY_MOST, f"the recorder has taken {peak_memory(recording.pid)} bytes")
    target.order("forge honest")
    target.order("call 10")
    check(recording.snapshot(), "a snapshot after the lies")
    recording.end(signal.SIGINT)
    target.is_unharmed()
    return bench.show(path), path


def check_allocations(shown, nr=CALLS):
    check_equal(shown["counters"]["allocations"], nr, "allocations")


def frames_of(bench, path):
    """{(file, line)} of all tracebacks."""
    return {(frame["filename"], frame["lineno"]) for row in bench.stats(path, "--group-by", "traceback")["statistics"]
            for frame in row["traceback"]}


def test_python_forged_but_honest(bench):
    """The forgery is good enough: without a lie its objects and frames are recorded."""
    shown, path = shown_after(bench, "honest")
    check_allocations(shown)
    check_equal(losses_of(shown), {}, "losses")
    check_equal({file for file, _ in frames_of(bench, path)}, {"lies.py"}, "files")


def test_python_frames_in_a_circle_are_cut(bench):
    shown, path = shown_after(bench, "frames")
    check_allocations(shown)
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    check_equal({len(row["traceback"]) for row in rows}, {25}, "frames of each traceback")


def test_python_names_of_a_gibibyte_are_cut(bench):
    shown, path = shown_after(bench, "names")
    check_allocations(shown)
    check(all(len(file) <= 3 * 4096 for file, _ in frames_of(bench, path)), "a file's name is long")


def test_python_line_tables_of_a_gibibyte_are_not_read(bench):
    shown, path = shown_after(bench, "lines")
    check_allocations(shown)
    check(all(not line for _, line in frames_of(bench, path)), "a line without a table")


def test_python_pools_that_cannot_be_read_are_counted(bench):
    shown, _ = shown_after(bench, "pools")
    check(losses_of(shown).get("python_blocks_unfound", 0) >= CALLS // 2, f"losses: {losses_of(shown)}")


def test_python_key_that_no_thread_has_gives_unknown_frames(bench):
    shown, path = shown_after(bench, "key")
    check_allocations(shown)
    check_equal(len(bench.stats(path, "--group-by", "traceback")["statistics"]), 1, "tracebacks")


def test_python_code_without_end_is_bounded(bench):
    """Four thousand code objects at once: those that found no room are counted."""
    shown, _ = shown_after(bench, "codes", 4000)
    check_allocations(shown, 4000)


def test_python_tables_in_a_circle_are_refused(bench):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    target = bench.workload("forged_python", "tables")
    errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", status=1)[1]
    check("are in front of its allocators" in errors, errors)
    target.is_unharmed()
