# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names of code that a process makes at run time, from its perf map: /tmp/perf-PID.map."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import time

import harness
from harness import WORKLOADS, Skip, Workload, check, check_equal, private_mounts, tool, top_frame

PROGRAM = os.path.join(WORKLOADS, "makes_code")
UNKNOWN = "[anonymous code]"


@contextlib.contextmanager
def perf_map(pid):
    """The path of a process's map, which is gone afterwards."""
    path = pathlib.Path(f"/tmp/perf-{pid}.map")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def made_names(bench, path, size):
    """Names of frames in code that was made at run time, in the traceback of a block of this size."""
    rows = bench.stats(path, "--group-by", "traceback", "--keep-wrappers", "--min-size", str(size),
                       "--max-size", str(size))["statistics"]
    check_equal(len(rows), 1, f"tracebacks of {size} bytes")
    return [frame.get("function") or UNKNOWN for frame in rows[0]["traceback"] if frame["filename"] == UNKNOWN]


@harness.core
def test_code_made_at_run_time_has_the_names_of_its_map(bench):
    program = bench.workload("makes_code")
    with perf_map(program.pid):
        recording = bench.attach([program])
        program.order("name 0 LazyCompile:*remember /srv/leak.js:3:7")
        for code, size in ((0, 1001), (1, 1002)):
            program.order(f"hold {code} {size}")
        path = recording.snapshot()
        check_equal(made_names(bench, path, 1001), ["LazyCompile:*remember /srv/leak.js:3:7"], "the name")
        check_equal(made_names(bench, path, 1002), [UNKNOWN], "code that the map does not name")
        program.order("name 1 later")
        path = recording.snapshot()
        check_equal(made_names(bench, path, 1002), ["later"], "code that the map has named since")
        program.order("name 0 other")
        path = recording.snapshot()
        check_equal(made_names(bench, path, 1001), ["[code that was replaced]"], "code with two names, one after the other")
        recording.end(signal.SIGINT)
        program.is_unharmed()


def test_code_that_was_replaced_before_it_was_read_has_no_name_of_its_own(bench):
    """Which of the two names the block's code had, nothing says. What the map said before the recording is over."""
    program = bench.workload("makes_code")
    with perf_map(program.pid):
        for name in ("before", "begun"):
            program.order(f"name 0 {name}")
            program.order(f"name 1 {name}")
        recording = bench.attach([program])
        program.order("hold 0 1001")
        program.order("hold 1 1002")
        program.order("name 1 replaced")
        path = recording.snapshot()
        found = [made_names(bench, path, size) for size in (1001, 1002)]
        check_equal(found, [["begun"], ["[code that was replaced]"]], "the names")
        recording.end(signal.SIGINT)
        program.is_unharmed()


@harness.rows({"where_it_was": (False,), "moved": (True,)})
def test_jitdump_that_is_mapped_names_code(bench, is_moved):
    """In any folder. A map of the same process does not count then, nor does another file at the dump's path."""
    program = bench.start([PROGRAM], kind=Workload, cwd=bench.folder).ready()
    program.order("dump 0 first")
    if is_moved:
        dump = pathlib.Path(bench.path(f"jit-{program.pid}.dump"))
        dump.unlink()
        dump.write_bytes(b"not the dump")
    with perf_map(program.pid) as path:
        path.write_text("0 ffffffffffffffff mapped\n", encoding="utf-8")
        recording = bench.attach([program])
        program.order("dump 1 second")
        for code, size in ((0, 1001), (1, 1002), (2, 1003)):
            program.order(f"hold {code} {size}")
        path = recording.snapshot()
        found = [made_names(bench, path, size) for size in (1001, 1002, 1003)]
        check_equal(found, [["first"], ["second"], [UNKNOWN]], "the names")
        losses = bench.show(path)["losses"]
        check_equal([name for name in losses if name.startswith("objects_") and losses[name]], [], "the dump is no loss")
        recording.end(signal.SIGINT)
        program.is_unharmed()


