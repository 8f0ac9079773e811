# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs under load: the diff names what grows, and they go on unharmed."""
import os
import re
import shutil
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, Skip, changed_code, check, check_equal, check_unchanged, frame_text, tool, top_frame
from load import Load, Python, Redis, Sqlite
from test_unwind import SOURCES, name_of, needs_tables


def check_growth(bench, old, new, object_name, least, most):
    """The top growing row is in the object, has a name, and has grown as the load has."""
    row = bench.diff(old, new)["statistics"][0]
    frame = top_frame(row)
    check(object_name in frame_text(frame), f"what grows most is {frame}, not in {object_name}")
    check(least <= row["size_diff"] <= most,
          f"{frame_text(frame)} grew by {row['size_diff']}, the load says {least} to {most}")
    deeper = bench.diff(old, new, "--group-by", "traceback")["statistics"][0]
    check(any(object_name in frame_text(frame) for frame in deeper["traceback"]),
          f"no frame of {object_name} in the traceback that grows most")
    return frame


def check_losses_shown(bench, path):
    """The JSON has every loss of the list, and the text has every loss that is not zero."""
    losses = bench.show(path)["losses"]
    check(len(losses) >= 10 and all(isinstance(n, int) for n in losses.values()), losses)
    check_equal(losses["blocks_dropped"], 0, "blocks_dropped")
    check_equal(losses["blocks_replaced"], 0, "blocks_replaced")
    text = " ".join(bench.allocsnap("show", path))
    for name, value in losses.items():
        if value:
            check(name in text and str(value) in text, f"show hides {value} {name}")


def check_traced(bench, path, program):
    """The traced bytes do not exceed what the process has in memory, caches aside."""
    out, _ = bench.allocsnap("show", path)
    check("RSS" in out, f"show does not compare with the RSS of {program}")
    shown = bench.show(path)
    check(0 < shown["traced_memory"]["current"] <= shown["traced_memory"]["peak"],
          f"traced_memory {shown['traced_memory']}")


def record_growth(bench, program, object_name, step_bytes):
    """Attach, load, two snapshots, detach; the frame that grows and the number of steps."""
    check_unchanged(program.pid, "before")
    recording = bench.attach([program], "--domain", "malloc")
    check(changed_code(program.pid) > 0, "no breakpoint is seen in the code: the check is blind")
    load = Load(program.step)
    old, new, least, most = load.two_snapshots(recording)
    check_equal(len(recording.end(signal.SIGINT)), 1, "last snapshots")
    check_unchanged(program.pid, "after detach")
    load.stop()
    frame = check_growth(bench, old, new, object_name, least * step_bytes * 0.95,
                         most * step_bytes * 1.6 + 100000)
    check_losses_shown(bench, new)
    check_traced(bench, new, object_name)
    return frame, load.done


def test_sqlite3_growth_is_recorded(bench):
    sqlite = Sqlite.start_on(bench)
    _, steps = record_growth(bench, sqlite, "libsqlite3", Sqlite.ROWS * Sqlite.ROW_BYTES)
    check_equal(sqlite.row_count(), steps * Sqlite.ROWS, "rows in the table")
    check_equal(sqlite.ask("PRAGMA integrity_check;"), "ok", "integrity_check")


def test_redis_server_growth_is_recorded(bench):
    """Debian's links libjemalloc and exports its functions."""
    redis = Redis.start_on(bench)
    used_before = redis.used_memory()
    frame, steps = record_growth(bench, redis, Redis.object_name(), Redis.KEYS * Redis.VALUE_BYTES)
    check(frame.get("function") and "malloc" not in frame["function"],
          f"what grows is no function of redis itself: {frame}")
    check(redis.used_memory() - used_before >= steps * Redis.KEYS * Redis.VALUE_BYTES,
          "redis has less than it was given")
    check_equal(int(redis.command(b"DBSIZE")), steps * Redis.KEYS, "keys in the database")
    check_equal(redis.command(b"GET", redis.key(steps - 1, 7)), b"v" * Redis.VALUE_BYTES, "a value")


def test_redis_traced_bytes_follow_its_used_memory(bench):
    """The traced bytes follow redis's own numbers up and down."""
    redis = Redis.start_on(bench)
    recording = bench.attach([redis])
    for i in range(40):
        redis.step(i)
    up, up_used = recording.snapshot(), redis.used_memory()
    check_equal(redis.command(b"FLUSHALL"), b"OK", "FLUSHALL")
    down, down_used = recording.snapshot(), redis.used_memory()
    diff = bench.diff(up, down)["total"]["size_diff"]
    used = down_used - up_used
    check(used < -5000000, f"redis has freed {-used} bytes only")
    check(1.25 * used <= diff <= 0.75 * used, f"size_diff {diff}, redis says {used}")


def test_python3_growth_is_recorded(bench):
    if not os.path.exists("/usr/bin/python3"):
        raise Skip("there is no /usr/bin/python3")
    python = Python.start_on(bench)
    count, size = python.ask("step")
    _, steps = record_growth(bench, python, "python3", size)
    check_equal(python.ask("count"), ((steps + 1) * count, (steps + 1) * size), "what it keeps")


def test_python3_objects_are_counted_exactly(bench):
    """Bytes and blocks equal what sys.getsizeof() reports."""
    python = Python.start_on(bench)
    recording = bench.attach([python], "--domain", "malloc")
    old = recording.snapshot()
    for _ in range(20):
        count, size = python.ask("step")
    new = recording.snapshot()
    row = bench.diff(old, new)["statistics"][0]
    # The list that holds them, and small objects from the same call site, come on top.
    check(count <= row["count_diff"] <= count + 200, f"{row['count_diff']} blocks, not {count}")
    check(size <= row["size_diff"] <= size * 1.02, f"{row['size_diff']} bytes, not {size}")


