# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The domain of mappings: a program with known answers, and a real one beside strace."""
import collections
import json
import os
import pathlib
import re
import signal
import sys

import harness
from harness import (Failure, Process, check, check_equal, environment, fdinfo, losses_of, tool, top_frame, wait_for)

PAGE = os.sysconf("SC_PAGE_SIZE")
DOMAIN = ("--include", "domain=1")

# {function: (blocks, bytes)} of workloads/mappings.c. mmap is called by `map`, one frame below it.
LEFT = {
    "leaf_whole": (3, 3 * 10007),
    "leaf_trimmed": (2, (101 - 11 - 20 - 5) * PAGE),
    "leaf_shrunk": (1, 7 * PAGE + 1),
    "leaf_moved": (1, 5 * PAGE),
    "leaf_under": (3, (17 - 4 - 5) * PAGE),
    "leaf_over": (1, 4 * PAGE),
    "leaf_many": (53 - 29, (53 - 29) * PAGE),
    "leaf_shared": (2048, 2048 * PAGE),
    "leaf_malloc": (1, (1 << 20) + PAGE),
}


LEFT_TOTAL = tuple(sum(column) for column in zip(*LEFT.values()))


def leaf_of(row):
    for frame in row["traceback"]:
        if (frame.get("function") or "").startswith("leaf_"):
            return frame["function"]
    return frame_name(top_frame(row))


def frame_name(frame):
    return frame.get("function") or frame["filename"]


def rows_by_leaf(statistics):
    rows = collections.defaultdict(lambda: (0, 0))
    for row in statistics["statistics"]:
        count, size = rows[leaf_of(row)]
        rows[leaf_of(row)] = count + row["count"], size + row["size"]
    return dict(rows)


@harness.in_modes
def test_mmap_totals_are_known(bench, mode):
    mappings = bench.workload("mappings")
    with environment(mode):
        recording = bench.attach([mappings], "--domain", "malloc,mmap")
    mappings.order("go")
    path = recording.snapshot()
    check_equal(rows_by_leaf(bench.stats(path, "--group-by", "traceback", *DOMAIN)), LEFT, "mappings")
    heap = rows_by_leaf(bench.stats(path, "--group-by", "traceback", "--include", "domain=0"))
    check_equal(heap, {"leaf_malloc": (1, 1 << 20)}, "heap")
    shown = bench.show(path)
    counters = shown["counters"]
    check_equal((counters["current_blocks"], counters["current_bytes"]),
                (1 + LEFT_TOTAL[0], (1 << 20) + LEFT_TOTAL[1]), "current")
    check_equal(counters["allocations"] - counters["frees"], counters["current_blocks"], "blocks")
    check_equal(counters["allocated_bytes"] - counters["freed_bytes"], counters["current_bytes"],
                "bytes")
    check_equal(counters["failed_calls"], 2, "failed_calls")
    check_equal(losses_of(shown), {}, "losses")


def test_mmap_blocks_stay_when_munmap_fails(bench):
    """The program wants more holes than it may have mappings: a munmap that fails removes nothing."""
    most = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
    holes, recording = bench.recorded("holes", "--domain", "mmap")
    _, done = holes.order(f"go {most + 100}")
    check(done["failed"] >= 100, f"only {done['failed']} munmaps failed")
    total = bench.stats(recording.snapshot(), *DOMAIN)["total"]
    check_equal((total["count"], total["size"]), (done["count"], done["size"]), "blocks, bytes")


@harness.core
def test_mmap_is_recorded_only_on_request(bench):
    mappings, recording = bench.recorded("mappings")
    mappings.order("go")
    shown = bench.show(recording.snapshot())
    check_equal(shown["counters"]["allocations"], 1, "allocations")
    check_equal(shown["counters"]["nested_calls"], 0, "nested_calls")
    check(not [probe for probe in shown["probes"] if "mmap" in str(probe)], "mmap is probed")


@harness.core
def test_mmap_is_recorded_without_heaps(bench):
    mappings, recording = bench.recorded("mappings", "--domain", "mmap")
    mappings.order("go")
    totals = bench.stats(recording.snapshot())["total"]
    check_equal((totals["count"], totals["size"]), LEFT_TOTAL, "mappings")


@harness.core
def test_mmap_with_an_unknown_domain_is_refused(bench):
    _, text = bench.allocsnap("attach", "--domain", "malloc,heap", "1", status=2)
    for name in ("'heap'", "malloc", "mmap", "glibc", "musl", "jemalloc", "tcmalloc", "mimalloc"):
        check(name in text, f"{name} is not in {text!r}")


def words_of_starts(bench, recording):
    """How many there are in the map of places where mappings begin: the only one of such a shape."""
    for path in pathlib.Path(f"/proc/{recording.pid}/fdinfo").iterdir():
        info = dict(line.split(":", 1) for line in fdinfo(path) if ":" in line)
        if (info.get("key_size", "").strip(), info.get("value_size", "").strip()) == ("16", "8"):
            dump = [tool("bpftool"), "--json", "map", "dump", "id", info["map_id"].strip()]
            return len(json.loads(bench.run(dump)[0]))
    raise Failure("the map is not there")


