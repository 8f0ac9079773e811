# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""C code in Go programs: tracebacks go on in the Go code that called it, on the goroutine's stack (workloads/cgo.go)."""
import os
import re

from harness import ALLOCSNAP, check, check_equal, tool, top_frame
from unwinding import SOURCES, name_of, needs_tables

TIMES = 20
# Functions of Go's runtime and of cgo, between the program's own.
GLUE = re.compile(r"runtime\.|_cgo|crosscall2$|main\._Cfunc_|start_thread$|clone3$")
CALLBACK = ["main.goNested", "goNested"]  # Go's function, and the one of that name for C
NESTED = ["nested", *CALLBACK, "realigned", *CALLBACK, "nested", *CALLBACK]

# size: (the program's functions, how many blocks)
WAYS = {
    1001: (["keep", "main.keep", "main.init.0"], 1),
    1002: (["keep", "main.keep", "main.main.func1", "main.inGoroutine.func1"], TIMES),
    1003: (["keep", "main.keep", *["main.keepDeep"] * 21, "main.main.func2", "main.inGoroutine.func1"], TIMES),
    1004: (["keep", "main.keep", *CALLBACK, "nested", "main.main.func3", "main.inGoroutine.func1"], TIMES),
    1005: (["keep", "main.keep", *CALLBACK, *NESTED, "nested", "main.main.func4", "main.inGoroutine.func1"], TIMES),
    1006: (["keep", "main.keep", *CALLBACK, "nested", "start"], TIMES),
    1007: (["keep", "grow_and_keep", "main.main.func6", "main.inGoroutine.func1"], TIMES),
    1008: (["keep", "main.keep", "main.main.func7", "main.inGoroutine.func1"], TIMES),
    25: (["main.keepString", "main.main"], TIMES),
}


def build(bench, name):
    bench.run([tool("env"), "GOCACHE=" + bench.path("go-cache"), "GO111MODULE=off", tool("go"), "build", "-o", bench.path(name),
               str(SOURCES / "cgo.go")], seconds=300)
    return bench.path(name)


def record(bench, program):
    check("ready" in bench.run([ALLOCSNAP, "run", "-o", program + ".snap", "--", program])[0], "no end of the program")
    return program + ".snap"


def rows_of(bench, path, size, *options):
    return bench.stats(path, "--group-by", "traceback", "--min-size", str(size), "--max-size", str(size),
                       *options)["statistics"]


def check_ways(bench, path):
    for size, (expected, count) in WAYS.items():
        rows = rows_of(bench, path, size)
        found = [([name for name in map(name_of, row["traceback"]) if not GLUE.match(name)], row["count"]) for row in rows]
        check_equal(found, [(expected, count)], f"the program's functions of blocks of {size} bytes")
        last = name_of(rows[0]["traceback"][-1])
        check_equal(last, "clone3" if size == 1006 else "runtime.goexit", f"where stacks of {size} bytes begin")


def test_cgo_tracebacks_go_on_in_go_code(bench):
    needs_tables()
    path = record(bench, build(bench, "cgo"))
    check_ways(bench, path)
    rows = bench.stats(path, "--min-size", "25", "--max-size", "25")["statistics"]
    line = (SOURCES / "cgo.go").read_text(encoding="utf-8").split("C.CString")[0].count("\n") + 1
    check_equal([(top_frame(row)["lineno"], row["count"]) for row in rows], [(line, TIMES)], "rows by line of C.CString")


def places(row):
    """File offsets: functions that a call was inlined in have that of the call."""
    found = [(os.path.basename(frame["object"]).removesuffix(".stripped"), frame["offset"]) for frame in row["traceback"]]
    return [place for i, place in enumerate(found) if place not in found[i - 1:i]]


def test_cgo_tracebacks_of_a_stripped_program_are_the_same(bench):
    """By frame pointers; where one is lost since the stack has moved, the traceback ends and says so."""
    needs_tables()
    program = build(bench, "cgo")
    stripped = program + ".stripped"
    bench.run([tool("strip"), "-o", stripped, program])
    with_names, without = record(bench, program), record(bench, stripped)
    for size, (_, count) in WAYS.items():
        whole = [places(row) for row in rows_of(bench, with_names, size, "--keep-wrappers")]
        found = rows_of(bench, without, size, "--keep-wrappers")
        complete = [row for row in found if places(row) == whole[0]]
        check_equal(len(whole), 1, f"tracebacks of {size} bytes")
        check(sum(row["count"] for row in complete) >= count - 1, f"{size}: {[places(row) for row in found]}, not {whole}")
        for row in found:
            check_equal(places(row), whole[0][:len(places(row))], f"a traceback of {size} bytes")
    shown = bench.show(without)
    check_equal(shown["losses"].get("tracebacks_broken", 0), 0, "broken tracebacks")
    check(shown["tracebacks"]["complete"] >= sum(count for _, count in WAYS.values()) - 1, f"{shown['tracebacks']}")
