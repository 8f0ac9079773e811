# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs of language runtimes, and those that cannot be recorded. Functions of JavaScript, Java and Python have no
names: the first row is the native function that they call."""
import pathlib
import re

from doctor_kinds import WAITS_32, compiled, need_32_bit
from harness import check, tool
import loads
from task import task
from terminal import FOR, PLANTED, UNJUDGED, check_named, check_planted_line, check_unjudged, first_leak


def check_hint(answer, text):
    """The answer says how to get the names of the code that calls what leaks."""
    hints = [line for line in answer.stdout.splitlines() if line.startswith("hint: ")]
    check(len(hints) == 1 and text in hints[0], f"no hint with {text!r}: {hints}")


@task("node, buffers and zlib streams kept", before="1 min, 3 commands", best="30 s")
def node_buffers(terminal):
    node = loads.start_node(terminal.bench)
    answer = terminal.type(f"allocsnap leaks {node.pid} --for {FOR}s")
    check_hint(answer, "--perf-basic-prof")
    return check_named(first_leak(answer), r"\w*ArrayBuffer\w*|Zlib\w+|deflateInit2_|NewBackingStore")


@task("the heap of python3, large objects", before="not tried")
def python_large_objects(terminal):
    python = loads.start_python(terminal.bench, "large")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc")
    check_hint(answer, "tracemalloc")
    return check_named(first_leak(answer), r"PyBytes_\w+|bytes_\w+|_PyBytes_\w+")


@task("the heap of python3, small objects, by pymalloc's arenas", before="not tried")
def python_small_objects(terminal):
    python = loads.start_python(terminal.bench, "small")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc", status=UNJUDGED)
    check_unjudged(answer, "arenas.*--domain malloc,mmap")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc,mmap")
    return check_named(first_leak(answer), r"PyUnicode_\w+|scanstring_unicode|_?PyUnicode\w*|\w*scanner\w*|ascii_\w+")


@task("the heap of python3, `PYTHONMALLOC=malloc`", before="1.5 min, 3 commands")
def python_malloc(terminal):
    python = loads.start_python(terminal.bench, "small", PYTHONMALLOC="malloc")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc")
    check_hint(answer, "tracemalloc")
    return check_named(first_leak(answer), r"scanstring_unicode|PyUnicode_\w+|_?PyUnicode\w*|\w*scanner\w*")


@task("Java, deflaters never ended, direct buffers", before="1 min, 3 commands", best="30 s")
def java_deflaters(terminal):
    java = loads.start_java(terminal.bench)
    answer = terminal.type(f"allocsnap leaks {java.pid} --for {FOR}s")
    check_hint(answer, "Java virtual machine")
    return check_named(first_leak(answer), r"deflateInit2_|Java_java_util_zip_Deflater_\w+")


@task("Go, static: refused", before="1 min, 3 commands: advice that fails")
def go_is_refused(terminal):
    """Its advice must be one that can be followed: Go's own profiler."""
    loads.build(terminal.bench, ["go", "build", "-o", "sessions", str(PLANTED / "sessions.go")])
    sessions = terminal.bench.start([terminal.bench.path("sessions")])
    answer = terminal.type(f"allocsnap leaks {sessions.pid} --for {FOR}s", status=1)
    check("Go" in answer.stderr and "pprof" in answer.stderr, f"no advice for Go: {answer.stderr!r}")
    check("--domain mmap" not in answer.stderr, f"advice that fails: {answer.stderr!r}")
    return "refused: use pprof"


@task("Rust, `-g`: a table and a list grow", before="not tried")
def rust_orders(terminal):
    loads.build(terminal.bench, ["rustc", "-g", "-O", "-o", terminal.bench.path("shelf"), str(PLANTED / "shelf.rs")])
    shelf = terminal.bench.start([terminal.bench.path("shelf")])
    answer = terminal.type(f"allocsnap leaks {shelf.pid} --for {FOR}s", shown=12)
    return check_planted_line(first_leak(answer), "shelf.rs")


@task("Rust, Debian's `rg`, stripped: its peak", before="30 s, 2 commands: offsets")
def ripgrep_peak(terminal):
    """It reads a line of 8 MiB into one buffer; without names its place is an offset in the program."""
    tool("rg")
    pathlib.Path(terminal.bench.path("line.txt")).write_text("x" * (8 << 20), encoding="ascii")
    terminal.type("(cat line.txt; sleep 3) | allocsnap run --interval 1s -o data -- rg -c y -", status=1)
    answer = terminal.type("allocsnap stats --at-peak data --top 1")
    largest = re.search(r"size=([\d.]+) MiB", answer.stdout)
    check(largest and float(largest[1]) >= 8, f"the first row is not the line: {answer.stdout!r}")
    return check_named(answer.stdout, r"/rg\+0x[0-9a-f]+")


@task("32-bit: refused", before="10 s, 1 command")
def bits_32_are_refused(terminal):
    program = compiled(terminal.bench, "waits32", "-m32", "-static", "-nostdlib", "-ffreestanding", "-no-pie",
                       source=WAITS_32)
    need_32_bit(program)
    waits = terminal.bench.start([program])
    answer = terminal.type(f"allocsnap leaks {waits.pid} --for {FOR}s", status=1)
    check("32-bit" in answer.stderr, f"the reason is missing: {answer.stderr!r}")
    return "refused: a 32-bit program"