def test_map_that_was_made_anew_is_read(bench):
    """Its runtime has removed it. What the old map said stays; the new one names code, also at addresses that had no name."""
    program = bench.workload("makes_code")
    with perf_map(program.pid) as path:
        program.order("name 0 old")
        recording = bench.attach([program])
        for code, size in ((0, 1001), (1, 1002)):
            program.order(f"hold {code} {size}")
        check_equal(made_names(bench, recording.snapshot(), 1001), ["old"], "the name in the old map")
        line = path.read_text(encoding="utf-8")
        path.unlink()
        start = int(line.split()[0], 16) + int(line.split()[1], 16)
        path.write_text(f"{start:x} 40 new\n", encoding="utf-8")
        program.order("hold 2 1003")
        found = recording.snapshot()
        check_equal([made_names(bench, found, size) for size in (1001, 1002)], [["old"], ["new"]], "the names of both maps")
        recording.end(signal.SIGINT)
        program.is_unharmed()


def test_map_that_is_too_large_is_said_to_be(bench):
    """In one line of the recording, in the snapshot's losses, and by the doctor before."""
    program = bench.workload("makes_code")
    with perf_map(program.pid) as path:
        endless(bench, path)
        process = bench.json("doctor", str(program.pid))["process"]
        why = next(row["why"] for row in process["unseen"] if row["name"] == "code-at-run-time")
        check(not process["perf_map"] and "too large to be read" in why, f"{process['perf_map']}: {why}")
        recording = bench.attach([program])
        program.order("hold 0 1001")
        check_equal(bench.show(recording.snapshot())["losses"]["objects_unreadable"], 1, "the loss")
        recording.snapshot()
        recording.end(signal.SIGINT)
        lines = [line for line in recording.stderr().splitlines() if "its perf map is not read" in line]
        check_equal(len(lines), 1, f"lines about it in {recording.stderr()!r}")
        check("it has more than 256 MiB" in lines[0], lines[0])
        program.is_unharmed()


def test_doctor_says_whether_there_is_a_map(bench):
    program = bench.workload("makes_code")
    with perf_map(program.pid):
        for is_there in (False, True):
            if is_there:
                program.order("name 0 made")
            process = bench.json("doctor", str(program.pid))["process"]
            why = next(row["why"] for row in process["unseen"] if row["name"] == "code-at-run-time")
            check_equal(process["perf_map"], is_there, "perf_map")
            check_equal("names of the process's perf map" in why, is_there, why)
        names = process["names"]
        check(names["lines"] >= 1, f"{names}: the program has lines")
        program.is_unharmed()


def test_without_names_code_made_at_run_time_has_them(bench):
    """Later the process and its map are gone."""
    program = bench.workload("makes_code")
    with perf_map(program.pid):
        recording = bench.attach([program], "--no-names")
        program.order("name 0 made")
        program.order("hold 0 1001")
        check_equal(made_names(bench, recording.snapshot(), 1001), ["made"], "the name")
        recording.end(signal.SIGINT)
        program.is_unharmed()


def test_names_are_those_of_the_programs_own_namespaces(bench):
    """It is PID 1 there, and has a /tmp of its own. Here another file has that name."""
    with perf_map(1) as ours:
        outer = bench.start([*private_mounts(), "-p", "--fork", tool("sh"), "-c",
                             f"mount -t tmpfs none /tmp && exec {PROGRAM}"], kind=Workload)
        check_equal(json.loads(outer.line()), {"ready": 1}, "its own PID")
        outer.order("name 0 inner")
        outer.order("name 1 also")
        check(not ours.exists(), "/tmp is not its own")
        ours.write_text("0 ffffffffffffffff outer\n", encoding="utf-8")
        child = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="utf-8")
        recording = bench.attach([int(child)])
        outer.order("hold 0 1001")
        check_equal(made_names(bench, recording.snapshot(), 1001), ["inner"], "the name")
        recording.end(signal.SIGINT)
        outer.is_unharmed()


def test_map_of_the_programs_own_user_counts(bench):
    """The program runs as another user than the recorder, and only that user may read the map."""
    program = bench.start([tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM], kind=Workload).ready()
    with perf_map(program.pid) as path:
        program.order("name 0 own")
        path.chmod(0o600)
        check_equal(path.stat().st_uid, 65534, "the map's user")
        recording = bench.attach([program])
        program.order("hold 0 1001")
        check_equal(made_names(bench, recording.snapshot(), 1001), ["own"], "the name")
        recording.end(signal.SIGINT)
        program.is_unharmed()