def test_python3_growth_has_function_and_line(bench):
    """Debian's stripped python3, its debug information in a separate file found by build-id."""
    notes = bench.run([tool("readelf"), "-n", os.path.realpath("/usr/bin/python3")])[0]
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    if not os.path.exists(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"):
        raise Skip("the debug information of /usr/bin/python3 (python3.11-dbg) is not installed")
    python = Python.start_on(bench)
    recording = bench.attach([python], "--domain", "malloc")
    old = recording.snapshot()
    python.ask("step")
    top = top_frame(bench.diff(old, recording.end(signal.SIGINT)[-1])["statistics"][0])
    check_equal(top["function"], "_PyBytes_FromSize", "the function that grows")
    check(re.search(r"/Objects/bytesobject\.c$", top["filename"]), top["filename"])
    check(top["lineno"] > 0, "the line")


@harness.core
def test_several_processes_have_separate_snapshots(bench):
    """Each process has its own snapshots, without allocations of the other processes."""
    sqlite, redis, grow = Sqlite.start_on(bench), Redis.start_on(bench), bench.workload("grow")
    recording = bench.attach([sqlite, redis, grow])
    pids = {"sqlite3": sqlite.pid, "redis-server": redis.pid, "grow": grow.pid}
    sqlite.step(0)
    redis.step(0)
    paths = recording.snapshots()
    shown = {bench.show(path)["metadata"]["comm"]: path for path in paths}
    check_equal(sorted(shown), ["grow", "redis-server", "sqlite3"], "processes")
    for comm, path in shown.items():
        check_equal(int(bench.show(path)["metadata"]["pid"]), pids[comm], f"PID of {comm}")
        objects = " ".join(frame_text(top_frame(row)) for row in bench.stats(path)["statistics"])
        for other, word in (("grow", "grow_here"), ("redis-server", Redis.object_name()),
                            ("sqlite3", "libsqlite3")):
            check((word in objects) == (other == comm), f"{word} in the account of {comm}: {objects}")
    check_equal(len(recording.end(signal.SIGINT)), 3, "last snapshots")


# ---- cgo ----
#
# C code in Go programs: tracebacks go on in the Go code that called it, on the goroutine's stack (workloads/cgo.go).

TIMES = 20
# Functions of Go's runtime and of cgo, between the program's own. A C library may have no names.
GLUE = re.compile(r"runtime\.|_cgo|crosscall2$|main\._Cfunc_|start_thread$|clone3$|libc\.so")
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
    made = os.path.join(WORKLOADS, "cgo")  # for a machine without Go
    if os.path.exists(made):
        shutil.copy(made, bench.path(name))
        return bench.path(name)
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
        check(last in (("clone3", "libc.so.6") if size == 1006 else ("runtime.goexit",)), f"stacks of {size} bytes begin at {last}")


def test_cgo_tracebacks_go_on_in_go_code(bench):
    needs_tables()
    path = record(bench, build(bench, "cgo"))
    check_ways(bench, path)
    rows = bench.stats(path, "--min-size", "25", "--max-size", "25")["statistics"]
    line = (SOURCES / "cgo.go").read_text(encoding="utf-8").split("C.CString")[0].count("\n") + 1
    check_equal([(top_frame(row)["lineno"], row["count"]) for row in rows], [(line, TIMES)], "rows by line of C.CString")


def places(row):
    """File offsets: functions that a call was inlined in have the call's offset."""
    found = [(os.path.basename(frame["object"]).removesuffix(".stripped"), frame["offset"]) for frame in row["traceback"]]
    return [place for i, place in enumerate(found) if place not in found[i - 1:i]]


def go_frames(row):
    """Frames that the table of Go's runtime names. "goNested" is C code, and main.goNested is not."""
    return [(name_of(frame), frame["filename"], frame["lineno"]) for frame in row["traceback"]
            if re.match(r"(main|runtime)\.", name_of(frame))]


def test_cgo_tracebacks_of_a_stripped_program_are_the_same(bench):
    """
    By frame pointers; where one is lost since the stack has moved, the traceback ends and says so. Go code has its names and
    lines, too.
    """
    needs_tables()
    program = build(bench, "cgo")
    stripped = program + ".stripped"
    bench.run([tool("strip"), "-o", stripped, program])
    with_names, without = record(bench, program), record(bench, stripped)
    for size, (_, count) in WAYS.items():
        named = rows_of(bench, with_names, size, "--keep-wrappers")
        whole = [places(row) for row in named]
        found = rows_of(bench, without, size, "--keep-wrappers")
        complete = [row for row in found if places(row) == whole[0]]
        check_equal(len(whole), 1, f"tracebacks of {size} bytes")
        check(sum(row["count"] for row in complete) >= count - 1, f"{size}: {[places(row) for row in found]}, not {whole}")
        for row in found:
            check_equal(places(row), whole[0][:len(places(row))], f"a traceback of {size} bytes")
        for row in complete:
            check_equal(go_frames(row), go_frames(named[0]), f"Go's names in a traceback of {size} bytes")
        check(all(line for _, _, line in go_frames(named[0])), f"{go_frames(named[0])}: no line")
    shown = bench.show(without)
    check_equal(shown["losses"].get("tracebacks_broken", 0), 0, "broken tracebacks")
    check(shown["tracebacks"]["complete"] >= sum(count for _, count in WAYS.values()) - 1, f"{shown['tracebacks']}")
