# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Without --domain: Python's objects of a program that is Python, otherwise the heap; and a note of which one it is."""
import os
import pathlib
import re
import shutil
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, Workload, check, check_equal, need_sessions, tool, wait_for
from test_python import PYTHON

# A line that keeps objects, and waits between the steps.
KEEPS = """
import sys
kept = []
print("ready", flush=True)
for line in sys.stdin:
    kept.append([f"number {i} of {len(kept)}" for i in range(20000)])
    print("done", flush=True)
"""


def start_python(bench, *before, **environment):
    python = bench.start([*before, PYTHON, "-Sc", KEEPS], env=dict(os.environ, **environment))
    check_equal(python.line(), "ready", "its first line")
    return python


def step(python):
    python.write("step\n")
    check_equal(python.line(60), "done", "its answer")


def notes_about(errors):
    return [line for line in errors.splitlines() if re.search(r"process \d+ \(\S+\) (runs|has become) Python|by its heap, not", line)]


def view_of(bench, path):
    """The domains that are recorded, and the line of `show` that says which view it is."""
    text = bench.allocsnap("show", path)[0]
    lines = [line.strip() for line in text.splitlines() if re.match(r"  (Python's objects|the heap of the process)", line)]
    return bench.show(path)["metadata"]["domains"], lines[0] if lines else None


def check_heap(bench, target, why, *options):
    """Its heap is recorded, and one note says why."""
    recording = bench.attach([target], *options)
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    domains, line = view_of(bench, path)
    notes = notes_about(recording.stderr())
    check_equal((domains, len(notes)), ("malloc", 1), f"domains, notes: {notes}")
    check(why in notes[0] and why in line, f"{why!r} is not the reason: {notes[0]!r}, {line!r}")


@harness.core
def test_python_default_is_its_objects(bench):
    need_sessions()
    python = start_python(bench)
    recording = bench.attach([python])
    step(python)
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    check_equal(bench.stats(path)["statistics"][0]["traceback"][0]["lineno"], 6, "the first row's line")
    domains, line = view_of(bench, path)
    check_equal((domains, line[:16], "--domain malloc" in line), ("python", "Python's objects", True), "the view")
    notes = notes_about(recording.stderr())
    check(len(notes) == 1 and "--domain malloc" in notes[0], notes)


def test_python_default_is_the_heap_of_others(bench):
    grow, recording = bench.recorded("grow")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    check_equal(view_of(bench, path), ("malloc", None), "the view")
    check_equal(notes_about(recording.stderr()), [], "notes")


def test_python_default_leaves_the_heap_to_who_asks_for_it(bench):
    python = start_python(bench)
    recording = bench.attach([python], "--domain", "malloc")
    domains, line = view_of(bench, recording.snapshot())
    recording.end(signal.SIGINT)
    check_equal((domains, "--domain python" in line), ("malloc", True), line)
    check_equal(notes_about(recording.stderr()), [], "notes")


def test_python_default_is_the_heap_where_objects_cannot_be_recorded(bench):
    """A kernel without sessions."""
    with harness.environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        check_heap(bench, start_python(bench), "uprobe sessions")


def test_python_default_is_the_heap_beside_other_options(bench):
    need_sessions()
    python = start_python(bench)
    for options in (["--follow-forks"], ["--no-return-probes"],
                    ["--probe", "name=raw,object=exe,alloc=PyMem_RawMalloc(size=1),free=PyMem_RawFree(ptr=1)"]):
        check_heap(bench, python, options[0], *options)


def test_python_default_is_the_heap_of_a_program_with_python_in_it(bench):
    need_sessions()
    gdb = bench.start([tool("gdb"), "-nx", "-q"])
    wait_for(lambda: "libpython" in pathlib.Path(f"/proc/{gdb.pid}/maps").read_text(encoding="utf-8"), "gdb's Python", 60)
    check_heap(bench, gdb, "--domain python")


def test_python_default_forgets_the_library_of_the_program_before(bench):
    """A Python with a libpython becomes another program, which has none."""
    need_sessions()
    library = shutil.copy("/lib/x86_64-linux-gnu/libm.so.6", bench.path("libpython3.11.so.1.0"))
    code = 'import os; print("ready", flush=True); input(); os.execve("/bin/sleep", ["sleep", "1000"], {})'
    python = bench.start([PYTHON, "-Sc", code], env=dict(os.environ, LD_PRELOAD=library))
    check_equal(python.line(), "ready", "its first line")
    recording = bench.attach([python])
    python.write("go\n")
    wait_for(lambda: bench.show(recording.snapshot())["metadata"]["comm"] == "sleep", "sleep", 60)
    check("python_not_recorded" not in bench.show(recording.snapshot())["metadata"], "a reason of the program before")
    recording.end(signal.SIGINT)
    check(not [note for note in notes_about(recording.stderr()) if "libpython" in note], recording.stderr())


