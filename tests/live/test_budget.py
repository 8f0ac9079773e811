# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--max-overhead: recordings sample, then pause, and the snapshots say when. ALLOCSNAP_PAUSE_EVERY_MS=N makes them
pause and go on every N ms at any cost, ALLOCSNAP_RATE_EVERY_MS=N take the next sampling rate."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

from collect_api import open_api
import harness
from harness import (ALLOCSNAP, NO_LINKS, NO_RETURNS, WORKLOADS, Skip, Workload, check, check_equal, check_unchanged,
                     environment, kill_and_check, wait_for)
from test_heaps import HEAPS, domains, is_probed, start
from test_record import Record, World

BUDGET = ("--max-overhead", "20")
LITTLE = ("--max-overhead", "2")  # programs exceed it that get a small part of a processor only


def pausing_every(ms):
    return environment("ALLOCSNAP_PAUSE_EVERY_MS", ms)


def rates_every(ms):
    return environment("ALLOCSNAP_RATE_EVERY_MS", ms)


def check_gaps(shown):
    """Gaps are in order, do not overlap, and none is in the future. Returns their number."""
    before = shown["metadata"]["recording_start_monotonic_ns"]
    for gap in shown.get("gaps", []):
        check(before <= gap["start_ns"] < gap["end_ns"], f"gap {gap} after {before}")
        before = gap["end_ns"]
    check(before <= shown["metadata"]["monotonic_ns"], "a gap of the future")
    return len(shown.get("gaps", []))


def work_until_gaps(show, work, turns=1000):
    """However long that takes beside other work: its budget is of wall-clock time. Returns what show() returned."""
    for _ in range(turns):
        if check_gaps(shown := show()):
            break
        work()
    return shown


def spend(pairs):
    """Its threads have more of a busy machine than one would."""
    pairs.order("go 8 20000")


def next_gap(bench, recording, path):
    """A snapshot that has a gap which began after another snapshot."""
    taken_ns = bench.show(path)["metadata"]["monotonic_ns"]
    while True:
        later = recording.snapshot()
        gaps = bench.show(later).get("gaps", [])
        if gaps and gaps[-1]["start_ns"] > taken_ns:
            return later


def test_budget_gaps_are_recorded(bench):
    pairs, recording = bench.recorded("pairs", *LITTLE)
    shown = work_until_gaps(lambda: bench.show(recording.snapshot()), lambda: spend(pairs))
    metadata = shown["metadata"]
    check_equal(int(metadata["max_overhead_core_percent"]), 2, "max_overhead_core_percent")
    check_equal(int(metadata["gap_count"]), len(shown["gaps"]), "gap_count")
    check_cost(metadata, shown["counters"])
    recording.end(signal.SIGINT)
    check_unchanged(pairs.pid, "at the end")
    pairs.order("go 1 1000")


def test_budget_of_an_idle_program_is_not_exceeded(bench):
    pairs, recording = bench.recorded("pairs", *BUDGET)
    pairs.order("keep 100")
    shown = bench.show(recording.snapshot())
    check_equal(shown.get("gaps", []), [], "gaps")


def need_links():
    if NO_LINKS:
        raise Skip("without links of many uprobes each pause takes seconds")


def test_budget_blocks_from_before_a_gap_are_reported(bench):
    """Blocks from before a pause are reported as perhaps freed, and a query can leave them out."""
    need_links()
    pairs = bench.workload("pairs")
    with pausing_every(20):
        recording = bench.attach([pairs])
    kept = 0
    while kept < 100:  # blocks of times when it does not pause
        pairs.order("keep 50")
        kept = bench.show(path := recording.snapshot())["blocks"]
    path = next_gap(bench, recording, path)
    shown = bench.show(path)
    check(check_gaps(shown) > 0, "no gaps")
    last = shown["gaps"][-1]["start_ns"]
    kept = shown["blocks"]
    statistics = bench.stats(path)
    check_equal(statistics["gap_blocks"]["count"], kept, f"blocks from before {last}")
    rest = bench.stats(path, "--no-gap-blocks")
    check_equal(sum(row["count"] for row in rest["statistics"]), 0, "blocks with --no-gap-blocks")
    recording.end(signal.SIGINT)
    pairs.order("drop")


