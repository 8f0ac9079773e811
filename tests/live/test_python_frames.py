# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--frames mixed and native: the C frames are gdb's for the thread, which waits in the call that has allocated; Python
code has the frames that traceback.extract_stack() returns in there."""
import collections
import json
import os
import pathlib
import re
import signal

import python_blocks
import pythons
import harness
from harness import check, check_equal, losses_of, need_sessions, tool
from test_python import OWN, start
from test_unwind import needs_tables

TARGET = pathlib.Path(__file__).with_name("python_frames_target.py")
SIZES = (397 + 33, 9000 + 33)  # one of pymalloc's, one of the C library's, each with a header and a terminator
INLINE = 1
INTERPRETER = "_PyEval_EvalFrameDefault"

# The first two runs of Python code: all of the innermost one, and how the next one begins.
RUNS = {
    "python": (["mark", "by_python", "main", "<module>"], None),
    "json": (["mark", "hook"], "raw_decode"),
    "sorted": (["mark", "key_of"], "by_sorted"),
    "generator": (["mark", "numbers"], "by_generator"),
    "sqlite": (["mark", "called"], "by_sqlite"),
    "thread": (["mark", "key_of"], "by_sorted"),
}

C = collections.namedtuple("C", "file offset")
Py = collections.namedtuple("Py", "file line function")


# ---- what others say ----

def places_of(pid):
    """A function from an address to its file and the offset there."""
    rows = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            begin, end = (int(text, 16) for text in fields[0].split("-"))
            rows.append((begin, end, int(fields[2], 16), os.path.basename(fields[5].strip()) if len(fields) > 5 else ""))
    return lambda address: next((C(file, address - begin + offset) for begin, end, offset, file in rows
                                 if begin <= address < end), C("", address))


# Without calls that were inlined, or whose frame is gone because they ended in a jump.
WALK = """python
frame = gdb.newest_frame()
while frame:
    if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
        print("frame", hex(frame.pc()), frame.name())
    frame = frame.older()
end
"""


def gdb_stack(bench, pid, in_thread):
    """Most recent call first: C, or None for the interpreter."""
    walk = pathlib.Path(bench.path("walk"))
    walk.write_text(WALK, encoding="utf-8")
    thread = ["-ex", "thread 2"] if in_thread else []
    out = bench.run([tool("gdb"), "-nx", "-batch", "-p", str(pid), "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
                     "-iex", "set debug-file-directory /nonexistent", *thread, "-x", str(walk)], seconds=120)[0]
    place_of = places_of(pid)
    found = [(int(row[1], 16), row[2]) for row in re.finditer(r"^frame (0x[0-9a-f]+) (\S+)", out, re.M)]
    check(any(name == INTERPRETER for _, name in found), f"gdb sees no interpreter: {out}")
    return [None if name == INTERPRETER else place_of(address) for address, name in found]


def after_first(stack, is_it):
    first = next(i for i, frame in enumerate(stack) if is_it(frame))
    return stack[first:]


# ---- what the snapshot says ----

def stacks_of(path, size):
    """The tracebacks of blocks of this size that mark() has made."""
    found, text = python_blocks.tables_of(path)
    frames = [None if row[5] & INLINE else C(os.path.basename(text(found[python_blocks.OBJECTS][row[3]][0])), row[4]) if row[3] else
              Py(os.path.basename(text(row[0])), row[1], text(row[2]).rpartition(".")[2])
              for row in found[python_blocks.FRAMES]]
    names = [text(row[2]) for row in found[python_blocks.FRAMES]]
    stacks = []
    for (of,), (bytes_of,) in zip(found[python_blocks.OF_TRACE], found[python_blocks.SIZES]):
        if bytes_of == size:
            first, nr = found[python_blocks.TRACEBACKS][of][:2]
            ids = [row[0] for row in found[python_blocks.TRACEBACK_FRAMES][first:first + nr]]
            stacks.append([(frames[at], names[at]) for at in ids if frames[at]])
    return stacks


# ---- comparison ----

def python_runs(stack):
    """[C…] and the runs of Python code between them, in order."""
    runs = []
    for last, frame in zip([None, *stack], stack):
        if isinstance(frame, Py):
            if not isinstance(last, Py):
                runs.append([])
            runs[-1].append(frame)
    return runs


def without_python(stack):
    """One None for each run of Python code, as gdb_stack() has it."""
    return [None if isinstance(frame, Py) else frame for i, frame in enumerate(stack)
            if not (i and isinstance(frame, Py) and isinstance(stack[i - 1], Py))]


def check_mixed(named, shape, theirs, python):
    stack = [frame for frame, _ in named]
    check_equal([frame for frame in stack if isinstance(frame, Py)], python, f"{shape}: the frames of Python code")
    check(INTERPRETER not in (name for _, name in named), f"{shape}: a call of the interpreter without Python code: {named}")
    if theirs:
        check_equal(without_python(after_first(stack, lambda frame: isinstance(frame, Py))), theirs,
                    f"{shape}: the frames of C code")
    first, second = RUNS[shape]
    runs = python_runs(stack)
    check_equal([frame.function for frame in runs[0]], first, f"{shape}: the first run")
    if second:
        check_equal(runs[1][0].function, second, f"{shape}: the second run")


def check_native(stack, shape, theirs, _):
    named = [None if name == INTERPRETER else frame for frame, name in stack]
    check_equal(after_first(named, lambda frame: frame is None), theirs, f"{shape}: the frames")


def compare_shape(bench, target, recording, shape, compare, gdb_knows):
    dump = bench.path(shape)
    target.write(f"{shape} {dump}\n")
    check_equal(target.line(60), "at", "the place")
    theirs = gdb_knows and after_first(gdb_stack(bench, target.pid, shape == "thread"), lambda frame: frame is None)
    path = recording.snapshot()
    target.write("\n")
    check_equal(target.line(60), shape, "the end")
    python = [Py(os.path.basename(file), line, name) for file, line, name in json.loads(pathlib.Path(dump).read_text(encoding="utf-8"))]
    for size in SIZES:
        stacks = [stack for stack in stacks_of(path, size) if compare is check_native or python[0] in [frame for frame, _ in stack]]
        check_equal(len(stacks), 1, f"{shape}: blocks of {size} bytes")
        compare(stacks[0], shape, theirs, python)
    return path


def record(bench, kind, shapes, compare, python=OWN):
    """A Python that its loader has started has no symbols for gdb."""
    tool("gdb")
    target = start(bench, python, TARGET)
    recording = bench.attach([target], "--domain", "python", "--frames", kind, "--traceback-limit", "127", "--no-compact")
    for shape in shapes:
        path = compare_shape(bench, target, recording, shape, compare, len(python.argv) == 1)
    recording.end(signal.SIGINT)
    return path


def check_first_lines(bench, path):
    """Statistics begin with the line of Python code, not with CPython's own functions."""
    rows = bench.stats(path, "--group-by", "lineno", "--min-size", str(SIZES[0]), "--max-size", str(SIZES[1]))["statistics"]
    first = rows[0]["traceback"][0]
    check_equal(os.path.basename(first["filename"]), TARGET.name, "the first row's file")


