# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that copy their code while it runs, breakpoints included."""
import os
import signal

from harness import ALLOCSNAP, WORKLOADS, check, check_equal, wait_for


def test_copies_of_a_program_that_says_so(bench):
    """It is run as it is, without a probe in its own file, and the snapshot counts what is not recorded."""
    path = os.path.abspath(os.path.join(WORKLOADS, "remap"))
    stdout, stderr = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", path])
    check("remap_executable: survived" in stdout, stdout)
    check(f"nothing in {path} is probed: its code may be copied while it runs" in stderr, stderr)
    snapshots = [line for line in stdout.splitlines() if line.endswith(".snap")]
    shown = bench.show(snapshots[-1])
    check(shown["losses"]["functions_unprobed"] > 5, f"losses: {shown['losses']}")
    check_equal(shown["counters"].get("allocations", 0), 0, "allocations")


def test_copies_that_nobody_foresaw(bench):
    """What was probed is counted, so that the books are not blind in silence. Functions of the copy would
    die of their breakpoints, so none is called."""
    program = bench.workload("moved")
    recording = bench.attach([program])
    program.order("malloc")
    program.order("copy")
    said = f"process {program.pid} (moved) runs a copy of the code of "
    wait_for(lambda: said in recording.stderr(), "the copy is noticed")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    shown = bench.show(path)
    probed = {row["function"] for row in shown["probes"]}
    check("malloc" in probed, f"probes: {probed}")
    check_equal(shown["losses"]["functions_copied"], len(shown["probes"]), "functions_copied")
    check_equal(shown["counters"]["allocations"], 1, "allocations of before")


def test_copies_of_before(bench):
    """attach says why there is nothing to record."""
    program = bench.workload("moved")
    program.order("copy")
    program.order("malloc")
    stderr = bench.run([ALLOCSNAP, "attach", str(program.pid), "-o", bench.path("out")], 1)[1]
    check(f"process {program.pid} (moved): runs a copy of its code in anonymous memory" in stderr, stderr)
    program.is_unharmed()