def run_keeping(bench, *before):
    """`run` of a command that becomes Python: a snapshot of what it keeps, and the notes."""
    run = start_python(bench, ALLOCSNAP, "run", "-o", bench.path("out"), "--interval", harness.NEVER, "--", *before)
    wait_for(lambda: notes_about(run.stderr()), "a note", 60)
    step(run)
    run.popen.send_signal(signal.SIGUSR1)
    path = run.line(60)
    run.popen.stdin.close()
    check_equal(run.wait(60), 0, "exit status of run")
    return path, notes_about(run.stderr())


def check_launched(bench, said, *before):
    path, notes = run_keeping(bench, *before)
    check(len(notes) == 1 and said in notes[0], f"{before}: {notes}")
    check_equal(view_of(bench, path)[0], "python", f"domains after {before}")
    rows = bench.stats(path)["statistics"]
    check(rows[0]["count"] >= 20000 and rows[0]["traceback"][0]["lineno"] == 6, f"after {before} the first row is {rows[0]}")
    check_equal([row["name"] for row in bench.stats(path, "--group-by", "domain")["statistics"]], ["python"], "domains of blocks")


def test_python_default_follows_exec(bench):
    """A shell becomes Python: from then on its objects are recorded, and nothing else."""
    need_sessions()
    check_launched(bench, "has become Python", "/bin/sh", "-c", 'exec "$@"', "sh")


def test_python_default_of_run(bench):
    need_sessions()
    check_launched(bench, "runs Python")
    check_launched(bench, "runs Python", "/usr/bin/env", "A=b")


def test_python_default_of_an_attached_shell_that_becomes_python(bench):
    """The programs were not loaded before allocsnap gave up its privileges: its heap stays recorded, and a note says so."""
    need_sessions()
    shell = bench.start(["/bin/sh", "-c", 'read go; exec "$@"', "sh", PYTHON, "-Sc", KEEPS])
    recording = bench.attach([shell])
    shell.write("go\n")
    check_equal(shell.line(60), "ready", "its first line")
    wait_for(lambda: notes_about(recording.stderr()), "a note", 60)
    domains, line = view_of(bench, recording.snapshot())
    check_equal((domains, "attach again" in line, len(notes_about(recording.stderr()))), ("malloc", True, 1), line)


def test_python_default_ends_with_exec(bench):
    """Python becomes another program, whose heap is recorded, unless only Python's objects were asked for."""
    need_sessions()
    known = os.path.join(harness.WORKLOADS, "known")
    program, alone = (bench.start([PYTHON, "-Sc", f"import os, sys; sys.stdin.readline(); os.execv({known!r}, [{known!r}])"],
                                  kind=harness.Workload) for _ in range(2))
    recording, of_objects = bench.attach([program]), bench.attach([alone], "--domain", "python")
    for started in (program, alone):
        started.write("go\n")
        started.ready()
    wait_for(lambda: "nothing is recorded: the process is no Python any more" in
             bench.allocsnap("show", of_objects.snapshot())[0], "why there is nothing", 60)
    wait_for(lambda: view_of(bench, recording.snapshot())[0] == "malloc", "its heap", 60)
    wait_for(lambda: any(probe["function"] == "malloc" and probe["domain"] != 5 for probe in bench.show(recording.snapshot())["probes"]),
             "probes of its heap", 60)
    answers, _ = program.order("go")
    counters = bench.show(recording.snapshot())["counters"]
    check(counters["allocations"] >= len(answers) > 0, f"{counters} with {len(answers)} sites")


def test_python_default_of_leaks_top_and_retag(bench):
    """They record as attach does; and --retag is about Python."""
    need_sessions()
    python = start_python(bench)
    errors = bench.run([ALLOCSNAP, "leaks", str(python.pid), "--for", "4s", "--retag"], seconds=60)[1]
    check("observing process" in errors, errors)
    errors = bench.run([ALLOCSNAP, "top", str(python.pid), "--batch", "-n", "1"], seconds=60)[1]
    check_equal(len(notes_about(errors)), 1, f"notes: {errors!r}")
    errors = bench.allocsnap("attach", str(bench.workload("grow").pid), "--retag", status=1)[1]
    check("has none of the chosen domains" in errors, errors)


def test_python_default_of_old_versions_says_so(bench):
    """CPython 2.7 does not say what it is: a program with its name stands for it here."""
    program = bench.path("python2.7")
    shutil.copy(f"{WORKLOADS}/grow", program)
    target = bench.start([program], kind=Workload).ready()
    errors = bench.run([ALLOCSNAP, "attach", str(target.pid), "-d", "1s", "-o", bench.path("old.snap")])[1]
    why = "these need uprobe sessions" if harness.NO_SESSIONS else "CPython 2.7, which was never tested"
    check("is recorded by its heap, not by Python's objects" in errors and why in errors, errors)
    check(target.popen.poll() is None, "it has ended")