BIRTHS = 13  # include/snapshot.h, SNAP_TRACE_BIRTH


def births_of(path):
    with open(path, "rb") as file:
        data = file.read()
    for i in range(struct.unpack_from("<I", data, 24)[0]):
        kind, _, offset, _, number, _ = struct.unpack_from("<IIQQQQ", data, 40 + 40 * i)
        if kind == BIRTHS:
            return struct.unpack_from(f"<{number}Q", data, offset)
    return ()


@harness.core
def test_budget_no_block_is_born_in_a_gap(bench):
    """A block born in a gap would not be marked as having lived through it. Recording restarts before a gap ends."""
    need_links()
    pairs = bench.workload("pairs")
    with pausing_every(2):
        recording = bench.attach([pairs])
    most = 0
    while most <= 1000:  # one gap may have most of them
        pairs.order("drop")
        pairs.order("keep 100000")
        path = recording.snapshot()
        gaps, births = bench.show(path)["gaps"], births_of(path)
        for gap in gaps:
            middle = (gap["start_ns"] + gap["end_ns"]) // 2
            check(not [birth for birth in births if gap["start_ns"] <= birth < middle], f"born in {gap}")
        most = max(most, len(births) if gaps else 0)


@harness.core
def test_budget_pauses_during_calls_keep_the_totals_exact(bench):
    """The totals are exact at the end even if pauses cut calls in two."""
    pairs = bench.workload("pairs")
    with pausing_every(5):
        recording = bench.attach([pairs])
    pairs.order("go 4 100000")
    shown = work_until_gaps(lambda: bench.show(recording.snapshot()), lambda: pairs.order("go 4 100000"))
    counters = shown["counters"]
    check_equal(counters["allocations"] - counters["frees"], shown["blocks"], "blocks")
    check(shown["losses"]["blocks_replaced"] == 0, f"losses: {shown['losses']}")
    recording.end(signal.SIGINT)
    check_unchanged(pairs.pid, "at the end")
    pairs.order("go 2 1000")


def gaps_ns(shown):
    return sum(gap["end_ns"] - gap["start_ns"] for gap in shown.get("gaps", []))


def test_budget_pauses_after_a_drain_are_not_in_its_snapshot(bench):
    """A program that uses the library can pause the recording between a drain and its save."""
    need_links()
    pairs = bench.workload("pairs")
    with pausing_every(3):
        api = open_api(bench)
    api.do("start", pairs.pid)
    for _ in range(10):
        api.do("drain")
        for _ in range(40):
            api.do("refresh")
            shown = bench.show(api.do("save", pairs.pid, bench.folder)["path"])
            known = shown["metadata"]
            check(gaps_ns(shown) <= known["gaps_ns"] <= known["monotonic_ns"] -
                  known["recording_start_monotonic_ns"], f"gaps of {known['gaps_ns']} ns in {known}")
    api.end()


@harness.core
def test_budget_pauses_work_at_exec_and_exit(bench):
    script = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done; exec /bin/ls /"
    with pausing_every(4):
        out, _ = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "sh", "-c", script])
    shown = bench.show([line for line in out.splitlines() if line.endswith(".snap")][-1])
    check_gaps(shown)
    check_equal(shown["metadata"]["end"], "exited 0", "end")


def test_budget_pauses_work_while_children_are_followed(bench):
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do sort /etc/services >/dev/null; done"
    gaps = 0
    while not gaps:
        with pausing_every(4):
            out, _ = bench.run([ALLOCSNAP, "run", "-f", "-o", bench.path("out"), "--", "sh", "-c", script],
                               seconds=60)
        shown = [bench.show(line) for line in out.splitlines() if line.endswith(".snap")]
        check(len(shown) > 5, f"snapshots: {len(shown)}")
        gaps = sum(check_gaps(snapshot) for snapshot in shown)


