# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--sample pools: CPython's small objects by the pools that its allocator takes, against the allocator's own arenas."""
import json
import pathlib
import signal

import python_blocks
import pythons
import harness
from harness import ALLOCSNAP, check, check_equal, losses_of
from test_python import OWN, attach_exact, order, start, start_tracing

SMALL_MAX = 512
TEXTS = 100000
TEXT_ROOM = 80  # sys.getsizeof("text 12345" * 3) is 79


def attach_growth(bench, target, what="pools"):
    return bench.attach([target], "--sample", what, "--no-compact")


def pools_of(path):
    """The pools in a snapshot: {address: size of their blocks}."""
    blocks = python_blocks.of_snapshot(path)
    return {address: blocks[address][0] for address, weight in python_blocks.weights_of_snapshot(path).items() if weight > 1}


def check_pools(bench, target, path, ignored=()):
    """The account has the pools that the arenas have, which the census counts; the standing check says which ones."""
    shown = bench.show(path)
    check_equal(losses_of(shown, ("tracebacks_limited", *ignored)), {}, "losses")
    check_equal(shown["metadata"]["sampler_kind"], "pools", "sampler_kind")
    check("python_older_count" in shown["metadata"], "the allocator's lists were not compared")
    used = json.loads(bench.run([ALLOCSNAP, "census", str(target.pid), "--json"])[0])["python"]["used_pools"]
    pools = pools_of(path)
    check_equal(len(pools) + shown["metadata"]["python_older_count"], used, "used pools")
    check(all(0 < size <= SMALL_MAX and not size % 16 for size in pools.values()), pools)
    return pools


def compare_with_arenas(bench, python=OWN, ignored=(), what="pools"):
    """Pools are taken, given back, and taken for other sizes; objects of all shapes, also by threads."""
    target = start(bench, python)
    order(target, "shape everything")
    recording = attach_growth(bench, target, what)
    check_pools(bench, target, recording.snapshot(), ignored)
    order(target, "shape everything", f"keep {TEXTS}", "shape threads")
    most = check_pools(bench, target, recording.snapshot(), ignored)
    order(target, "drop", "collect", "shape everything")
    left = check_pools(bench, target, recording.snapshot(), ignored)
    check(len(most) > 300 and len(left) < len(most) / 2, f"{len(most)} pools, then {len(left)}")
    recording.end(signal.SIGINT)


def test_sample_pools_are_those_of_the_arenas(bench):
    compare_with_arenas(bench)


def test_sample_pools_names_the_line_and_says_that_it_is_an_estimate(bench):
    target = start(bench)
    recording = attach_growth(bench, target)
    old = recording.snapshot()
    order(target, f"keep {TEXTS}")
    new = recording.snapshot()
    diff = bench.diff(old, new)
    row = diff["statistics"][0]
    frame = row["traceback"][-1]
    check(frame["filename"].endswith("python_work.py") and frame["function"].startswith("texts"), f"what grows most: {frame}")
    check(0.97 * TEXTS < row["count_diff"] < 1.05 * TEXTS, f"{row['count_diff']} blocks, of {TEXTS}")
    least = TEXT_ROOM * TEXTS
    check(0.97 * least < row["size_diff"] < 1.06 * least, f"{row['size_diff']} bytes, of {least}")
    check("size_diff_interval" not in row and "confidence" not in diff, f"an interval: {row}")
    text = bench.allocsnap("stats", new)[0]
    check("its error is not known: a pool counts for the line that took it" in text, text.splitlines()[:3])
    text = bench.allocsnap("show", new)[0]
    check("by pools of CPython: a pool counts for the line that took it" in text, text)
    check("only blocks of 512 B or less were recorded" in text, text)


def test_sample_pools_has_each_large_block(bench):
    """Blocks above 512 bytes are the same as in tracemalloc's tables."""
    target = start_tracing(bench, "-X", "tracemalloc=25")
    order(target, "shape everything")
    before = python_blocks.of_tracemalloc(target.pid)
    recording = attach_exact(bench, target, "--sample", "pools,large")
    order(target, "shape everything", "shape threads")
    ours, theirs = python_blocks.of_snapshot(recording.snapshot()), python_blocks.of_tracemalloc(target.pid)
    large = {address: block for address, block in theirs.blocks.items()
             if block[0] > SMALL_MAX and before.blocks.get(address) != block}
    check(len(large) > 100, f"only {len(large)} blocks to compare")
    wrong = {address: (block, ours.get(address)) for address, block in large.items() if ours.get(address) != block}
    check(not wrong, f"{len(wrong)} of {len(large)} differ, as {list(wrong.items())[:2]}")


@harness.alone
def test_sample_pools_of_processes_by_pid(bench):
    """record --pid takes them, as attach does; and so it does the other options that are about Python's objects."""
    target = start(bench)
    for number, options in enumerate((("--sample", "pools"), ("--retag",), ("--frames", "native"))):
        folder = bench.path(f"by-pid-{number}")
        recorder = bench.start([ALLOCSNAP, "record", "--pid", str(target.pid), "-o", folder, "-i", "1h", "--no-compact", *options])
        check("recording" in (recorder.line() or ""), recorder.stderr())
        order(target, f"keep {TEXTS // 10}")
        recorder.popen.send_signal(signal.SIGINT)
        check_equal(recorder.wait(60), 0, f"exit status: {recorder.stderr()}")
        path = str(next(pathlib.Path(folder).rglob("*.snap")))
        shown = bench.show(path)
        check_equal(shown["metadata"]["domains"], "python", f"domains with {options}")
        check_equal(shown["metadata"].get("sampler_kind"), "pools" if "pools" in options else None, f"samples with {options}")
        check_equal(bench.stats(path)["statistics"][0]["traceback"][-1]["filename"].endswith("python_work.py"), "native" not in options,
                    f"the line that allocates most, with {options}")
        order(target, "drop")


def test_sample_pools_excludes_what_needs_objects(bench):
    for options, why in ((("--retag",), "--retag"), (("--domain", "malloc"), "domain python")):
        _, err = bench.run([ALLOCSNAP, "attach", "1", "--sample", "pools", *options, "-o", bench.path("none")], 1)
        check(why in err and "pools" in err, err)


def test_sample_pools_of_other_pythons(bench):
    """Each CPython that is accepted; those that are not here are left out."""
    for find, *arguments in ((pythons.of_suite, "trixie", 13), (pythons.of_suite, "sid", 14), *(
            (pythons.named_like, minor) for minor in range(9, 14))):
        try:
            python = find(*arguments)
        except pythons.Skip as why:
            print(f"left out: {why}", flush=True)
            continue
        compare_with_arenas(bench, python)
        compare_with_arenas(bench, python, ("python_places_unknown",), "pools,large")
