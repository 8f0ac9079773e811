# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""include/collect.h: what tracemalloc's functions do, as the installed library does it."""
import errno
import os
import random
import signal

from collect_api import UNIT, both, open_api
import harness
from harness import (WORKLOADS, Skip, Workload, bpf_ids, changed_code, check, check_equal, check_unchanged,
                     losses_of, rows_of_file, top_frame, wait_for)

NOT_TRACING = ("the tracemalloc module must be tracing memory allocations to take a snapshot: "
               "process {} is not traced")

# ---- beside CPython ----

SLOTS = 12
STEPS = 120


def check_alike(ours, python, done):
    questions = [("is_tracing",), ("memory",), ("has", done[-1][1] if len(done[-1]) > 1 else 0)]
    if len(done) % 6 == 0 or done[-1][0] in ("start", "stop", "clear"):
        questions.append(("sizes",))
    for question in questions:
        check_equal(ours.call(*question), python.call(*question),
                    f"{question[0]} after {done}")


def some_steps(seed):
    """Calls in random order; an address is used again only after its block was freed."""
    choose = random.Random(seed)
    live = set()
    for _ in range(STEPS):
        name = choose.choices(["make", "drop", "start", "stop", "clear", "reset_peak"],
                              [8, 6, 3, 1, 1, 2])[0]
        slot = choose.randrange(SLOTS)
        if name in ("make", "drop"):
            if (name == "make") == (slot in live):
                continue
            live ^= {slot}
        yield (name, slot, choose.randint(1, 9)) if name == "make" else \
            (name, slot) if name == "drop" else (name,)


def do_alike(ours, python, steps):
    done = []
    for step in steps:
        done.append(step)
        ours.call(*step)
        python.call(*step)
        check_alike(ours, python, done)


@harness.core
def test_api_behaves_like_tracemalloc(bench):
    """The steps cover each statement of tracemalloc's documentation: start twice, clear, free afterwards, stop."""
    do_alike(*both(bench), [
        ("make", 1, 5), ("clear",), ("reset_peak",), ("stop",),
        ("start",), ("drop", 1), ("make", 2, 7), ("start",), ("make", 3, 2), ("drop", 2),
        ("reset_peak",), ("make", 4, 1), ("drop", 4), ("clear",), ("make", 5, 4),
        ("drop", 3), ("clear",), ("drop", 5), ("make", 6, 3), ("stop",), ("drop", 6),
        ("stop",), ("make", 7, 6), ("start",), ("drop", 7), ("make", 8, 2)])


def test_api_behaves_like_tracemalloc_at_random(bench):
    ours, python = both(bench)
    for seed in (1, 2):
        do_alike(ours, python, some_steps(seed))
        do_alike(ours, python, [("drop", slot) for slot in range(SLOTS)])


def test_api_reports_that_a_process_is_not_traced(bench):
    """The snapshot calls return the reason in CPython's words; the other calls return only an errno."""
    ours, python = both(bench)
    api, pid = ours.api, ours.blocks.pid
    check_equal(api.fails(errno.ESRCH, "snapshot", pid, ours.path), NOT_TRACING.format(pid), "why")
    check(NOT_TRACING.startswith(python.call("sizes")), "CPython says it otherwise")
    check_equal(api.fails(errno.ESRCH, "save", pid, bench.folder), NOT_TRACING.format(pid), "why")
    check_equal(api.fails(errno.ESRCH, "object", pid, 4096, ours.path),
                f"process {pid} is not traced", "why")
    api.fails(errno.ESRCH, "clear", pid)
    api.fails(errno.ESRCH, "reset_peak", pid)
    api.fails(errno.ESRCH, "start", 4194305)
    check_equal(api.processes(), {}, "processes")
    api.end()


# ---- one sentence each, with the counters that CPython has not ----