def test_budget_pauses_work_at_dlopen(bench):
    """A library that is mapped during a pause is probed when the pause ends."""
    need_links()
    program, library, domain = start(bench, next(iter(HEAPS)))
    with pausing_every(10):
        recording = bench.attach([program])
    program.order("load")
    name = os.path.basename(os.path.realpath(library))
    wait_for(lambda: is_probed(bench, recording.snapshot(), name), f"{library} is probed", 60)
    program.order("race")  # a block each millisecond
    check(domain in domains(bench, recording.snapshot()), f"no block of {library}")


KILLS = 36


def killed_while_pausing(bench, pairs, after_ms):
    with pausing_every(2):
        recording = bench.attach([pairs])
    pairs.write(f"run {after_ms + 50:.0f}\n")
    time.sleep(after_ms / 1000)
    kill_and_check(bench, recording, pairs, f"killed after {after_ms:.2f} ms")
    pairs.line(30)
    pairs.order("go 1 1000")


def test_budget_recorder_killed_while_pausing_leaves_no_probe(bench):
    """All that the kernel does for the recording goes away when the recorder is killed in a pause."""
    need_links()
    pairs = bench.workload("pairs")
    for _ in range(KILLS):
        killed_while_pausing(bench, pairs, random.uniform(20, 120))


@harness.core
def test_budget_pauses_do_not_harm_the_program(bench):
    """Threads under load, paused every few ms for some seconds."""
    pairs = bench.workload("pairs")
    with pausing_every(3):
        recording = bench.attach([pairs])
    for _ in range(5):
        pairs.order("go 8 30000")
    work_until_gaps(lambda: bench.show(recording.snapshot()), lambda: pairs.order("go 8 30000"))


def is_in_gap(shown):
    gaps = shown.get("gaps", [])
    return bool(gaps) and gaps[-1]["end_ns"] == shown["metadata"]["monotonic_ns"]


def core_share(shown):
    """Returns what the recording took of one core."""
    known = shown["metadata"]
    return known["cost_ns"] / (known["monotonic_ns"] - known["recording_start_monotonic_ns"])


def is_thinned(shown):
    return int(shown["metadata"].get("thinned_ns", 0)) > 0


LIMIT = 4.5  # standard deviations, of 3 places, in blocks and bytes: 1 run in 25,000 fails by chance


def check_ledger(bench, path, answers, what):
    """The estimates of the places that kept blocks since the last gap, and their intervals, as wide as the limit asks."""
    rows = {}
    for row in bench.stats(path, "--group-by", "function", "--no-gap-blocks")["statistics"]:
        rows[row["key"]] = row
    for answer in answers:
        row, truth = rows[answer["row"]], answer["count"]
        if "size_interval" in row and "count_interval" not in row:
            continue  # few samples, of several rates
        low, high = row.get("count_interval", [row["count"], row["count"]])
        wide = max(high - low, 1) / 2 / 1.96 * LIMIT
        check(abs(row["count"] - truth) <= wide,
              f"{what}: {answer['row']}: {row['count']} ({low} to {high}), truth {truth}")


def test_budget_rates_that_change_keep_the_sums_right(bench):
    """Each block keeps the weight of the rate that chose it; frees take away what was added."""
    paced = bench.workload("paced")
    with rates_every(3):
        recording = bench.attach([paced])
    paced.order("pace 1500 4000 3000")
    path = recording.snapshot()
    answers, _ = paced.order("ledger")
    check(min(answer["count"] for answer in answers) > 1000, f"too few blocks: {answers}")
    shown = bench.show(path)
    check_equal(shown.get("gaps", []), [], "gaps")
    check(is_thinned(shown) and int(shown["metadata"]["sample_bytes_most"]) == 65536, f"rates: {shown['metadata']}")
    check(shown["counters"]["sampled_blocks"] < sum(answer["count"] for answer in answers) * 0.7, "no samples")
    check_ledger(bench, path, answers, "rates that change")
    paced.order("drop")
    shown = bench.show(recording.snapshot())
    for name in ("current_blocks", "current_bytes", "sampled_blocks"):
        check_equal(shown["counters"][name], 0, f"{name} after all frees")


