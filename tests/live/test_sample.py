# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings of samples, and of some sizes: right on average, exact where no chance is involved, and no
entries are left of freed blocks, in each of the three ways to see a return.
"""
import json
import math
import os
import pathlib
import signal

import harness
from harness import (ALLOCSNAP, NEVER, UNWINDING, Workload, check, check_equal, environment, fdinfo, losses_of,
                     tool, top_frame)

MODES = (None, "ALLOCSNAP_NO_UPROBE_SESSION", "ALLOCSNAP_NO_UPROBE_RETURN")
SAMPLE = 16384
FEW = ("--max-blocks", "16000")  # so that the maps can be read in a moment
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/samples.c")
MOST = 5  # standard deviations: one check in 1.7 million fails by chance


def chance(size, sample=SAMPLE):
    """The probability that a block of this size is sampled."""
    return -math.expm1(-max(size, 1) / sample)


def check_estimate(found, count, size, what):
    """count blocks of this size, in blocks and bytes."""
    deviation = math.sqrt(count * (1 - chance(size)) / chance(size))
    for unit, name in ((1, "count"), (size, "size")):
        check(abs(found[name] - count * unit) <= MOST * deviation * unit + 1,
              f"{what}: {name} {found[name]}, truth {count * unit}, standard deviation "
              f"{deviation * unit:.0f}")


def rows_by_function(statistics, names):
    """A compiled place is known by its function, or by its line if it has no name."""
    rows = {}
    for row in statistics["statistics"]:
        name = next((name for name in names if name == top_frame(row).get("function")), None)
        if name:
            total = rows.setdefault(name, {"count": 0, "size": 0, "samples": 0})
            for measure in total:
                total[measure] += row.get(measure, 0)
    return rows


def check_live(bench, path, answers, done, what):
    statistics = bench.stats(path)
    names = {answer["row"] for answer in answers}
    rows = rows_by_function(statistics, names)
    for answer in answers:
        found = rows.get(answer["row"], {"count": 0, "size": 0})
        check_estimate(found, answer["count"], answer["size"], f"{what}: {answer['row']}")
    shown = bench.show(path)
    check_equal(losses_of(shown, UNWINDING), {}, f"{what}: losses")
    check_equal(int(shown["metadata"]["sample_bytes"]), SAMPLE, f"{what}: sample_bytes")
    counters = shown["counters"]
    check_equal(counters["unknown_frees"], 0, f"{what}: unknown_frees")
    check(0 < counters["sampled_blocks"] < sum(answer["count"] for answer in answers) / 4,
          f"{what}: {counters['sampled_blocks']} samples")
    # A block of n bytes adds n S to the variance at most, n much smaller than S.
    for name in ("allocated_bytes", "freed_bytes"):
        check(abs(counters[name] - done[name]) <= MOST * math.sqrt(SAMPLE * done[name]),
              f"{what}: {name} {counters[name]}, truth {done[name]}")


def maps_of(pid):
    """The ids of a recording's maps."""
    return {int(line.split()[1]) for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir()
            for line in fdinfo(path) if line.startswith("map_id:")}


def dump(bench, number):
    return json.loads(bench.run([tool("bpftool"), "--json", "map", "dump", "id", str(number)])[0])


def entries(bench, recording, name):
    """All entries of the recording's map NAME."""
    for number in maps_of(recording.pid):
        shown = json.loads(bench.run([tool("bpftool"), "--json", "map", "show", "id", str(number)])[0])
        if shown["name"] == name:
            return [entry["formatted"] for entry in dump(bench, number)]
    raise AssertionError(f"the recording has no map {name}")


def check_maps(bench, recording, block_nr, what):
    """free_filter counts the blocks that are in the map, and nothing else."""
    check_equal(len(entries(bench, recording, "blocks")), block_nr, f"{what}: blocks in the map")
    check_equal(sum(entry["value"] for entry in entries(bench, recording, "free_filter")), block_nr,
                f"{what}: the sum of free_filter")


def check_empty(bench, recording, what):
    shown = bench.show(recording.snapshot())
    for name in ("current_blocks", "current_bytes", "sampled_blocks"):
        check_equal(shown["counters"][name], 0, f"{what}: {name} after all frees")
    for measure in ("allocations", "allocated_bytes"):
        freed = {"allocations": "frees", "allocated_bytes": "freed_bytes"}[measure]
        check_equal(shown["counters"][measure], shown["counters"][freed], f"{what}: {freed}")
    check_maps(bench, recording, 0, what)


