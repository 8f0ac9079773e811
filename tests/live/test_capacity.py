# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""More blocks than fit, and very many."""
import functools
import os
import pathlib
import re
import shutil
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, Workload, check, check_equal, environment, fdinfo, wait_for
from test_record import World

LIMIT = 1000
MANY = 1 << 20  # as many as tests/workloads/blocks.c has


def check_counts(shown, **expected):
    found = shown["counters"] | shown["losses"]
    check_equal({name: found[name] for name in expected}, expected, "counters and losses")


def check_sums(shown):
    """Blocks that found no room: the sums that docs/rules.md promises."""
    counter, loss = shown["counters"], shown["losses"]
    check_equal(counter["allocations"] - counter["frees"], counter["current_blocks"], "blocks")
    check_equal(counter["allocated_bytes"] - counter["freed_bytes"], counter["current_bytes"],
                "bytes")
    check_equal(loss["blocks_dropped"], counter["dropped_frees"] + counter["dropped_blocks"] +
                loss["drops_unnoted"], "blocks_dropped")


def test_full_block_map_counts_dropped_blocks(bench):
    """A thousand are kept, the others counted, and known again when they are freed."""
    blocks, recording = bench.recorded("blocks", "--max-blocks", str(LIMIT))
    blocks.order("make 0 5000 64")
    path = recording.snapshot()
    shown = bench.show(path)
    check_equal(shown["blocks"], LIMIT, "blocks in the snapshot")
    check_equal(shown["traced_memory"]["current"], 64 * LIMIT, "traced bytes")
    check_counts(shown, allocations=LIMIT, frees=0, blocks_dropped=4000, dropped_blocks=4000,
                 dropped_bytes=4000 * 64, dropped_frees=0, drops_unnoted=0, unknown_frees=0)
    _, err = bench.allocsnap("stats", path)
    check("blocks_dropped 4000" in err, f"stats does not report it: {err!r}")

    blocks.order("drop 0 2500")
    path = recording.snapshot()
    shown = bench.show(path)
    check_counts(shown, allocations=LIMIT, frees=LIMIT, current_blocks=0, blocks_dropped=4000,
                 dropped_blocks=2500, dropped_bytes=2500 * 64, dropped_frees=1500, unknown_frees=0)
    check_sums(shown)
    text = bench.allocsnap("show", path)[0]
    check(re.search(r"4000 blocks not recorded: the block map was full \(--max-blocks 1000\).*; "
                    r"1500 of them freed since, 2500 live", text), f"show: {text}")

    blocks.order("make 0 100 32")
    blocks.order("drop 0 5000")
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    check_counts(shown, allocations=LIMIT + 100, frees=LIMIT + 100, current_blocks=0,
                 blocks_dropped=4000, dropped_blocks=0, dropped_bytes=0, dropped_frees=4000,
                 drops_unnoted=0, unknown_frees=0)
    check_sums(shown)
    check("blocks_dropped 4000" in recording.stderr(), "attach does not report it at its end")


def record_known(bench, *options):
    """Records one run of `known` with its reallocs, failures and alignments."""
    known, recording = bench.recorded("known", *options)
    known.order("go")
    full = bench.show(recording.snapshot())
    known.order("free")
    empty = bench.show(recording.end(signal.SIGINT)[-1])
    known.is_unharmed()
    return full, empty


@harness.core
def test_full_block_map_keeps_the_known_totals(bench):
    """Dropped blocks plus recorded blocks are the blocks recorded without a limit, for any limit."""
    for all_of, part in zip(record_known(bench), record_known(bench, "--max-blocks", "100")):
        counter, loss, whole = part["counters"], part["losses"], all_of["counters"]
        check(loss["blocks_dropped"] > 400, f"blocks_dropped is {loss['blocks_dropped']}")
        check(part["blocks"] <= 100, f"{part['blocks']} blocks in a map of 100")
        check_sums(part)
        for name, dropped in (("allocations", loss["blocks_dropped"]),
                              ("frees", counter["dropped_frees"]),
                              ("current_blocks", counter["dropped_blocks"]),
                              ("current_bytes", counter["dropped_bytes"]),
                              ("unknown_frees", 0), ("failed_calls", 0)):
            check_equal(counter[name] + dropped, whole[name], f"{name} and what was dropped")


def test_full_block_map_forgets_dropped_blocks_when_cleared(bench):
    """A new recording does not know earlier dropped blocks; their notes are cleared away."""
    blocks, recording = bench.recorded("blocks", "--max-blocks", "10")
    blocks.order("make 0 50 64")
    check_counts(bench.show(recording.snapshot()), blocks_dropped=40, dropped_blocks=40)
    recording.clear()
    recording.snapshot()  # it has cleared them when it answers
    blocks.order("drop 0 50")
    shown = bench.show(recording.snapshot())
    check_counts(shown, blocks_dropped=0, dropped_blocks=0, dropped_frees=0, unknown_frees=50)


