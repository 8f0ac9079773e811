# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs with known answers: their own counts against ours, per call site."""
import ctypes
import json
import os
import re
import signal

import harness
from harness import (BY_FRAME_POINTERS, NO_LINKS, NO_RETURNS, WITHOUT_LINKS, WITHOUT_RETURNS, WITHOUT_SESSIONS, Failure,
                     Process, check, check_equal, environment, frame_text, losses_of, rows_of_file, top_frame, wait_for)

# Seven threads; a third of these blocks is freed by another one.
LEAF_A = (7 * (101 - 34), 7 * (101 - 34) * 53)


def expected_rows(answers):
    return {(row["function"], row["line"]): (row["count"], row["size"]) for row in answers}


def check_rows(found, expected):
    """Names the first call site that is wrong."""
    for site in sorted(expected.keys() | found.keys(), key=str):
        if found.get(site) != expected.get(site):
            raise Failure(f"{site}: (count, size) {found.get(site)}, the program says "
                          f"{expected.get(site)}")


def check_totals(bench, path, done, losses=None):
    """Counters, totals of every grouping and the program's own totals agree."""
    shown = bench.show(path)
    counters = shown["counters"]
    for name in done.keys() - {"count", "size"}:
        check_equal(counters[name], done[name], name)
    check_equal(shown["blocks"], done["count"], "blocks")
    check_equal(counters["current_blocks"], done["count"], "current_blocks")
    check_equal(counters["allocations"] - counters["frees"], done["count"], "allocations - frees")
    check_equal(shown["traced_memory"]["current"], done["size"], "traced_memory.current")
    check(shown["traced_memory"].get("peak", done["size"]) >= done["size"], "the peak is less than what is live")
    check_equal(losses_of(shown, {"tracebacks_busy"}), losses or {}, "losses")
    for measure, count, size in (("allocated", "allocations", "allocated_bytes"),
                                 ("temporary", "temporary_blocks", "temporary_bytes")):
        total = bench.stats(path, "--measure", measure)["total"]
        check_equal((total["count"], total["size"]), (counters[count], counters[size]), measure)
    for key in ("lineno", "filename", "traceback"):
        total = bench.stats(path, "--group-by", key)["total"]
        check_equal((total["count"], total["size"]), (done["count"], done["size"]),
                    f"total by {key}")


PROBE_KINDS = {
    "with_sessions": (None, None),
    "with_links": (WITHOUT_SESSIONS, "uprobe_ret" if NO_RETURNS else "uprobe" if NO_LINKS else "uprobe_multi"),
    "with_perf_uprobes": (WITHOUT_LINKS, "uprobe_ret" if NO_RETURNS else "uprobe"),
    "without_return_probes": (WITHOUT_RETURNS, "uprobe_ret"),
}


@harness.rows(PROBE_KINDS, of_core=PROBE_KINDS, of_smoke=("with_sessions",))
def test_known_totals_are_exact(bench, mode, probe_kind):
    """A kernel before 6.13 has one link for entries and one for returns, one before 6.6 a link for each probe."""
    known = bench.workload("known")
    with environment(mode):
        recording = bench.attach([known])
    answers, done = known.order("go")
    path = recording.snapshot()
    rows = rows_of_file(bench.stats(path), "known.c")
    check_rows(rows, expected_rows(answers))
    leaf_a = [value for (function, _), value in rows.items() if function == "leaf_a"]
    check_equal(leaf_a, [LEAF_A], "leaf_a")
    check_totals(bench, path, done)
    if probe_kind:
        check_equal(bench.show(path)["metadata"]["probe_kind"], probe_kind, "probe_kind")
    check_rows(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), rows)

    _, done = known.order("free")
    path = recording.snapshot()
    check_rows(rows_of_file(bench.stats(path), "known.c"), {})
    check_totals(bench, path, done)
    check_equal(len(recording.end(signal.SIGINT)), 1, "last snapshots")


def test_known_totals_stay_exact_over_rounds(bench):
    """Work, free and work again: nothing drifts, and each diff is what happened between."""
    known, recording = bench.recorded("known")
    paths, totals = [], []
    for command in ("go", "free", "go", "free", "go"):
        _, done = known.order(command)
        paths.append(recording.snapshot())
        totals.append(done)
        check_totals(bench, paths[-1], done)
    for i in range(1, len(paths)):
        diff = bench.diff(paths[i - 1], paths[i])["total"]
        check_equal(diff["size_diff"], totals[i]["size"] - totals[i - 1]["size"], "size_diff")
        check_equal(diff["count_diff"], totals[i]["count"] - totals[i - 1]["count"], "count_diff")


@harness.core
def test_each_address_has_one_probe(bench):
    """glibc's memalign and aligned_alloc are one function: two probes would be two calls."""
    known, recording = bench.recorded("known")
    _, done = known.order("go")
    path = recording.end(signal.SIGINT)[-1]
    probes = [(probe["object"], probe["offset"]) for probe in bench.show(path)["probes"]]
    check(len(probes) > 8, f"probes: {probes}")
    check_equal(len(set(probes)), len(probes), "places of probes")
    names = {probe["function"] for probe in bench.show(path)["probes"]}
    check_equal(len(names & {"memalign", "aligned_alloc"}), 1, "probes for memalign, aligned_alloc")
    check_totals(bench, path, done)