def test_mmap_index_of_starts_is_cleared(bench):
    mappings, recording = bench.recorded("mappings", "--domain", "mmap")
    mappings.order("go")
    check(words_of_starts(bench, recording) > 60, "hardly anything was mapped")
    recording.clear()
    wait_for(lambda: bench.show(recording.snapshot())["blocks"] == 0, "they are cleared")
    recording.snapshot()
    check_equal(words_of_starts(bench, recording), 0, "words")
    mappings.order("go")
    totals = bench.stats(recording.snapshot())["total"]
    check_equal((totals["count"], totals["size"]), LEFT_TOTAL, "mappings")


# ---- beside strace ----

PYTHON = """
import mmap, sys, threading
def work():
    kept = [bytes(300000 + i) for i in range(40)]
    small = [bytes(1000) for i in range(3000)]
    del kept[::3]
    maps = [mmap.mmap(-1, 50000 + i) for i in range(20)]
    for i, one in enumerate(maps[:10]):
        one.resize(4096 * (i + 1) * 7)
    for one in maps[15:]:
        one.close()
    return kept, small[::2], maps
all = []
print("ready", flush=True)
for line in sys.stdin:
    threads = [threading.Thread(target=lambda: all.append(work())) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    all.append(work())
    if len(all) > 8: del all[:4]
    print("done", flush=True)
"""

CALL = re.compile(r"(\d+) +(?:<\.\.\. )?(mmap|munmap|mremap)(.*)")


class Ledger:
    """The owner of each page, from strace's output; mappings made before the trace are not known."""

    def __init__(self):
        self.page = {}  # number: (call, bytes that were asked for)
        self.call_nr = 0

    def take(self, address, size):
        for page in range(address // PAGE, (address + size + PAGE - 1) // PAGE):
            self.page.pop(page, None)

    def give(self, address, size):
        self.take(address, size)
        self.call_nr += 1
        for offset in range(0, size, PAGE):
            self.page[(address + offset) // PAGE] = self.call_nr, min(PAGE, size - offset)

    def read(self, name, arguments, result):
        numbers = [int(text, 0) if re.match(r"(0x)?[0-9a-f]+$", text) else 0
                   for text in arguments.split(", ")]
        if result.startswith("-1"):
            return
        if name == "mmap":
            self.give(int(result, 16), numbers[1])
        elif name == "munmap":
            self.take(numbers[0], numbers[1])
        else:
            self.take(numbers[0], numbers[1])
            self.give(int(result, 16), numbers[2])

    def read_file(self, path):
        begun = {}
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                match = CALL.match(line)
                if not match:
                    continue
                thread, name, rest = match.groups()
                if "<unfinished" in rest:
                    begun[thread] = rest[:rest.index("<unfinished")].rstrip()
                    if name == "munmap":  # it has left when the call begins
                        self.read(name, begun[thread][1:], "0")
                    continue
                is_resumed = " resumed>" in rest
                rest = rest.replace(" resumed>", begun.pop(thread, "")) if is_resumed else rest
                call, _, result = rest.rpartition("=")
                if not (is_resumed and name == "munmap"):
                    self.read(name, call.strip()[1:-1], result.split()[0])

    def totals(self):
        blocks = [page for page, (call, _) in self.page.items()
                  if self.page.get(page - 1, (0, 0))[0] != call]
        return len(blocks), sum(size for _, size in self.page.values())


def test_mmap_of_python3_matches_strace(bench):
    """The mappings that libc makes for a running program must agree with the system calls that strace sees."""
    strace, trace = tool("strace"), bench.path("strace.txt")
    python = bench.start([sys.executable, "-c", PYTHON], kind=Process)
    check_equal(python.line(), "ready", "its first line")
    recording = bench.attach([python], "--domain", "malloc,mmap")
    tracer = bench.start([strace, "-f", "-p", str(python.pid), "-o", trace, "-e",
                          "trace=mmap,munmap,mremap"])
    wait_for(lambda: "attached" in tracer.stderr(), "strace is attached")
    for _ in range(3):
        python.write("go\n")
        check_equal(python.line(60), "done", "its answer")
    path = recording.snapshot()
    tracer.popen.send_signal(signal.SIGINT)
    tracer.wait()
    ledger = Ledger()
    ledger.read_file(trace)
    found = bench.stats(path, "--group-by", "domain", *DOMAIN)["total"]
    check_equal((found["count"], found["size"]), ledger.totals(), "(blocks, bytes) of mappings")
    check(found["count"] > 50, f"only {found['count']} mappings")
    check_equal(bench.show(path)["losses"].get("ranges_missed", 0), 0, "ranges_missed")
    check(os.path.getsize(trace) > 10000, "strace saw hardly anything")
