# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs with an operator new of their own: no heap's, though malloc lies in the same file; what to do about a pool."""
import os
import signal

from harness import ALLOCSNAP, Workload, check, check_equal, tool
from test_heaps import ARCHIVE
from test_own_lines import OWN_HEAP_SITES, functions_of

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/own_heap.cc")
PROBE = "name=new,object=exe,alloc=_Znwm(size=1),free=_ZdlPv(ptr=1),free=_ZdlPvm(ptr=1)"
KNOWN = "is known, and recorded without --probe"


def build(bench, *options, name="own_heap"):
    path = bench.path(name)
    bench.run([tool("g++"), "-std=c++17", "-g", *options[:-1], SOURCE, "-o", path, *options[-1:]], seconds=60)
    return path


def started(bench, path):
    return bench.start([path], kind=Workload).ready()


def test_operator_new_of_a_program_is_not_the_heaps(bench):
    """Its delete is inlined in places, so that only free runs: blocks under new's address would never go."""
    for options in (["-O2", "-static"], ["-O0", "-static"], ["-O2", "-flto", "-static"], ["-O2", "-static-pie"],
                    ["-O2", ARCHIVE], ["-O2", "-DOWN_MALLOC", "-static-libstdc++"], ["-O2", "-DOWN_MALLOC", "-static"]):
        path = build(bench, *options)
        check_equal(functions_of(bench, started(bench, path)), OWN_HEAP_SITES, f"blocks that live, built {options}")
        os.unlink(path)


def doctor_row(bench, program):
    rows = bench.json("doctor", str(program.pid))["process"]["unseen"]
    return [row for row in rows if row["name"] == "own-operator-new"]


def test_doctor_tells_of_an_operator_new_over_a_pool(bench):
    for options in (["-O1"], ["-O2", "-static"], ["-O2", "-flto"]):
        path = build(bench, "-DPOOL", *options)
        rows = doctor_row(bench, started(bench, path))
        check_equal([path in row["why"] and PROBE.split(",")[2] in row["todo"] for row in rows], [True], f"{options}: {rows}")
        os.unlink(path)
    program = started(bench, build(bench, "-DNEXT", "-O2"))
    check_equal(["by name: it may give" in row["why"] for row in doctor_row(bench, program)], [True], "malloc by a pointer")
    check_equal(functions_of(bench, program), OWN_HEAP_SITES, "blocks of malloc by a pointer")
    for name in ("own_heap", "cxx_new", "templates"):
        check_equal(doctor_row(bench, bench.workload(name)), [], f"{name}, which has no pool")


def test_operator_new_over_a_pool_is_recorded_by_its_name(bench):
    for options in (["-O1", "-fno-inline"], ["-O1", "-fno-inline", "-static"]):
        path = build(bench, "-DPOOL", *options)
        program = started(bench, path)
        recording = bench.attach([program], "--probe", PROBE)
        program.order("go")
        snapshot = recording.end(signal.SIGINT)[-1]
        total = bench.stats(snapshot, "--include", "domain=new")["total"]
        check_equal(total["count"], sum(OWN_HEAP_SITES.values()), f"{options}: blocks of the pool")
        program.is_unharmed()
        os.unlink(path)


def test_probe_of_a_function_that_is_recorded_is_refused(bench):
    program = bench.workload("own_heap")
    probe = "name=c,object=libc.so.6,alloc=malloc(size=1),free=free(ptr=1)"
    said = bench.run([ALLOCSNAP, "attach", str(program.pid), "--probe", probe], status=1)[1]
    check(KNOWN in said, f"said {said!r}")