def check_sampling(bench, start, what):
    for mode in harness.modes(None, MODES):
        where = f"{what} ({mode or 'sessions'})"
        program = start()
        with environment(mode):
            recording = bench.attach([program], "--sample", str(SAMPLE), *FEW)
        answers, done = program.order("go")
        check_live(bench, recording.snapshot(), answers, done, where)
        program.order("free")
        check_empty(bench, recording, where)
        recording.end(signal.SIGINT)
        program.is_unharmed()


@harness.core
@harness.smoke
def test_sample_estimates_are_right(bench):
    check_sampling(bench, lambda: bench.workload("samples"), "glibc")


def test_sample_estimates_are_right_with_musl(bench):
    """musl's calloc calls malloc."""
    path = bench.path("samples-musl")
    bench.run([tool("musl-gcc"), "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", SOURCE, "-o", path],
              seconds=60)
    check_sampling(bench, lambda: bench.start([path], kind=Workload).ready(), "musl")


def test_sample_entries_of_an_exited_process_are_removed(bench):
    """The entries of an ended process are removed by the next snapshot, and are no longer counted."""
    gone, other = bench.workload("samples"), bench.workload("samples")
    recording = bench.attach([gone, other], "--sample", str(SAMPLE), *FEW)
    gone.order("go")
    other.order("go")
    gone.kill()
    recording.path()  # its last one
    recording.target_nr = 1
    shown = bench.show(recording.snapshot())
    check_equal(int(shown["metadata"]["pid"]), other.pid, "PID of the remaining process")
    check_maps(bench, recording, shown["counters"]["sampled_blocks"], "one is gone")
    other.order("free")
    check_empty(bench, recording, "both are gone")


def test_sample_size_limits_are_exact(bench):
    """--min-size and --max-size involve no random choice."""
    for mode in MODES:
        program = bench.workload("samples")
        with environment(mode):
            recording = bench.attach([program], "--min-size", "200", "--max-size", "900",
                                     "--max-blocks", "25000")
        answers, _ = program.order("go")
        path = recording.snapshot()
        rows = rows_by_function(bench.stats(path), {answer["row"] for answer in answers})
        expected = {answer["row"]: (answer["count"], answer["count"] * answer["size"])
                    for answer in answers if 200 <= answer["size"] <= 900}
        check_equal({name: (row["count"], row["size"]) for name, row in rows.items()}, expected,
                    f"rows ({mode})")
        shown = bench.show(path)
        check_equal(losses_of(shown, UNWINDING), {}, f"losses ({mode})")
        check_equal([int(shown["metadata"][name]) for name in ("min_size", "max_size")], [200, 900],
                    "sizes in the snapshot")
        program.order("free")
        check_empty(bench, recording, f"sizes ({mode})")
        recording.end(signal.SIGINT)
        program.is_unharmed()


SQL = """CREATE TABLE t (i INTEGER PRIMARY KEY, b BLOB, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)
INSERT INTO t (b, c) SELECT zeroblob(i % 3000), printf('row %d of text', i * 7919 % 20001) FROM n;
SELECT count(*) FROM (SELECT c FROM t ORDER BY c DESC);
"""


def counters_of_sqlite(bench, *options):
    argv = [ALLOCSNAP, "run", "-o", bench.path("sqlite"), "--interval", NEVER, *options, "--",
            tool("sqlite3"), "-batch", ":memory:", SQL]
    paths = bench.run(argv, seconds=120)[0].split()
    return bench.show([path for path in paths if path.endswith(".snap")][-1])["counters"]


def test_sample_of_sqlite3_is_close_to_its_exact_numbers(bench):
    """The program runs twice; the estimates of the second run are close to the exact numbers of the first."""
    exact = counters_of_sqlite(bench)
    sampled = counters_of_sqlite(bench, "--sample", str(SAMPLE))
    for name in ("allocated_bytes", "freed_bytes", "current_bytes"):
        most = MOST * math.sqrt(SAMPLE * exact[name])
        check(abs(sampled[name] - exact[name]) <= most,
              f"sqlite3: {name} {sampled[name]}, exact {exact[name]} ± {most:.0f}")
    check(sampled["peak_bytes"] >= sampled["current_bytes"], "the peak is below what is live")
