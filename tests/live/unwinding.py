# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Helpers of the traceback tests: the chain of callers by name, and how the walk ended."""
import os
import pathlib

from harness import BY_FRAME_POINTERS, Skip, check, check_equal, environment, tool

# Below main() and below a thread's function; how much of it has a name depends on debug files.
BELOW_MAIN = ["__libc_start_call_main", "__libc_start_main", "_start"]
BELOW_THREAD = ["start_thread", "clone3"]
NO_SESSION = "ALLOCSNAP_NO_UPROBE_SESSION"
NO_LINKS = "ALLOCSNAP_NO_UPROBE_MULTI"
NO_RETURN = "ALLOCSNAP_NO_UPROBE_RETURN"


def needs_tables():
    """The suite also runs with ALLOCSNAP_UNWIND=fp; these programs have no frame pointers."""
    if BY_FRAME_POINTERS:
        raise Skip("ALLOCSNAP_UNWIND=fp: nothing here has frame pointers")


def name_of(frame):
    return frame.get("function") or os.path.basename(frame["filename"])


def names(row):
    """Most recent call first."""
    return [name_of(frame) for frame in row["traceback"]]


def chains(bench, path, size=None):
    """[(names, count)] of all blocks, or of the blocks of this size."""
    only = ["--min-size", str(size), "--max-size", str(size)] if size else []
    rows = bench.stats(path, "--group-by", "traceback", *only)["statistics"]
    return [(names(row), row["count"]) for row in rows]


def check_chain(bench, path, size, expected, count=None):
    """All blocks of this size have one traceback, this one."""
    found = chains(bench, path, size)
    check_equal([chain for chain, _ in found], [expected], f"tracebacks of blocks of {size} bytes")
    if count:
        check_equal(found[0][1], count, f"blocks of {size} bytes")


def check_ends(bench, path, stopped=None, guessed=0):
    """All tracebacks are complete, except {reason: blocks}; none is guessed."""
    shown = bench.show(path)
    expected = stopped or {}
    found = shown["tracebacks"]
    check_equal(found["stopped"], expected, "blocks by how their tracebacks stopped")
    check_equal(found["complete"], shown["blocks"] - sum(expected.values()), "complete tracebacks")
    check(shown["blocks"], "no block")
    losses = {name: n for name, n in shown["losses"].items() if n and name.startswith("tracebacks_")}
    check_equal(losses.pop("tracebacks_guessed", 0), guessed, "guessed tracebacks")
    check_equal(set(losses), {"tracebacks_" + reason for reason in expected}, "what was counted")


def record(bench, workload, orders, mode=None, options=()):
    """The snapshot after these orders; the recording runs while they are given."""
    with environment(mode):
        recording = bench.attach([workload], *options)
    for order in orders:
        workload.order(order)
    return recording.snapshot()


SOURCES = pathlib.Path(__file__).resolve().parents[1] / "workloads"
FLAGS = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-g", "-w", "-pthread"]


def build(bench, source, name, *flags, compiler="gcc"):
    """A program or a library of tests/workloads, built in a way of the test's own."""
    path = bench.path(name)
    bench.run([tool(compiler), *FLAGS, str(SOURCES / source), "-o", path, *flags])
    return path


def build_library(bench, name, *flags):
    return build(bench, "unwind/library.c", name, "-shared", "-fPIC", *flags)