def map_bytes(pid):
    """Bytes that a recording's maps take by the kernel's count, and how many entries the map of blocks has."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        facts = dict(line.split(":", 1) for line in fdinfo(path) if ":" in line)
        if "map_id" in facts:
            found[int(facts["map_id"])] = int(facts["memlock"])
    return sum(found.values())


def test_max_memory_limits_the_maps(bench):
    """Maps that are full stay within it; the rest is counted. Also of programs that are started."""
    most, made = 64 << 20, 300000
    blocks, recording = bench.recorded("blocks", "--max-memory", "64M")
    blocks.order(f"make 0 {made} 16")
    taken = map_bytes(recording.pid)
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    kept = shown["blocks"]
    check_counts(shown, allocations=kept, blocks_dropped=made - kept)
    check(kept > 100000, f"room for {kept} blocks only")
    check(most / 3 < taken <= most, f"{taken} bytes in the kernel")
    blocks.is_unharmed()
    out, err = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--max-memory", "24M", "--",
                          "true"])
    check(out.count(".snap") == 1 and err.count("\n") == 1 and err.strip().endswith(out.strip()),
          f"run says {out!r}, {err!r}")


def check_many(bench):
    blocks, recording = bench.recorded("blocks", "--max-blocks", "1M")
    half = MANY // 2
    blocks.order(f"make 0 {half} 16")
    blocks.order(f"more {half} {half} 32")
    path = recording.snapshot()
    rows = {row["traceback"][0]["function"]: (row["count"], row["size"])
            for row in bench.stats(path)["statistics"]}
    check_equal(rows, {"make_here": (half, 16 * half), "make_there": (half, 32 * half)}, "rows")
    check_counts(bench.show(path), allocations=MANY, current_blocks=MANY, blocks_dropped=0)
    blocks.order(f"drop 1000 {half}")
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    check_counts(shown, current_blocks=half, current_bytes=1000 * 16 + (half - 1000) * 32)


def test_million_blocks_are_recorded(bench):
    check_many(bench)


# ---- shares ----
#
# The share of one program: its own tracebacks come and go, and other programs still find room.

RETIRED_MOST = 16384  # src/collect/build/retired_tracebacks.h


def allocated(bench, path):
    """Blocks, of all rows together."""
    rows = bench.stats(path, "--measure", "allocated", "--group-by", "function", "--top", "100000")
    return sum(row["count"] for row in rows["statistics"])


def test_shares_limit_the_remembered_tracebacks(bench):
    """The recorder remembers a bounded number of tracebacks; the bytes of all rows add up to the counter."""
    target, recording = bench.recorded("ways")
    summed = 0
    for _ in range(3):
        target.order("go 20000")
        path = recording.snapshot()
        shown = bench.show(path)
        check(shown["counters"]["allocations"] >= 20000, "it has not allocated")
        check_equal(shown["losses"]["tracebacks_dropped"], 0, "tracebacks_dropped")
        check_equal(allocated(bench, path), shown["counters"]["allocations"], "allocations of all rows")
        check(shown["losses"]["tracebacks_summed"] >= summed, "fewer are summed up than before")
        summed = shown["losses"]["tracebacks_summed"]
    check(summed > 20000, f"only {summed} of 60,000 tracebacks are summed up")
    check(summed >= 60000 - 20000 - RETIRED_MOST - 100, f"only {summed} are summed up")


def program(world, name):
    path = world.bench.path(name)
    if not os.path.exists(path):
        shutil.copy(os.path.join(WORKLOADS, "ways"), path)
    return world.bench.start([path], kind=Workload, env=world.environment).ready()


@harness.alone
def test_shares_limit_the_blocks_of_one_process(bench):
    """One process has 7,500 of 10,000 blocks. Another one may have three times what stays free, so 1,875."""
    world = World(bench)
    recorder = world.record_warm("--comm", "greedy", "--comm", "other", "--max-blocks", "10000")
    greedy, other = program(world, "greedy"), program(world, "other")
    greedy.order("keep 80000")
    other.order("keep 1500")
    shown = {path.split("/")[-2].split(".")[0]: bench.show(path) for path in recorder.pass_now()}
    lost, counted = shown["greedy"]["losses"], shown["greedy"]["counters"]
    check_equal(counted["current_blocks"], 7500, "blocks of the greedy process")
    check_equal(lost["blocks_dropped"], 80000 - 7500, "blocks_dropped of the greedy process")
    check(lost["drops_unnoted"], "it has all notes")
    check_equal(shown["other"]["counters"]["current_blocks"], 1500, "blocks of the other")
    check_equal(shown["other"]["losses"]["blocks_dropped"], 0, "blocks_dropped of the other")
    greedy.is_unharmed()
    other.is_unharmed()


@harness.alone
def test_shares_delay_last_snapshots_and_lose_none(bench):
    """Programs of one user end together, and their last snapshots are large: each comes once, in this pass or a later one."""
    world = World(bench)
    recorder = world.record_warm("--comm", "greedy", interval="1s")
    greedy = [program(world, "greedy") for _ in range(80)]
    for one in greedy:
        one.order("go 4000")
    for one in greedy:
        one.popen.kill()

    metadata_of = functools.cache(lambda path: bench.show(path)["metadata"])

    def lasts():
        shown = [metadata_of(path) for path in recorder.paths() if "/greedy." in path]
        return [metadata for metadata in shown if metadata["trigger"] == "end"]

    wait_for(lambda: len(lasts()) >= len(greedy), "a last snapshot of each", 60)
    recorder.end()
    check_equal(sorted(int(metadata["pid"]) for metadata in lasts()), sorted(one.pid for one in greedy), "last snapshots")