@harness.core
def test_api_starts_and_stops(bench):
    api, blocks = open_api(bench), bench.workload("blocks")
    check_equal(api.is_tracing(blocks), False, "traced before")
    api.do("start", blocks.pid)
    blocks.order("make 0 10 1009")
    check(changed_code(blocks.pid) > 0, "no probe in it")
    links = bpf_ids(api.pid)["link"]
    api.do("start", blocks.pid)
    blocks.order("make 10 5 1009")
    check_equal(api.is_tracing(blocks), True, "traced")
    check_equal(bpf_ids(api.pid)["link"], links, "links after a second start")
    check_equal(api.do("memory", blocks.pid)["memory"], [15 * UNIT, 15 * UNIT, 15, 15], "memory")
    api.do("stop", blocks.pid)
    check_equal(api.do("memory", blocks.pid)["memory"], [0, 0, 0, 0], "memory after stop")
    check_equal(api.is_tracing(blocks), False, "traced after stop")
    check_unchanged(blocks.pid, "stopped")
    blocks.order("drop 0 10")
    api.do("start", blocks.pid)
    blocks.order("drop 10 5")
    check_equal(api.memory(blocks), (0, 0), "memory after another start and old frees")
    api.end()
    check_unchanged(blocks.pid, "after close")
    blocks.is_unharmed()


def test_api_clears_traces(bench):
    """Frees of cleared blocks count as unknown frees, and have no other effect."""
    api, blocks = open_api(bench), bench.workload("blocks")
    path = bench.path("snapshot")
    api.do("start", blocks.pid)
    blocks.order("make 0 30 1009")
    api.do("clear", blocks.pid)
    check_equal(api.do("memory", blocks.pid)["memory"], [0, 0, 0, 0], "memory after clear")
    blocks.order("make 30 3 1009")
    blocks.order("drop 0 30")
    check_equal(api.do("memory", blocks.pid)["memory"], [3 * UNIT, 3 * UNIT, 3, 3], "memory")
    api.do("snapshot", blocks.pid, path)
    shown = bench.show(path)
    check_equal((shown["blocks"], shown["counters"]["allocations"], shown["counters"]["frees"],
                 shown["counters"]["unknown_frees"]), (3, 3, 0, 30), "the account")
    check_equal(losses_of(shown), {}, "losses")
    api.end()


def test_api_resets_the_peak(bench):
    api, blocks = open_api(bench), bench.workload("blocks")
    api.do("start", blocks.pid)
    blocks.order("make 0 9 1009")
    blocks.order("drop 2 7")
    check_equal(api.do("memory", blocks.pid)["memory"], [2 * UNIT, 9 * UNIT, 2, 9], "memory")
    api.do("reset_peak", blocks.pid)
    check_equal(api.do("memory", blocks.pid)["memory"], [2 * UNIT, 2 * UNIT, 2, 2], "reset")
    blocks.order("make 2 1 1009")
    check_equal(api.do("memory", blocks.pid)["memory"], [3 * UNIT, 3 * UNIT, 3, 3], "one more")
    api.end()


def test_api_returns_the_traceback_of_one_block(bench):
    """The trace of one block, whose most recent frame is the call. An address inside a block gives nothing."""
    api, blocks = open_api(bench), bench.workload("blocks")
    path = bench.path("one")
    api.do("start", blocks.pid)
    made = blocks.order("make 0 1 1009")[1]
    blocks.order("make 1 4 1009")
    api.do("object", blocks.pid, hex(made["address"]), path)
    rows = rows_of_file(bench.stats(path), "blocks.c")
    check_equal(rows, {(made["function"], made["line"]): (1, 1009)}, "the block")
    block = bench.json("show", path, "--address", hex(made["address"]))
    check_equal((block["address"], block["size"], block["thread"]),
                (made["address"], 1009, blocks.pid), "what is known of it")
    frame = top_frame(bench.stats(path, "--group-by", "traceback")["statistics"][0])
    check_equal((frame["function"], frame["lineno"]), (made["function"], made["line"]), "the call")
    for address in (made["address"] + 1, 0, 2 ** 64 - 1):
        why = api.fails(errno.ENOENT, "object", blocks.pid, hex(address), path)
        check_equal(why, f"no traced block of process {blocks.pid} begins at {address:#x}", "why")
    blocks.order("drop 0 1")
    api.fails(errno.ENOENT, "object", blocks.pid, hex(made["address"]), path)
    api.end()


