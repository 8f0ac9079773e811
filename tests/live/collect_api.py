# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The C API of recording, as collect_api.c speaks it, and CPython's tracemalloc beside it."""
import errno
import json
import os
import sys

from harness import WORKLOADS, Failure, Process, check_equal

UNIT = 1009  # bytes of a block that the workload is asked for


class Api(Process):
    """A program that has opened a collector."""

    def __init__(self, argv, stderr_path):
        super().__init__(argv, stderr_path)
        self.opened = self.answer()

    def answer(self):
        line = self.line(60)
        if line is None:
            raise Failure(f"{self.popen.args} has ended: {self.stderr()!r}")
        return json.loads(line)

    def call(self, *words):
        """The answer to a call, successful or not."""
        self.write(" ".join(map(str, words)) + "\n")
        return self.answer()

    def do(self, *words):
        """The answer of a call that must succeed."""
        answer = self.call(*words)
        check_equal(answer["err"], 0, f"{words}: {answer['why']}")
        return answer

    def fails(self, err, *words):
        """The call must fail with err and leave its outputs untouched. Returns the reason that the library gives."""
        answer = self.call(*words)
        check_equal(-answer["err"], err, f"{words}, as errno {errno.errorcode.get(err)}")
        check_equal(answer.get("untouched", True), True, f"{words}: outputs are untouched")
        return answer["why"]

    def memory(self, process):
        """tracemalloc's (current, peak)."""
        return tuple(self.do("memory", process.pid)["memory"][:2])

    def is_tracing(self, process):
        return self.do("is_tracing", process.pid)["is"]

    def processes(self):
        self.do("refresh")
        return {view["pid"]: view for view in self.do("processes")["processes"]}

    def end(self):
        """It closes its collector."""
        self.popen.stdin.close()
        check_equal(self.wait(), 0, f"exit status of {self.popen.args} ({self.stderr()!r})")
        check_equal(self.stderr(), "", "what a library prints")


def open_api(bench, *options):
    return bench.start([os.path.join(WORKLOADS, "collect_api"), *options], kind=Api)


# ---- CPython's tracemalloc, on blocks that exist in its counts only ----

SCRIPT = """
import ctypes, json, sys, tracemalloc
UNIT = 10 ** 9  # what the script allocates itself is less
DOMAIN = 77
track, untrack = ctypes.pythonapi.PyTraceMalloc_Track, ctypes.pythonapi.PyTraceMalloc_Untrack
find = ctypes.pythonapi._PyTraceMalloc_GetTraceback
track.argtypes = ctypes.c_uint, ctypes.c_size_t, ctypes.c_size_t
untrack.argtypes = find.argtypes = ctypes.c_uint, ctypes.c_size_t
find.restype = ctypes.py_object
address = lambda slot: 4096 + 16 * slot

def sizes():
    try:
        traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, DOMAIN)])
    except RuntimeError as error:
        return str(error)
    return sorted(trace.size // UNIT for trace in traces.traces)

calls = {
    "start": tracemalloc.start,
    "stop": tracemalloc.stop,
    "clear": tracemalloc.clear_traces,
    "reset_peak": tracemalloc.reset_peak,
    "make": lambda slot, units: track(DOMAIN, address(slot), units * UNIT),
    "drop": lambda slot: untrack(DOMAIN, address(slot)),
    "memory": lambda: [part // UNIT for part in tracemalloc.get_traced_memory()],
    "is_tracing": tracemalloc.is_tracing,
    "has": lambda slot: find(DOMAIN, address(slot)) is not None,
    "sizes": sizes,
}
for line in sys.stdin:
    name, *args = json.loads(line)
    print(json.dumps(calls[name](*args)), flush=True)
"""


class Tracemalloc(Process):
    """Python's module in a process of its own."""

    def call(self, *words):
        self.write(json.dumps(words) + "\n")
        return json.loads(self.line())


class Ours:
    """The same calls, on a workload that allocates and frees the blocks."""

    def __init__(self, bench):
        self.api = open_api(bench)
        self.blocks = bench.workload("blocks")
        self.path = bench.path("snapshot")
        self.bench = bench
        self.address = {}
        self.slot_at = {}

    def call(self, name, *args):
        return getattr(self, name)(*args)

    def _tell(self, name):
        """tracemalloc raises no error for these if it does not trace."""
        answer = self.api.call(name, self.blocks.pid)
        expected = 0 if self.is_tracing() or name in ("start", "stop") else -errno.ESRCH
        check_equal(answer["err"], expected, f"{name}: {answer['why']}")

    def start(self):
        self._tell("start")

    def stop(self):
        self._tell("stop")

    def clear(self):
        self._tell("clear")

    def reset_peak(self):
        self._tell("reset_peak")

    def make(self, slot, units):
        address = self.blocks.order(f"make {slot} 1 {units * UNIT}")[1]["address"]
        self.address[slot] = address
        self.slot_at[address] = slot

    def drop(self, slot):
        self.blocks.order(f"drop {slot} 1")

    def memory(self):
        memory = self.api.memory(self.blocks)
        check_equal([part % UNIT for part in memory], [0, 0], f"odd bytes of {memory}")
        return [part // UNIT for part in memory]

    def is_tracing(self):
        return self.api.is_tracing(self.blocks)

    def has(self, slot):
        address = self.address.get(slot)
        if self.slot_at.get(address) != slot:  # there never was one, or another has its address
            address = 1
        err = self.api.call("object", self.blocks.pid, hex(address), self.path)["err"]
        if err not in (0, -errno.ENOENT, -errno.ESRCH):
            raise Failure(f"get_object_traceback of {address:#x}: {err}")
        return err == 0

    def sizes(self):
        answer = self.api.call("snapshot", self.blocks.pid, self.path)
        if answer["err"]:
            check_equal(answer["err"], -errno.ESRCH, answer["why"])
            return answer["why"].split(":")[0]
        self.bench.allocsnap("convert", self.path, "-o", self.path + ".json")
        with open(self.path + ".json", encoding="utf-8") as file:
            return sorted(trace[1] // UNIT for trace in json.load(file)["traces"])


def both(bench):
    """(ours, tracemalloc's)"""
    python = bench.start([sys.executable, "-c", SCRIPT], kind=Tracemalloc)
    return Ours(bench), python
