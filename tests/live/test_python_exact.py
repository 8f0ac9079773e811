# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python against the tables of tracemalloc in the same process, block by block, in both directions."""
import collections
import os
import signal

import python_blocks
import pythons
import harness
from harness import NO_SESSIONS, Skip, check, check_equal, losses_of
from test_python import ENVIRONMENT, FRAMES, OWN, TARGET, Target


def start_tracing(bench, *options, python=OWN, **environment):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    if python is OWN and not (3, 9) <= (pythons.version_of(*OWN.argv) or (0,)) < (3, 15):
        raise Skip(f"{OWN.argv[0]} is no CPython 3.9 to 3.14")
    return bench.start([*python.argv, "-S", *options, str(TARGET)], kind=Target,
                       env={**ENVIRONMENT, **python.environment, **environment}).ready()


def attach_exact(bench, target, *options):
    return bench.attach([target], "--domain", "python", "--traceback-limit", str(FRAMES), "--no-compact", *options)


def order(target, *orders):
    """Carries out orders, and waits until the program stands still."""
    for text in orders:
        target.order(text)
    python_blocks.wait_until_idle(target)


def short(block):
    size, frames, total = block
    return size, [f"{os.path.basename(file)}:{line}" for file, line in frames[:5]], total


def some(blocks):
    """Blocks by address, or pairs of a block of ours and one of theirs."""
    return f"{len(blocks)}, as " + ", ".join(
        f"{address:#x} " + (" and ".join(map(str, map(short, block))) if len(block) == 2 else str(short(block)))
        for address, block in sorted(blocks.items())[:4])


def check_lists(bench, path, ignored=()):
    """The allocator's own lists were compared with the books, and are the same. ignored: losses."""
    shown = bench.show(path)
    check_equal(losses_of(shown, ("tracebacks_limited", *ignored)), {}, "losses")
    check("python_older_count" in shown["metadata"], "the allocator's lists were not compared")
    return shown["metadata"]["python_older_count"]


def behind_heads(ours, theirs):
    """Blocks by the addresses that debug hooks give out: 16 bytes are before them, twice if hooks of two domains are passed."""
    return {address + (32 if address + 32 in theirs else 16): block for address, block in ours.items()}