def test_api_query_for_one_block_does_not_change_a_drained_snapshot(bench):
    """A query for one block between a drain and its save does not change the saved snapshot."""
    api, blocks = open_api(bench), bench.workload("blocks")
    api.do("start", blocks.pid)
    address = blocks.order("make 0 7 1009")[1]["address"]
    blocks.order("more 7 5 1009")
    blocks.order("drop 3 6")
    api.do("drain")
    saved = [api.do("save", blocks.pid, bench.folder)["path"]]
    path = bench.path("one")
    api.do("object", blocks.pid, hex(address), path)
    saved.append(api.do("save", blocks.pid, bench.folder)["path"])
    totals = [bench.stats(name, "--measure", "allocated")["total"] for name in saved]
    check_equal(totals, [{"size": 12 * UNIT, "count": 12}] * 2, "allocated")
    bench.allocsnap("stats", path, "--measure", "allocated", status=1)  # of one block it is not known
    api.end()


def test_api_limits_tracebacks(bench):
    for options, limit in ([], 64), (["7"], 7), (["127"], 127):
        api = open_api(bench, *options)
        check_equal(api.do("limit")["limit"], limit, f"limit as asked by {options}")
        deep, path = bench.workload("deep", "40"), bench.path("deep")
        api.do("start", deep.pid)
        deep.order("go")
        api.do("snapshot", deep.pid, path)
        check_equal(bench.show(path)["metadata"]["traceback_limit"], limit, "metadata")
        frames = len(bench.stats(path, "--group-by", "traceback")["statistics"][0]["traceback"])
        check(frames == limit if limit < 40 else frames > 40, f"{frames} frames of {limit}")
        api.end()
    refused = open_api(bench, "128")
    check_equal((refused.opened["err"], refused.opened["why"]),
                (-errno.EINVAL, "the number of frames must be in range [1; 127]"), "128 frames")


def kernel_at_least(*version):
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= version


def test_api_reports_its_memory_overhead(bench):
    """The overhead grows with the blocks; a drain gives back the memory of cleared blocks."""
    api, blocks = open_api(bench), bench.workload("blocks")
    api.do("start", blocks.pid)
    empty = api.do("overhead")["bytes"]
    check(empty > 0, "no memory for the maps")
    if not kernel_at_least(6, 4):
        raise Skip("this kernel does not tell what its maps hold (6.4)")
    blocks.order("make 0 100000 16")
    full = api.do("overhead")["bytes"]
    check(full - empty >= 100000 * 48, f"{empty} bytes, {full} with 100,000 blocks")
    api.do("clear", blocks.pid)
    api.do("drain")
    check(api.do("overhead")["bytes"] - empty < 100000, "what was cleared is still there")
    api.end()


# ---- several processes ----

def test_api_traces_two_processes_separately(bench):
    api = open_api(bench)
    one, other = bench.workload("blocks"), bench.workload("blocks")
    path = bench.path("snapshot")
    for process in (one, other):
        api.do("start", process.pid)
    made = one.order("make 0 3 1009")[1]
    other.order("make 0 5 2003")
    check_equal(set(api.processes()), {one.pid, other.pid}, "processes")
    api.do("clear", one.pid)
    one.order("make 3 1 1009")
    check_equal((api.memory(one), api.memory(other)), ((1009, 1009), (10015, 10015)), "memory")
    api.do("snapshot", other.pid, path)
    check_equal(bench.stats(path)["total"], {"size": 10015, "count": 5}, "the other's snapshot")
    api.fails(errno.ENOENT, "object", one.pid, made["address"], path)
    api.do("stop", one.pid)
    other.order("drop 0 2")
    check_equal((api.memory(one), api.memory(other)), ((0, 0), (6009, 10015)), "one is stopped")
    check_equal((api.is_tracing(one), api.is_tracing(other)), (False, True), "traced")
    api.do("snapshot", other.pid, path)
    check_equal(bench.show(path)["metadata"]["pid"], other.pid, "PID of the snapshot")
    api.end()
    one.is_unharmed()
    other.is_unharmed()


