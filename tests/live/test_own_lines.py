# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rows are the program's own lines, and instances of a template keep their names."""
import os
import pathlib
import re
import signal

from harness import ALLOCSNAP, WORKLOADS, Failure, Workload, check, check_equal, losses_of, tool, top_frame
from test_heaps import ARCHIVE

SOURCE = pathlib.Path(__file__).parent.parent / "workloads" / "templates.cc"
CODECS = 64


def line_of(mark):
    """The line of templates.cc that ends with this comment."""
    lines = [number for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1)
             if line.endswith(f"// {mark}")]
    check_equal(len(lines), 1, f"lines marked {mark}")
    return lines[0]


def record_templates(bench):
    program, recording = bench.recorded("templates")
    program.order("go")
    path = recording.end(signal.SIGINT)[-1]
    program.is_unharmed()
    return path


def test_rows_of_a_cxx_program_are_its_own_lines(bench):
    path = record_templates(bench)
    rows = bench.stats(path, "--top", "0")["statistics"]
    files = {pathlib.Path(top_frame(row)["filename"]).name for row in rows if row["count"] > 1}
    check_equal(files, {"templates.cc"}, "files of the rows")
    by_line = {top_frame(row)["lineno"]: row for row in rows}
    for mark in ("names", "prices"):
        check(by_line[line_of(mark)]["count"] >= 1000, f"{mark}: {by_line[line_of(mark)]}")
    kept = {pathlib.Path(top_frame(row)["filename"]).name
            for row in bench.stats(path, "--keep-wrappers")["statistics"]}
    check("templates.cc" not in kept, f"--keep-wrappers: {kept}")


def test_instances_of_a_template_keep_their_names(bench):
    path = record_templates(bench)
    line = line_of("decode")
    rows = [row for row in bench.stats(path)["statistics"] if top_frame(row)["lineno"] == line]
    check_equal([(row["count"], row["size"]) for row in rows],
                [(CODECS, sum(range(1000, 1000 + CODECS)))], "the line")
    check_equal(top_frame(rows[0])["function"], "Codec::decode", "what the instances share")
    rows = [row for row in bench.stats(path, "--group-by", "traceback", "--top", "0")["statistics"]
            if top_frame(row)["lineno"] == line]
    check_equal(sorted((row["size"], top_frame(row)["function"]) for row in rows),
                [(1000 + n, f"Codec<{n}>::decode()") for n in range(CODECS)], "instances")


def test_tracebacks_are_headed_by_their_own_line(bench):
    path = record_templates(bench)
    out = bench.allocsnap("stats", path, "--group-by", "traceback", "--top", "0")[0]
    heads = set(re.findall(r"^\S*?([^/\s]+):\d+: size=", out, re.MULTILINE))
    check("templates.cc" in heads, f"heads: {heads}")
    check(not any("libc" in head or "start" in head for head in heads), f"heads: {heads}")
    check("in Codec" not in out and re.search(r"^    Codec<7>::decode at ", out, re.MULTILINE), "names of frames")
    check("basic_string<" not in out, "a name is not short")
    full = bench.allocsnap("stats", path, "--group-by", "traceback", "--top", "0", "-v")[0]
    check("Codec<7>::decode()" in full and "basic_string<char" in full, "-v has no names in full")
    old = bench.allocsnap("stats", path, "--group-by", "traceback", "--tracemalloc")[0]
    check(re.search(r"^(\S*(start\.[Sc]|libc[^:]*):\d+|_start \(\S+\)): size=", old, re.MULTILINE), old[:300])


# Callers of own_heap.cc's operator new: they have names that libraries use, too.
OWN_HEAP_SITES = {"core::Cache::put": 50, "g_list_of_items": 50, "alloc::orders": 50}


def functions_of(bench, program, allocator=None):
    """{function: count} of the rows for what the program allocates at the order "go". No row is the program's allocator."""
    recording = bench.attach([program])
    program.order("go")
    path = recording.end(signal.SIGINT)[-1]
    rows = bench.stats(path, "--group-by", "function")["statistics"]
    program.is_unharmed()
    shown = bench.show(path)
    said = [line for line in recording.stderr().splitlines() if "without return probes" not in line]  # of a thread with its own stack
    check_equal((losses_of(shown), said), ({}, []), "losses, what it says")
    check_equal({kind: nr for kind, nr in shown["tracebacks"].items() if nr}, {"complete": shown["blocks"]}, "tracebacks")
    if allocator and any(allocator in row["key"] for row in rows):
        raise Failure(f"rows: {rows}, of {bench.stats(path, '--group-by', 'traceback', '--keep-wrappers')['statistics'][:1]}")
    return {re.sub(r"\(.*", "", row["key"]): row["count"] for row in rows}


def test_rows_pass_over_what_the_programs_own_heap_calls(bench):
    """Also without lines, where the language of a name is known by its form only."""
    stripped = bench.path("own_heap")
    bench.run([tool("objcopy"), "--strip-debug", os.path.join(WORKLOADS, "own_heap"), stripped])
    for path in (os.path.join(WORKLOADS, "own_heap"), stripped):
        program = bench.start([path], kind=Workload).ready()
        check_equal(functions_of(bench, program), OWN_HEAP_SITES, f"rows of {path}")


def test_rows_pass_over_a_rust_programs_own_allocator(bench):
    for options in ([], ["-O", "-C", "debuginfo=2"]):
        path = bench.path(f"counting{len(options)}")
        bench.run([tool("rustc"), *options, "-o", path, str(SOURCE.parent / "counting.rs")], seconds=60)
        rows = functions_of(bench, bench.start([path], kind=Workload).ready(), "Counting")
        for function in ("counting::fill_index", "counting::fill_names"):
            check_equal([count for name, count in rows.items() if name.startswith(function)], [50], f"{function} in {rows}")


# ---- own heap ----
#
# Programs with an operator new of their own: no heap's, though malloc lies in the same file; what to do about a pool.

OWN_HEAP_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/own_heap.cc")
PROBE = "name=new,object=exe,alloc=_Znwm(size=1),free=_ZdlPv(ptr=1),free=_ZdlPvm(ptr=1)"
KNOWN = "is known, and recorded without --probe"


def build(bench, *options, name="own_heap"):
    path = bench.path(name)
    bench.run([tool("g++"), "-std=c++17", "-g", *options[:-1], OWN_HEAP_SOURCE, "-o", path, *options[-1:]], seconds=60)
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
