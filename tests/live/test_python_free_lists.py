# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A free list gives the memory of an object that was dropped to one that is kept: the line that keeps it is named."""
import signal

import harness
from harness import ALLOCSNAP, NO_SESSIONS, Skip, check, check_equal, losses_of
from test_python import ENVIRONMENT, PYTHON

# Each round drops one before it keeps one, so that the allocator gives every block to the line that drops.
PROGRAM = """
import contextvars, sys
kept = []
def drop(i):
    one = MAKE
def keep(i):
    kept.append(MAKE)
print("ready", flush=True)
for line in sys.stdin:
    for i in range(1000, 3000):
        drop(i); keep(i)
    print("done", flush=True)
"""
DROPS, KEEPS, ROUNDS = 5, 7, 2000
KINDS = ("i / 7", "(i, None)", "[i]", "{'a': i}", "contextvars.Context()", "{i: i}.items()", "slice(i, i)")


def start_kind(bench, make):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    program = bench.start([PYTHON, "-Sc", PROGRAM.replace("MAKE", make)], env=ENVIRONMENT)
    check_equal(program.line(), "ready", "its first line")
    return program


def count_rows(bench, make, *options):
    """{line: blocks that live after it has kept as many as there are rounds}, the metadata."""
    program = start_kind(bench, make)
    recording = bench.attach([program], *options)
    program.write("go\n")
    check_equal(program.line(60), "done", "its answer")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    shown = bench.show(path)
    check_equal(losses_of(shown), {}, f"losses of {make}")
    return {row["traceback"][0]["lineno"]: row["count"] for row in bench.stats(path)["statistics"]}, shown["metadata"]


@harness.core
def test_python_free_lists_give_blocks_to_the_line_that_keeps_them(bench):
    for make in KINDS:
        rows, metadata = count_rows(bench, make)
        tables = ROUNDS if "{" in make else 0  # those of the keys have a list of their own, and are no objects
        check(rows[KEEPS] >= ROUNDS - 300, f"{make}: {rows}")
        check(rows.get(DROPS, 0) <= tables + 20, f"{make}: {rows}")
        check_equal(metadata.get("python_retag"), "1", "the metadata")


def test_python_without_retag_answers_say_so(bench):
    rows, metadata = count_rows(bench, "(i, None)", "--no-retag")
    check(rows[DROPS] >= ROUNDS - 300 and "python_retag" not in metadata, f"{rows}, {metadata}")
    program = start_kind(bench, "(i, None)")
    out = bench.run([ALLOCSNAP, "leaks", str(program.pid), "--for", "4s", "--no-retag", "-o", bench.path("out")])[0]
    check("under the first object's line" in out and "record without --no-retag" in out, out)
    errors = bench.allocsnap("attach", str(program.pid), "--no-retag", "--retag", status=1)[1]
    check("exclude each other" in errors, errors)