def test_budget_rates_that_change_while_children_are_followed(bench):
    script = "for i in 1 2 3 4 5 6; do cat /etc/services /etc/services /etc/services | sort -R >/dev/null; done"
    with rates_every(2):
        out, _ = bench.run([ALLOCSNAP, "run", "-f", "-o", bench.path("out"), "--", "sh", "-c", script], seconds=60)
    shown = [bench.show(line) for line in out.splitlines() if line.endswith(".snap")]
    check(any("sample_bytes_most" in snapshot["metadata"] for snapshot in shown), "no rate but the first one")
    for snapshot in shown:
        counters = snapshot["counters"]
        live = counters["allocations"] - counters["frees"]  # sums of weights, each of them rounded
        check(abs(live - counters["current_blocks"]) <= counters["sampled_blocks"] + 1, f"current_blocks: {counters}")


def test_budget_samples_before_it_pauses(bench):
    """A program at full speed is sampled first, and then pauses, and both are noted. Beside other
    work the program may not spend a large budget, and a recorder that gets no processor finds nothing left of a small one and
    pauses at once. So there are ten."""
    need_links()
    pairs = bench.workload("pairs")
    for percent in ("20", "10", "5", "2", "1") * 2:
        recording = bench.attach([pairs], "--max-overhead", percent)
        shown = work_until_gaps(lambda: bench.show(recording.snapshot()), lambda: spend(pairs), 5)  # pylint: disable=W0640
        recording.end(signal.SIGINT)
        told = recording.stderr()
        check("pauses now and then" in told or not check_gaps(shown), f"notes: {told!r}")
        if check_gaps(shown) and is_thinned(shown) and "samples are recorded" in told.partition("pauses now and then")[0]:
            return
    raise harness.Failure(f"no samples before a pause: {shown['metadata']}, {told!r}")


def test_budget_is_there_again_after_a_burst(bench):
    """The budget is of wall-clock time: what a burst has cost is forgotten soon, also if the program is idle then."""
    need_links()
    paced, recording = bench.recorded("paced", "--max-overhead", "10")
    paced.order("pace 3000 -1 0")
    wait_for(lambda: not is_in_gap(bench.show(recording.snapshot())), "the recording goes on", 10)
    before = bench.show(recording.snapshot())
    paced.order("pace 2000 0 25")
    path = recording.snapshot()
    shown = bench.show(path)
    check_equal(len(shown["gaps"]), len(before["gaps"]), "gaps after the burst")
    check_ledger(bench, path, paced.order("ledger")[0], "after the burst")


def work_beside_others(bench, recorder, busy):
    """Until it has gaps."""
    def show():
        return bench.show(next(path for path in recorder.pass_now() if f".{busy.pid}/" in path))

    work_until_gaps(show, lambda: busy.order("go 1 100000"))


def check_quiet_ones(bench, recorder, busy, quiet):
    """In the files of one pass the busy process has gaps, and those that cost little have none. Returns these files."""
    paths = {bench.show(path)["metadata"]["pid"]: path for path in recorder.pass_now()}
    check(check_gaps(bench.show(paths[busy.pid])) > 0, "the busy one has no gaps")
    for process in quiet:
        shown = bench.show(paths[process.pid])
        check_equal(shown.get("gaps", []), [], f"gaps of a process that costs {core_share(shown):.4f} of a core")
        check_ledger(bench, paths[process.pid], process.order("ledger")[0], "a quiet process")
    return [paths[process.pid] for process in quiet]