ALL = "0 ffffffffffffffff taken\n"


def linked(bench, path):
    target = pathlib.Path(bench.path("elsewhere"))
    target.write_text(ALL, encoding="utf-8")
    path.symlink_to(target)


def of_another_user(_, path):
    path.write_text(ALL, encoding="utf-8")
    os.chown(path, 65534, 65534)


def endless(_, path):
    with path.open("w", encoding="utf-8") as file:
        file.write(ALL)
        file.truncate(1 << 30)


def older_than_the_process(_, path):
    """Another process had its PID before."""
    path.write_text(ALL, encoding="utf-8")
    os.utime(path, (time.time() - 3600,) * 2)


def garbled(_, path):
    path.write_bytes(ALL.encode().rstrip(b"\n") + b"\0" * 70000 + b"\n" + b"zz 1 x\n1 1\n-1 1 y\n" + b"0 " * 50000 +
                     b"\n0 ffffffffffffffff unfinished")


@harness.rows({
    "fifo": (lambda _, path: os.mkfifo(path),),
    "link": (linked,),
    "of_another_user": (of_another_user,),
    "endless": (endless,),
    "garbled": (garbled,),
    "older_than_the_process": (older_than_the_process,),
})
def test_map_that_is_not_to_be_trusted_gives_no_names(bench, forge):
    program = bench.workload("makes_code")
    with perf_map(program.pid) as path:
        forge(bench, path)
        recording = bench.attach([program])
        program.order("hold 0 1001")
        check_equal(made_names(bench, recording.snapshot(), 1001), [UNKNOWN], "the name")
        recording.end(signal.SIGINT)
        program.is_unharmed()


NODE = """
const kept = [];
function remember(i) { kept.push(Buffer.alloc(65536)); }
function leakHere(i) { for (let k = 0; k < 20; k++) remember(i); }
process.stdin.on('data', () => { leakHere(1); console.log('done'); });
console.log('ready');
"""


def started_node(bench, *options):
    if not shutil.which("node"):
        raise Skip("node is not installed")
    script = pathlib.Path(bench.path("leak.js"))
    script.write_text(NODE, encoding="utf-8")
    return bench.start([tool("node"), *options, str(script)], cwd=bench.folder), script


BY_MAP = "--perf-basic-prof", "--interpreted-frames-native-stack"


@harness.rows({"with_a_map": (BY_MAP,), "without": (("--no-opt",),)})
def test_leaks_of_node_says_how_rows_get_its_names(bench, options):
    """Not if they have names already."""
    node, script = started_node(bench, *options)
    with perf_map(node.pid):
        check_equal(node.line(), "ready", "node")
        recording = bench.attach([node], "--min-size", "65536")
        for _ in range(6):
            node.write("x\n")
            check_equal(node.line(), "done", "node")
            recording.snapshot()
        recording.end(signal.SIGINT)
        answer = bench.json("leaks", recording.folder, "--all")
        hints = [line for line in answer.get("hints", ()) if "JavaScript calls" in line]
        check_equal(len(hints), 0 if options == BY_MAP else 1, f"hints with {options}: {answer}")
        check(all(option in hints[0] for option in BY_MAP) if hints else str(script) in json.dumps(answer), str(answer))


def test_buffers_of_node_have_the_names_of_its_functions(bench):
    node, script = started_node(bench, *BY_MAP)
    with perf_map(node.pid):
        check_equal(node.line(), "ready", "node")
        recording = bench.attach([node], "--min-size", "65536")
        for _ in range(3):
            node.write("x\n")
            check_equal(node.line(), "done", "node")
        path = recording.snapshot()
        for row in bench.stats(path)["statistics"]:
            check(str(script) in (top_frame(row).get("function") or ""), f"{row}: a row that is not the program's own")
        rows = bench.stats(path, "--group-by", "traceback", "--keep-wrappers")["statistics"]
        found = [frame["function"] for row in rows for frame in row["traceback"] if str(script) in (frame.get("function") or "")]
        wanted = ("remember", "leakHere")
        check(all(any(f"{name} {script}:" in line for line in found) for name in wanted), f"{found}: not {wanted}")
        recording.end(signal.SIGINT)