def test_api_reads_an_ended_process(bench):
    """The data of an ended process can be read, and cannot be cleared, until the process is stopped."""
    api, blocks = open_api(bench), bench.workload("blocks")
    path = bench.path("last")
    api.do("start", blocks.pid)
    made = blocks.order("make 0 6 1009")[1]
    blocks.popen.send_signal(signal.SIGKILL)
    blocks.wait()
    wait_for(lambda: api.processes()[blocks.pid]["has_ended"], "its end is noticed")
    check_equal(api.is_tracing(blocks), True, "traced")
    check_equal(api.memory(blocks), (6 * UNIT, 6 * UNIT), "memory")
    api.fails(errno.ESRCH, "clear", blocks.pid)
    api.fails(errno.ESRCH, "reset_peak", blocks.pid)
    for _ in range(2):
        api.do("snapshot", blocks.pid, path)
        check_equal(rows_of_file(bench.stats(path), "blocks.c"),
                    {(made["function"], made["line"]): (6, 6 * UNIT)}, "the last snapshot")
    api.do("object", blocks.pid, hex(made["address"]), path)
    check_equal(bench.show(path)["blocks"], 1, "blocks where one was asked for")
    api.do("stop", blocks.pid)
    check_equal((api.is_tracing(blocks), api.memory(blocks)), (False, (0, 0)), "after stop")
    check_equal(api.fails(errno.ESRCH, "snapshot", blocks.pid, path),
                NOT_TRACING.format(blocks.pid), "why")
    api.end()


@harness.core
def test_api_recognizes_a_reused_pid(bench):
    """A new process with the PID of an ended one is recognized as another one, and traced when asked to."""
    api, blocks = open_api(bench), bench.workload("blocks")
    path = bench.path("last")
    api.do("start", blocks.pid)
    blocks.order("make 0 6 1009")
    blocks.is_unharmed()
    again = bench.start([os.path.join(WORKLOADS, "as_pid"), str(blocks.pid),
                         os.path.join(WORKLOADS, "blocks")], kind=Workload)
    again.pid = blocks.pid
    again.ready()
    check_equal(api.fails(errno.EEXIST, "start", again.pid),
                f"another process has PID {again.pid} now: stop tracing the earlier one first", "why")
    again.order("make 0 2 1009")
    api.do("snapshot", blocks.pid, path)
    check_equal(bench.show(path)["blocks"], 6, "blocks of the first")
    api.do("stop", blocks.pid)
    api.do("start", again.pid)
    again.order("make 2 3 1009")
    check_equal(api.memory(again), (3 * UNIT, 3 * UNIT), "memory of the second")
    api.end()


@harness.core
def test_api_follows_forks(bench):
    """A child has an account of its own, cannot be started again, and goes on when its parent is stopped."""
    api, parent = open_api(bench, "0", "follow"), bench.workload("fork")
    path = bench.path("child")
    api.do("start", parent.pid)
    links = bpf_ids(api.pid)["link"]
    done = parent.order("go")[1]
    child = done["child"]
    api.do("start", child)
    view = api.processes()[child]
    check_equal((view["parent"], view["memory"][2]), (parent.pid, 1009), "the child")
    check_equal(api.do("memory", parent.pid)["memory"][2], done["count"], "blocks of the parent")
    api.do("stop", parent.pid)
    check_equal(api.do("is_tracing", child)["is"], True, "the child is traced")
    api.do("snapshot", child, path)
    rows = {function: found for (function, _), found in
            rows_of_file(bench.stats(path), "fork.c").items()}
    check_equal(rows, {"child_site": (1009, 1009 * 89)}, "blocks of the child")
    check(changed_code(parent.pid) > 0, "probes that are everybody's have gone too early")
    parent.order("join")
    for pid in api.processes():
        api.do("stop", pid)
    check_unchanged(parent.pid, "the last one stopped")
    check(bpf_ids(api.pid)["link"] < links, "links that were for everybody are still there")
    api.do("start", parent.pid)
    parent.order("go")
    check_equal(api.do("memory", parent.pid)["memory"][2], done["count"], "blocks, started again")
    api.end()