@harness.alone
def test_budget_of_a_busy_process_is_nothing_to_quiet_ones(bench):
    """Four processes that cost little are recorded whole beside one that pauses."""
    need_links()
    quiet = [bench.workload("paced") for _ in range(4)]
    busy = bench.workload("pairs")
    recorder = bench.start([ALLOCSNAP, "record", "-o", bench.path("out"), "--interval", harness.NEVER, "--max-overhead",
                            "10", *[f"--pid={process.pid}" for process in (*quiet, busy)]], kind=Record,
                           folder=bench.path("out"))
    recorder.line_of("recording")
    for process in quiet:
        process.write("pace 4000 0 40\n")
    work_beside_others(bench, recorder, busy)
    for process in quiet:
        process.line(20)
    for path in check_quiet_ones(bench, recorder, busy, quiet):
        check(not is_thinned(bench.show(path)), "a quiet process is sampled")
    recorder.end()


@harness.alone
def test_budget_of_shared_probes_names_the_process_that_spends(bench):
    """A process that record selects by name samples, then pauses; when it sleeps, the recording goes on."""
    need_links()
    world = World(bench)
    program = bench.path("pp")
    shutil.copy(os.path.join(WORKLOADS, "pairs"), program)
    pairs = bench.start([program], kind=Workload, env=world.environment).ready()
    recorder = world.record("--comm", "pp", "--comm", "sh", *BUDGET)

    def of_pairs():
        paths = [path for path in recorder.pass_now() if "/pp." in path]
        check_equal(len(paths), 1, "snapshots of pp in a pass")
        return bench.show(paths[0])

    shown = work_until_gaps(of_pairs, lambda: spend(pairs))
    check(is_thinned(shown), "it pauses before it samples")
    check("pp (PID" in recorder.stderr(), f"the process is not named: {recorder.stderr()!r}")
    wait_for(lambda: not is_in_gap(of_pairs()), "the recording goes on", 20)
    recorder.end()


def test_budget_diff_over_a_gap_cannot_be_judged(bench):
    pairs = bench.workload("pairs")
    with pausing_every(20):
        recording = bench.attach([pairs])
    old = recording.snapshot()
    new = next_gap(bench, recording, old)
    out, _ = bench.run([ALLOCSNAP, "diff", old, new], status=3)
    check(out.startswith("cannot be judged: "), f"diff: {out!r}")
    out, _ = bench.run([ALLOCSNAP, "diff", old, old])
    check("cannot be judged" not in out, f"diff with itself: {out!r}")


@harness.alone
def test_budget_of_a_record_holds_for_its_first_process(bench):
    """The budget exists before the first process, and holds for new processes, too."""
    need_links()
    world = World(bench)
    program = bench.path("pp")
    shutil.copy(os.path.join(WORKLOADS, "pairs"), program)
    recorder = world.record("--comm", "pp", *LITTLE)
    pairs = bench.start([program], kind=Workload, env=world.environment).ready()
    recorder.pass_now()

    def show():
        paths = recorder.pass_now()
        check_equal(len(paths), 1, "snapshots of pp")
        return bench.show(paths[0])

    work_until_gaps(show, lambda: spend(pairs))
    recorder.end()


@harness.core
def test_budget_that_is_invalid_is_refused(bench):
    for text in ("0", "-1", "x"):
        process = subprocess.run([ALLOCSNAP, "attach", "1", "--max-overhead", text], check=False,
                                 capture_output=True)
        check(process.returncode != 0, f"--max-overhead {text} is taken")


# ---- budget quota ----
#
# --max-overhead in a control group with a quota of CPU time: the budget is of the quota. tests/unit/collect has both
# versions of hierarchies; here is the one that the machine has.

QUOTA = {1: {"cpu.cfs_period_us": "{1}", "cpu.cfs_quota_us": "{0}"}, 2: {"cpu.max": "{0} {1}"}}