def test_diff_shows_the_growing_line_first(bench):
    """The growing line comes first; lines that only churn have no growth, and are listed all the same."""
    grow = bench.workload("grow", "600")
    recording = bench.attach([grow])
    old = new = recording.snapshot()

    def grown():
        nonlocal new
        new = recording.snapshot()
        return any(row["count_diff"] > 300 for row in bench.diff(old, new)["statistics"])

    wait_for(grown, "a line that has grown by 300 blocks")
    rows = bench.diff(old, new)["statistics"]
    frame = top_frame(rows[0])
    check_equal(frame["function"], "grow_here", "the growing function")
    check_equal(os.path.basename(frame["filename"]), "grow.c", "its file")
    check_equal(rows[0]["size_diff"], 1021 * rows[0]["count_diff"], "its size_diff")
    functions = {top_frame(row).get("function"): row for row in rows}
    for name, size, most in (("churn_a", 499, 101), ("churn_b", 1999, 53)):
        row = functions[name]
        check_equal(row["size"], size * row["count"], f"size of {name}")
        check(row["count"] <= most, f"{name}: {row['count']} blocks, at most {most} are live")
    top = bench.diff(old, new, "--group-by", "traceback")["statistics"][0]["traceback"]
    check_equal([frame.get("function") for frame in top][:2], ["grow_here", "main"], "its callers")


@harness.core
def test_traceback_limit_cuts_tracebacks(bench):
    deep = bench.workload("deep", "30")
    recording = bench.attach([deep], "--traceback-limit", "5")
    deep.order("go")
    path = recording.snapshot()
    rows = bench.stats(path, "--group-by", "traceback", "--keep-wrappers")["statistics"]
    check_equal([(row["count"], row["size"]) for row in rows], [(7, 7 * 127)], "rows")
    check_equal([frame.get("function") for frame in rows[0]["traceback"]],
                ["leaf_deep"] + ["descend"] * 4, "frames")
    shown = bench.show(path)
    check_equal(shown["losses"]["tracebacks_limited"], 7, "tracebacks_limited")
    check_equal(str(shown["metadata"]["traceback_limit"]), "5", "traceback_limit")
    check("tracebacks_limited" in bench.allocsnap("stats", path)[1], "stats does not report it")
    check(re.search(r"tracebacks_limited +7", bench.allocsnap("show", path)[0]), "show does not report it")


@harness.core
def test_deep_traceback_is_complete(bench):
    """The traceback has every frame in order down to main, up to the default limit."""
    deep = bench.workload("deep", "40")
    recording = bench.attach([deep])
    deep.order("go")
    path = recording.snapshot()
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    check_equal(len(rows), 1, "rows")
    functions = [frame.get("function") for frame in rows[0]["traceback"]]
    check_equal(functions[:42], ["leaf_deep"] + ["descend"] * 40 + ["main"], "functions")
    check_equal(bench.show(path)["losses"]["tracebacks_limited"], 0, "tracebacks_limited")


def test_cxx_program_with_its_own_operator_new_has_names(bench):
    """operator new is passed over; templates and namespaces are shown as they are written."""
    cxx, recording = bench.recorded("cxx_new")
    _, done = cxx.order("go")
    path = recording.snapshot()
    rows = {top_frame(row).get("function"): (row["count"], row["size"])
            for row in bench.stats(path, "--group-by", "traceback")["statistics"]}
    expected = {"shop::stock()": (done["items"], done["items"] * done["item_size"]),
                "shop::Shelf<int>::fill(unsigned long)": (13, 13 * 53 * 4),
                "shop::Shelf<shop::Item>::fill(unsigned long)": (3, 3 * 7 * done["item_size"])}
    check_equal({name: rows.get(name) for name in expected}, expected, "rows")
    check("shop::discard()" not in rows, "deleted blocks are live")
    check("shop::refuse(int)" not in rows, "exceptions that were caught are live")
    kept = [frame_text(top_frame(row)) for row in bench.stats(path, "--keep-wrappers")["statistics"]]
    check(any("operator new" in text for text in kept), "--keep-wrappers shows no operator new")