@harness.core
def test_python_frames_of_both_are_those_of_gdb_and_python(bench):
    needs_tables()
    path = record(bench, "mixed", ("json", "sqlite"), check_mixed)
    check_first_lines(bench, path)
    shown = bench.show(path)
    check_equal(shown["metadata"]["python_frames"], "mixed", "what the snapshot says")
    check_equal(losses_of(shown), {}, "losses")


def test_python_frames_of_c_code_are_those_of_gdb(bench):
    needs_tables()
    record(bench, "native", ("json",), check_native)


def test_python_frames_of_all_shapes_are_those_of_gdb_and_python(bench):
    needs_tables()
    record(bench, "mixed", RUNS, check_mixed)
    record(bench, "native", RUNS, check_native)


COMMON = ("python", "json", "sorted", "generator", "thread")


@harness.rows({
    "3_11": (pythons.named_like, 11), "3_12": (pythons.named_like, 12), "3_13": (pythons.named_like, 13),
    "3_13_of_debian": (pythons.of_suite, "trixie", 13), "3_14_of_debian": (pythons.of_suite, "sid", 14),
})
def test_python_frames_of_both(bench, find, *which):
    needs_tables()
    record(bench, "mixed", COMMON, check_mixed, find(*which))


def test_python_3_10_frames_of_both_are_refused(bench):
    target = start(bench, pythons.named_like(10), TARGET)
    errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", "--frames", "mixed", status=1)[1]
    check("CPython 3.11 and later" in errors, errors)


def test_python_frames_are_refused_where_they_cannot_be(bench):
    for status, *options in ((1, "--domain", "malloc", "--frames", "mixed"), (2, "--domain", "python", "--frames", "both"),
                             (1, "--domain", "python", "--frames", "mixed", "--unwind", "fp")):
        errors = bench.allocsnap("attach", str(os.getpid()), *options, status=status)[1]
        check("--frames" in errors, errors)


def test_python_frames_that_cannot_be_say_what_can(bench):
    """A C program has none; children, and a sampler in the process, are not recorded so, and nothing refused is advised."""
    needs_tables()
    need_sessions()
    program, mine = str(bench.workload("grow").pid), str(os.getpid())
    for status, pid, text, *options in (
            (1, program, "--frames stands for the domain python", "--frames", "mixed"),
            (1, program, "--retag stands for the domain python", "--retag"),
            (1, program, "--sample pools stands for the domain python", "--sample", "pools"),
            (1, mine, "--frames records Python's objects", "--frames", "mixed", "--follow-forks"),
            (1, mine, "'allocsnap record --domain python'", "--frames", "mixed", "--follow-forks"),
            (1, mine, "--retag records Python's objects", "--retag", "--no-return-probes"),
            (1, mine, "leave out --domain", "--domain", "malloc", "--retag"),
            (2, mine, "--inject and --frames exclude each other", "--frames", "mixed", "--inject"),
            (2, mine, "--inject and --retag exclude each other", "--retag", "--inject")):
        errors = bench.allocsnap("attach", pid, *options, status=status)[1]
        check(text in errors, f"{options}: {errors}")
    errors = bench.allocsnap("run", "--fast", "--frames", "native", "--", "true", status=2)[1]
    check("--fast and --frames exclude each other" in errors, errors)