def hierarchy():
    """(version, folder) of the hierarchy with the controller cpu."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        point = pathlib.Path(left.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return 1, point
        if kind == "cgroup2" and "cpu" in (point / "cgroup.subtree_control").read_text().split():
            return 2, point
    raise Skip("no hierarchy of control groups gives quotas of CPU time")


@contextlib.contextmanager
def groups(*names):
    """(version, a folder, one in it, …)"""
    version, folder = hierarchy()
    made = []
    try:
        for name in names:
            folder = folder / f"{name}.{os.getpid()}"
            try:
                folder.mkdir()
            except OSError as error:
                raise Skip(f"no control group can be made: {error.strerror}") from None
            made.append(folder)
        yield version, *made
    finally:
        for folder in reversed(made):
            wait_for(lambda: not (folder / "cgroup.procs").read_text(), "the end of who is in the group")  # pylint: disable=W0640
            folder.rmdir()


def limit(version, folder, quota_us, period_us):
    for name, form in QUOTA[version].items():
        (folder / name).write_text(form.format(quota_us, period_us))


def budget_of(bench, process):
    recording = bench.attach([process], "--max-overhead", "10")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    shown, text = bench.show(path), bench.allocsnap("show", path)[0]
    check_equal(shown["cost"]["max_overhead_percent"], 10, "percent of its own CPU time")
    return shown["cost"]["max_overhead_core_ns"], text


@harness.core
def test_quota_of_a_group_is_what_the_budget_is_of(bench):
    with groups("allocsnap-live") as (version, folder):
        limit(version, folder, 20000, 100000)
        known = bench.workload("known")
        (folder / "cgroup.procs").write_text(str(known.pid))
        core_ns, text = budget_of(bench, known)
        check_equal(core_ns, 200000000, "CPU time of a second")
        check("10 % of its quota (0.20 of a core), and of the program's own CPU time, or 0.2 % of a core" in text, text)
        known.is_unharmed()


def test_quota_of_a_group_above_counts_and_a_large_one_does_not(bench):
    with groups("allocsnap-live", "inner") as (version, outer, inner):
        if version == 2:
            (outer / "cgroup.subtree_control").write_text("+cpu")
        limit(version, outer, 50000, 100000)
        known = bench.workload("known")
        (inner / "cgroup.procs").write_text(str(known.pid))
        check_equal(budget_of(bench, known)[0], 500000000, "of the group above")
        limit(version, outer, 400000, 100000)
        core_ns, text = budget_of(bench, known)
        check_equal(core_ns, 1000000000, "four cores")
        check("10 % of one core, and of the program's own CPU time, or 1 % of a core, if that is more" in text, text)
        known.is_unharmed()


# ---- cost ----
#
# The cost of recording: every trap is counted, and the time of all traps is a part of the CPU time.

PAIRS = 20000


def traps(shown):
    counters = shown["counters"]
    return tuple(counters[name] for name in ("entry_traps", "stepped_traps", "return_traps"))


@harness.core
def test_cost_counts_each_trap(bench):
    """A malloc is a trap at its entry and one at its return, a free one."""
    pairs, recording = bench.recorded("pairs")
    pairs.order(f"go 1 {PAIRS}")
    pairs.write("quit\n")
    pairs.wait()
    entry, stepped, returned = traps(bench.show(recording.end()[-1]))
    # glibc may make a call or two more at its end
    calls, rets = (entry, stepped) if NO_RETURNS else (entry + stepped, returned)
    check(2 * PAIRS <= calls <= 2 * PAIRS + 5, f"traps at entries: {calls} of {2 * PAIRS}")
    check(PAIRS <= rets <= PAIRS + 5, f"traps at returns: {rets} of {PAIRS}")


def test_cost_counts_each_trap_of_threads(bench):
    pairs, recording = bench.recorded("pairs")
    pairs.order(f"go 4 {PAIRS}")
    pairs.write("quit\n")
    pairs.wait()
    shown = bench.show(recording.end()[-1])
    counters = shown["counters"]
    frees = counters["frees"] + counters["unknown_frees"]
    got = counters["allocations"] + counters["failed_calls"]
    # nested calls and free(NULL) are traps, too; both are rare here
    least = frees + got
    check(least <= sum(traps(shown)[:2]) - (got if NO_RETURNS else 0) <= least + 100,
          f"traps at entries: {traps(shown)}, calls: {least}")
    check(counters["allocations"] >= 4 * PAIRS, f"allocations: {counters['allocations']}")


def check_stepped(measure):
    """A trap with a single step costs more. Other work makes what is measured larger: the least of ten."""
    least = measure()
    for _ in range(9):
        if 0 < least[0] < least[1]:
            break
        least = tuple(map(min, least, measure()))
    check(0 < least[0] < least[1], f"a trap {least[0]} ns, with a step {least[1]} ns")


def check_cost(metadata, counters):
    """The numbers are consistent: each part is less than the whole, and the parts add up."""
    check_equal(int(metadata["cost_is_estimated"]), 1, "cost_is_estimated")
    for name in ("cost_entry_ns", "cost_stepped_ns", "cost_return_ns"):
        check(100 < metadata[name] < 10**6, f"{name}: {metadata[name]}")
    cost = (counters["entry_traps"] * metadata["cost_entry_ns"] +
            counters["stepped_traps"] * metadata["cost_stepped_ns"] +
            counters["return_traps"] * metadata["cost_return_ns"] + counters["program_ns"])
    check_equal(metadata["cost_ns"], cost, "cost_ns")
    check(counters["program_ns"] > 0, "the programs took no time")


def test_cost_is_in_snapshots(bench):
    pairs = bench.workload("pairs")

    def measure():
        metadata = bench.show(bench.attach([pairs]).end(signal.SIGINT)[-1])["metadata"]
        return metadata["cost_entry_ns"], metadata["cost_stepped_ns"]

    check_stepped(measure)
    recording = bench.attach([pairs])
    pairs.order("go 1 100000")
    shown = bench.show(recording.snapshot())
    check_cost(shown["metadata"], shown["counters"])
    first = shown["metadata"]
    pairs.order("go 1 100000")
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    check_cost(shown["metadata"], shown["counters"])
    check(shown["metadata"]["cost_ns"] > first["cost_ns"], "the cost does not grow")
    check(shown["metadata"]["cpu_ns"] > first["cpu_ns"], "the CPU time does not grow")


def test_cost_continues_when_traces_are_cleared(bench):
    pairs, recording = bench.recorded("pairs")
    pairs.order("go 1 20000")
    before = traps(bench.show(recording.snapshot()))
    recording.clear()
    after = bench.show(recording.snapshot())
    check(sum(traps(after)) >= sum(before), f"{traps(after)} after {before}")


def test_cost_of_children_is_counted_separately(bench):
    """A child's cost counts from its fork on; the parent's cost does not include it. Of a process that has ended the CPU
    time is what the kernel had added up by then: the child waits for that."""
    out = bench.path("out")
    paths, _ = bench.run([ALLOCSNAP, "run", "-f", "-o", out, "--", "sh", "-c",
                          "sh -c 'perl -e \"1 until (times)[0]\"; exit 0'; exit 0"], seconds=60)
    shown = [bench.show(path) for path in paths.splitlines() if path.endswith(".snap")]
    check(len(shown) > 1, f"no children: {paths}")
    for snapshot in shown:
        if snapshot["counters"]["program_ns"]:
            check_cost(snapshot["metadata"], snapshot["counters"])
        if snapshot["metadata"]["comm"] == "perl":
            check(snapshot["metadata"]["cpu_ns"] > 0, f"no CPU time: {snapshot['metadata']}")
    check("perl" in {snapshot["metadata"]["comm"] for snapshot in shown}, f"no child: {paths}")


def test_cost_of_a_trap_is_in_doctor(bench):
    def measure():
        costs = json.loads(bench.allocsnap("doctor", "--json")[0])["machine"]["trap_costs"]
        check(costs["return_ns"] > 0, f"costs: {costs}")
        return costs["entry_ns"], costs["stepped_ns"]

    check_stepped(measure)
    check("cost of a trap" in bench.allocsnap("doctor", "-v")[0], "not in the text")