@harness.core
def test_cxx_program_with_libstdcxx_has_callers(bench):
    """libstdc++'s operator new keeps no frame pointer; its caller is known all the same."""
    cxx, recording = bench.recorded("cxx")
    _, done = cxx.order("go")
    path = recording.snapshot()
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    items = [row for row in rows if row["size"] == done["items"] * done["item_size"]
             and any("shop::open_day" in frame_text(frame) for frame in row["traceback"])]
    check_equal([row["count"] for row in items], [done["items"]], "rows of the items")
    frames = [frame.get("function", "") for frame in items[0]["traceback"]]
    losses = bench.show(path)["losses"]
    if BY_FRAME_POINTERS:  # not made up
        check(frames[0].startswith("operator new("), f"the most recent frame: {frames}")
        check_equal(frames[1], "[callers without frame pointer]", "the frame behind it")
        check(losses["tracebacks_skipping"] > 0, "it is not counted")
    else:
        check_equal(frames[:3], ["shop::stock()", "shop::open_day()", "main"], "frames")
        check_equal(losses["tracebacks_skipping"], 0, "tracebacks_skipping")


@harness.core
def test_library_loaded_later_is_named(bench):
    """A library that came by dlopen() during the recording is named."""
    program, recording = bench.recorded("dlopen")
    _, done = program.order("go")
    check("error" not in done, done)
    path = recording.snapshot()
    size = sum(row["size"] for row in bench.stats(path)["statistics"]
               if "libsqlite3" in frame_text(top_frame(row)))
    check(done["size"] <= size <= done["size"] + 400000, f"libsqlite3 has {size} bytes")


@harness.core
def test_snapshot_without_allocations_is_empty(bench):
    """A process that allocates nothing: empty statistics, no error."""
    known, recording = bench.recorded("known")
    path = recording.end(signal.SIGINT)[-1]
    check_equal(bench.stats(path)["statistics"], [], "statistics")
    check_equal(bench.show(path)["blocks"], 0, "blocks")


# ---- clear ----
#
# SIGUSR2: tracemalloc's clear_traces() and reset_peak() on a running process.

@harness.core
@harness.smoke
def test_clear_removes_earlier_blocks(bench):
    """No earlier block is left; later blocks are right, and frees of earlier blocks are no losses."""
    known, recording = bench.recorded("known")
    known.order("go")
    before = bench.show(recording.snapshot())
    recording.clear()
    shown = bench.show(recording.snapshot())
    check_equal(shown["blocks"], 0, "blocks after clearing")
    check_equal(shown["traced_memory"], {"current": 0, "peak": 0}, "traced memory")
    check_equal(shown["counters"]["allocations"], 0, "allocations")
    known.order("free")
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"]["unknown_frees"], before["blocks"], "frees of blocks of before")
    check_equal(losses_of(shown), {}, "losses")
    answers, done = known.order("go")
    path = recording.snapshot()
    check_rows(rows_of_file(bench.stats(path, "--keep-wrappers"), "known.c"), expected_rows(answers))
    check_equal(bench.show(path)["blocks"], done["count"], "blocks after another round")


def test_clear_under_load_keeps_the_counters_right(bench):
    """Eight threads go on while traces are cleared: after each clear the counters equal the live blocks."""
    storm, recording = bench.recorded("storm")
    storm.write("go on\n")
    for _ in range(20):
        recording.clear()
    storm.write("go\n")
    for _ in ("go on", "go"):
        storm.line(30)
    counters = bench.show(recording.snapshot())["counters"]
    check_equal(counters["allocations"] - counters["frees"], counters["current_blocks"], "blocks")
    check_equal(counters["allocated_bytes"] - counters["freed_bytes"], counters["current_bytes"], "bytes")
    check(counters["allocations"] > 0, "nothing was recorded after the clearing")
    check(counters["peak_blocks"] <= counters["allocations"], "the peak is above all that came")


# ---- address ----
#
# show --address: tracemalloc's get_object_traceback() on a snapshot.

# Allocates a block, prints its address, then waits.
SCRIPT = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
sys.stdin.readline()
print(libc.malloc(123457), threading.get_native_id(), flush=True)
sys.stdin.readline()
"""


def test_show_finds_the_block_at_an_address(bench):
    python = bench.start(["/usr/bin/python3", "-c", SCRIPT], kind=Process)
    recording = bench.attach([python], "--domain", "malloc")
    python.write("\n")
    address, thread = map(int, python.line().split())
    path = recording.snapshot()
    times = bench.show(path)["metadata"]
    lasted_ns = times["monotonic_ns"] - times["recording_start_monotonic_ns"]
    for inside in (address, address + 1, address + 123456):
        block = json.loads(bench.allocsnap("show", path, "--address", hex(inside), "--json")[0])
        check_equal((block["address"], block["size"], block["thread"], block["domain"]),
                    (address, 123457, thread, 0), "the block")
        check(0 < block["age_ns"] < lasted_ns, f"its age: {block['age_ns']} of {lasted_ns}")
        check(block["traceback"], "no traceback")
    text = bench.allocsnap("show", path, "--address", str(address))[0]
    check(text.startswith(f"{hex(address)}: 121 KiB in domain 0 (malloc), by thread {thread}, "), text)
    check("ffi" in text, f"not called through libffi: {text}")
    bench.allocsnap("show", path, "--address", hex(address + 123457 + ctypes.sizeof(
        ctypes.c_size_t)), status=1)
    bench.allocsnap("show", path, "--address", "0x", status=2)
