# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--no-return-probes: nothing that looks at a stack or at system calls notices the recording."""
import ctypes
import os
import signal

import harness
from harness import ALLOCSNAP, NO_RETURNS, WORKLOADS, check, check_equal

OPTION = "--no-return-probes"


def whole(program):
    done = program.order("go 50")[1]
    check(done["looks"] >= 50, f"looks: {done}")
    return done["whole"] / done["looks"]


@harness.core
def test_return_probes_truncate_backtraces_and_the_option_avoids_it(bench):
    """The target's own backtrace() ends in the allocator with return probes, and never without them."""
    program = bench.workload("backtraces")
    check_equal(whole(program), 1, "whole backtraces, alone")
    for options in ((), (OPTION,)):
        recording = bench.attach([program], *options)
        share = whole(program)
        path = recording.snapshot()
        recording.end(signal.SIGINT)
        shown = bench.show(path)
        check(shown["counters"]["allocations"] > 100, "it was recorded")
        check_equal(shown["losses"].get("calls_unreturned", 0), 0, "calls_unreturned")
        if options or NO_RETURNS:
            check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
            check_equal(share, 1, f"whole backtraces with {options}")
        else:
            check(share < 0.9, f"{share} of the backtraces are whole with return probes")


def test_return_probes_can_be_avoided_in_children(bench):
    """`run` and -f do without return probes, too, and print nothing about the option."""
    script = f"echo go 50 | {os.path.join(WORKLOADS, 'known')}"
    for options in ((OPTION,), (OPTION, "-f")):
        stdout, stderr = bench.run([ALLOCSNAP, "run", *options, "-o", bench.path("out"), "--", "/bin/sh", "-c", script])
        check("return probe" not in stderr, stderr)
        paths = [line for line in stdout.splitlines() if line.endswith(".snap")]
        check(paths, f"no snapshots: {stdout!r}")
        for path in paths:
            shown = bench.show(path)
            check_equal(shown["metadata"]["probe_kind"], "uprobe_ret", path)
            check_equal(shown["counters"].get("return_traps", 0), 0, "returns hijacked")


PTRACE_SEIZE = 0x4206


def test_return_probes_warn_about_a_tracer(bench):
    """attach and doctor name the tracer of the process, unless return probes are off and it sees nothing."""
    program = bench.workload("known")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    check_equal(libc.ptrace(PTRACE_SEIZE, program.pid, None, None), 0, "ptrace")
    said = f"process {program.pid} is traced by {os.getpid()} ("
    recording = bench.attach([program])
    recording.end(signal.SIGINT)
    sees = not NO_RETURNS and "no system call" not in bench.allocsnap("doctor", "-v")[0]
    check_equal(said in recording.stderr(), sees, f"reported by attach: {recording.stderr()!r}")
    notes = bench.json("doctor", str(program.pid))["process"]["notes"]
    check_equal(any(note.startswith(said) for note in notes), sees, f"reported by doctor: {notes}")
    recording = bench.attach([program], OPTION)
    recording.end(signal.SIGINT)
    check(said not in recording.stderr(), "reported without return probes")


# ---- nop5 ----
#
# Nops of five bytes, which some kernels turn into a call that a forked child cannot make.

SPEC = "name=pool,object=exe,alloc={}(size=1),alloc={}(size=1),free=give_back(ptr=1)"


@harness.core
def test_nop5_probe_survives_a_fork(bench):
    """The probe is behind the nop; or, if it cannot be moved, the kernel must not have the fault."""
    pool, recording = bench.recorded("nop5", "--probe", SPEC.format("nopped_alloc", "looped_alloc"))
    pool.order("go 1000")
    check_equal(pool.order("fork")[1]["status"], 0, "how the child ended")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    pool.is_unharmed()
    shown = bench.show(path)
    probes = {row["function"]: row["offset"] for row in shown["probes"]}
    unprobed = shown["losses"].get("functions_unprobed", 0)
    rows = {row["name"]: row["state"] for row in bench.json("doctor")["machine"]["checks"]}
    check_equal(unprobed, rows["probe on a 5-byte nop"] != "ok", "functions_unprobed, by doctor's trial")
    check("looped_alloc" not in probes or not unprobed, f"{probes}, {unprobed} unprobed")
    total = bench.stats(path, "--include", "domain=pool")["total"]
    check_equal(total["count"], 2000 - 1000 * unprobed, "objects")
    if unprobed:
        check_equal(unprobed, 1, "functions_unprobed")
        check("looped_alloc in " in recording.stderr() and "nop of five bytes" in recording.stderr(),
              f"not said: {recording.stderr()!r}")
