# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Memory, descriptors and CPU time of each of a recorder's processes, second by second; and whether they
grow."""
import collections
import contextlib
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
from harness import children_of, fdinfo  # pylint: disable=wrong-import-position

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
# A leak of 1 MiB a minute is twice this; what a steady recorder's memory does by itself is a fraction.
GROWTH_MAX = {"MiB": 0.5, "descriptors": 1}
# Seconds after the warm-up that are needed to see a slope.
JUDGED_LEAST = 240


def family(pid):
    """[(PID, comm)] of a process's descendants."""
    found = children_of(pid)
    for child, _ in list(found):
        found += family(child)
    return found


def status_bytes(pid):
    """Resident bytes: anonymous ones, and all (also of files)."""
    rows = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0]) << 10, int(rows["VmRSS"].split()[0]) << 10


def cpu_seconds(pid):
    """Its own, and of its children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def run_and_wait(pid):
    """Seconds that its main thread has run for, and that it has waited for a processor."""
    ran, waited, _ = pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def map_bytes(pids):
    """The kernel's memory of all BPF maps that these have open."""
    bytes_of = {}
    for path in (path for pid in pids for path in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*")):
        rows = dict(line.split(":", 1) for line in fdinfo(path) if ":" in line)
        if "map_id" in rows:
            bytes_of[rows["map_id"].strip()] = int(rows["memlock"])
    return sum(bytes_of.values())


def holders(kind, number):
    """Processes that have a program or a link open, also one that is about to end."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/fdinfo/*"):
        with contextlib.suppress(OSError):
            if f"{kind}_id:\t{number}" in path.read_text().splitlines():
                found.append(f"{path.parts[2]} {pathlib.Path('/proc', path.parts[2], 'comm').read_text().strip()}")
    return found


class Vitals:
    """Series of samples: {name: [(second, value)]}, memory in MiB."""

    def __init__(self, pid):
        self.pid = pid
        self.begun = time.monotonic()
        self.series = collections.defaultdict(list)
        self.cpu_at_begin = None
        self.cpu = {}  # of each living process, with its children that have ended
        self.samples = 0

    def note(self, name, value):
        self.series[name].append((time.monotonic() - self.begun, value))

    def sample_process(self, pid, name):
        own, all_of_it = status_bytes(pid)
        self.note(f"{name}, own MiB", own / MIB)
        self.note(f"{name}, RSS MiB", all_of_it / MIB)
        self.note(f"{name}, descriptors", len(os.listdir(f"/proc/{pid}/fd")))
        self.cpu[pid] = cpu_seconds(pid)

    def sample(self):
        processes = [(self.pid, "recorder"), *family(self.pid)]
        self.cpu = {}
        for pid, name in processes:
            try:
                self.sample_process(pid, name)
            except (OSError, KeyError, IndexError):
                continue  # one that has just ended
        if self.samples % 5 == 0:
            self.note("BPF maps, MiB", map_bytes([pid for pid, _ in processes]) / MIB)
        if self.cpu_at_begin is None:
            self.cpu_at_begin = sum(self.cpu.values())
        self.samples += 1

    def cpu_share(self):
        """The share of one CPU that recorder and children took since the first sample."""
        return (sum(self.cpu.values()) - self.cpu_at_begin) / (time.monotonic() - self.begun)


# ---- growth ----

def lows(series, every):
    """[(second, value)], the least of each stretch: the memory of a pass, and of processes that wait for one, comes
    and goes."""
    stretches = collections.defaultdict(list)
    for second, value in series:
        stretches[int(second / every)].append((second, value))
    return [min(part, key=lambda sample: sample[1]) for part in stretches.values()]


def slope_per_minute(series, every):
    """Theil and Sen's: the median of all slopes between two points; a step and spikes don't move it far."""
    points = lows(series, every)
    slopes = [(b - a) / (t - s) for i, (s, a) in enumerate(points) for t, b in points[i + 1:]]
    return 60 * statistics.median(slopes) if slopes else 0.0


def after_warm_up(series, seconds):
    return [(second, value) for second, value in series if second >= seconds / 4]


def leaking(series, per_minute=1.0):
    """The same, had it leaked."""
    return [(second, value + per_minute * second / 60) for second, value in series]
