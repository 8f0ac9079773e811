# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Features of x86-64 only are refused elsewhere: in one line, before anything is changed or started."""
import os
import pathlib

import harness
from harness import ALLOCSNAP, Skip, check, check_equal, check_unchanged

CODE = "puts machine code of x86-64 into a program"
PYTHON = "Python's objects cannot be recorded (--domain python): "

# {name: (the words of a command, what it says)}; PID and PYTHON are processes, FILE is what a program that runs would make.
REFUSED = {
    "inject": ("attach PID --inject", CODE),
    "inject_exact": ("attach PID --inject=exact", CODE),
    "record_exact": ("attach PYTHON --domain python --inject=exact", CODE),
    "leaks_exact": ("leaks PID --inject=exact", CODE),
    "run_exact": ("run --exact -- touch FILE", CODE),
    "run_exact_python": ("run --exact --domain python -- touch FILE", CODE),
    "python": ("attach PYTHON --domain python", PYTHON),
    "python_leaks": ("leaks PYTHON --domain python", PYTHON),
    "python_run": ("run --domain python -- touch FILE", PYTHON),
}


@harness.rows(REFUSED)
def test_refused_by_machine(bench, words, said):
    if os.uname().machine == "x86_64":
        raise Skip("x86-64 refuses none of this")
    known, made = bench.workload("known"), pathlib.Path(bench.path("made"))
    python = bench.start(["/usr/bin/python3", "-c", "import os; os.write(1, b'ready\\n'); os.read(0, 1)"])
    check_equal(python.line(), "ready", "its first line")
    values = {"PID": str(known.pid), "PYTHON": str(python.pid), "FILE": str(made)}
    stderr = bench.run([ALLOCSNAP, *(values.get(word, word) for word in words.split())], status=None, cwd=bench.folder)[1]
    check_equal(stderr.count("\n"), 1, f"lines of {stderr!r}")
    check(said in stderr, stderr)
    check(not made.exists(), "the program was started")
    for process in known, python:
        check_unchanged(process.pid, words)
        check_equal(process.popen.poll(), None, "the process runs on")


def test_doctor_advises_only_what_works_here(bench):
    """It looks at a Python whose objects cannot be recorded on this machine."""
    if os.uname().machine == "x86_64":
        raise Skip("x86-64 records them")
    python = bench.start(["/usr/bin/python3", "-c", "import os; os.write(1, b'ready\\n'); os.read(0, 1)"])
    check_equal(python.line(), "ready", "its first line")
    process = bench.json("doctor", str(python.pid))["process"]
    advice = {row["name"]: row.get("todo") for row in process["unseen"]}
    check("x86-64 only" in process["python"]["why"], process["python"])
    check("--domain malloc,mmap" in advice["python-objects"] and "python" not in advice["python-objects"].replace("PYTHONMALLOC", ""), advice)
    text = bench.allocsnap("doctor", str(python.pid))[0]
    check("--domain python" not in text, text)