def check_exact(bench, path, target, before, ignored=(), has_heads=False):
    ours, theirs = python_blocks.of_snapshot(path), python_blocks.of_tracemalloc(target.pid)
    found = python_blocks.compare(behind_heads(ours, theirs.blocks) if has_heads else ours, theirs, before)
    check(len(found.both) > 500, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_ours", "only_theirs", "tracebacks"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check_lists(bench, path, ignored)


def compare_shape(bench, shape, python=OWN, ignored=(), **environment):
    target = start_tracing(bench, "-X", f"tracemalloc={FRAMES}", python=python, **environment)
    order(target, "shape everything")  # imports and caches
    before = python_blocks.of_tracemalloc(target.pid)
    recording = attach_exact(bench, target)
    order(target, "shape " + shape)
    check_exact(bench, recording.snapshot(), target, before, ignored, environment.get("PYTHONMALLOC") == "debug")
    recording.end(signal.SIGINT)


def compare_while_tracemalloc_stops(bench, python=OWN, ignored=()):
    """Its functions come in front of pymalloc's, go, and come again; what it has at the end is compared."""
    target = start_tracing(bench, python=python)
    order(target, "shape everything")
    recording = attach_exact(bench, target)
    order(target, f"start {FRAMES}", "shape free_lists", "stop", "shape everything", f"start {FRAMES}", "shape everything")
    path = recording.snapshot()
    theirs = python_blocks.of_tracemalloc(target.pid)
    found = python_blocks.compare(python_blocks.of_snapshot(path), theirs, theirs._replace(places={}))
    check(len(found.both) > 500, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_theirs", "tracebacks"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check_equal(losses_of(bench.show(path), ("tracebacks_limited", *ignored)), {}, "losses")
    recording.end(signal.SIGINT)


@harness.core
def test_python_blocks_are_exactly_those_of_tracemalloc(bench):
    compare_shape(bench, "everything")


def test_python_blocks_of_free_lists_are_exactly_those_of_tracemalloc(bench):
    compare_shape(bench, "free_lists")


def test_python_blocks_of_threads_are_exactly_those_of_tracemalloc(bench):
    compare_shape(bench, "threads")


def test_python_blocks_of_the_c_library_are_exactly_those_of_tracemalloc(bench):
    compare_shape(bench, "everything", PYTHONMALLOC="malloc")


def test_python_blocks_behind_debug_hooks_are_exactly_those_of_tracemalloc(bench):
    compare_shape(bench, "everything", PYTHONMALLOC="debug")


def test_python_blocks_are_exact_while_tracemalloc_stops_and_starts(bench):
    compare_while_tracemalloc_stops(bench)


def of_shapes(blocks):
    """How often each (bytes, frames, frames in all) is there, of blocks that python_shapes.py asked for."""
    return collections.Counter(block for block in blocks.values()
                               if any(file.endswith("/python_shapes.py") for file, _ in block[1]))


NAMES_KEPT, NAME_BYTES = 2, 64  # names of attributes stay in the types' cache until addresses collide, which differ


def test_python_blocks_are_those_of_another_process_with_tracemalloc(bench):
    """The same program twice: with tracemalloc, and recorded. Blocks that only the harness asked for are left out."""
    traced, plain = start_tracing(bench, "-X", f"tracemalloc={FRAMES}"), start_tracing(bench)
    for target in (traced, plain):
        order(target, "shape everything", "collect")
    recording = attach_exact(bench, plain)
    for target in (traced, plain):
        order(target, "empty", "shape everything")
    ours = of_shapes(python_blocks.of_snapshot(recording.snapshot()))
    theirs = of_shapes(python_blocks.of_tracemalloc(traced.pid).blocks)
    check(theirs.total() > 5000, f"only {theirs.total()} blocks to compare")
    differ = (theirs - ours) + (ours - theirs)
    check(differ.total() <= NAMES_KEPT and all(block[0] <= NAME_BYTES for block in differ),
          f"only tracemalloc {[*map(short, theirs - ours)][:5]}, only we {[*map(short, ours - theirs)][:5]}, "
          f"of {theirs.total()}")
    recording.end(signal.SIGINT)


def test_python_without_retag_only_tracebacks_of_free_lists_differ(bench):
    target = start_tracing(bench, "-X", f"tracemalloc={FRAMES}")
    order(target, "shape everything")
    before = python_blocks.of_tracemalloc(target.pid)
    recording = attach_exact(bench, target, "--no-retag")
    order(target, "shape everything")
    found = python_blocks.compare(python_blocks.of_snapshot(recording.snapshot()),
                                  python_blocks.of_tracemalloc(target.pid), before)
    for name in ("sizes", "only_ours", "only_theirs"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check(0 < len(found.tracebacks) < len(found.both) / 2, f"{len(found.tracebacks)} of {len(found.both)}")
    recording.end(signal.SIGINT)


def test_python_blocks_are_those_of_the_allocators_lists(bench):
    """Without tracemalloc. What is older only becomes less."""
    target = start_tracing(bench)
    order(target, "shape everything")
    recording = attach_exact(bench, target)
    older = check_lists(bench, recording.snapshot())
    for shape in ("everything", "threads", "reallocated"):
        order(target, "shape " + shape)
        path = recording.snapshot()
        now = check_lists(bench, path)
        check(1000 < now <= older, f"{now} older objects after {older}")
        older = now
    shown = bench.allocsnap("show", path)[0]
    check(f"older than the recording: {older} objects of Python" in shown, shown)
    recording.end(signal.SIGINT)
