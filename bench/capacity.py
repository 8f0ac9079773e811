#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How many blocks a recording can hold, how fast they get to a file, and the time and memory for that: by traps, and by
`run --exact`.

    capacity.py ALLOCSNAP BOOKS DIR BLOCKS [CAPACITY MEASURE]   the programs, compiled; without the last two only run --exact

Needs root. Environment: BENCH_ROUNDS (3).
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position

AIM = 2e6  # blocks a second
SIZES = {"32 bytes": 32, "64": 64, "16 to 200, 108 on average": 0, "400": 400, "600, not small": 600}
BYTES_A_BLOCK = 3  # times its size: the program's, and the books'
BUSY_SECONDS = 1


def run(capacity, folder, blocks):
    """NAME: its values, in order."""
    rounds = os.environ.get("BENCH_ROUNDS", "3")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        done = subprocess.run([capacity, str(blocks), rounds, folder, memory], check=True,
                              stdout=subprocess.PIPE, text=True)
    found = {}
    for line in done.stdout.splitlines():
        name, value = line.split("\t")
        found.setdefault(name, []).append(float(value))
    return found


def row(what, text):
    print(f"{what:<44} {text}")


def rate(what, seconds, blocks):
    median = statistics.median(seconds)
    row(what, f"{median:6.2f} s  {blocks / median / 1e6:5.2f} M blocks/s  (least {min(seconds):.2f} s)")
    return blocks / median


def mib(size):
    return f"{size / 2**20:.0f} MiB"


def print_table(found, blocks, measured):
    rounds = len(found["old.snap"]) * 2
    row("blocks recorded, in the file", f"{blocks}, {found['blocks'][0]:.0f} with "
        f"{found['tracebacks'][0]:.0f} tracebacks, in {found['record s'][0]:.0f} s")
    rate("map read out", found["drain s"][:rounds], blocks)
    speed = rate("drain to file, no disk", found["memory.snap"], blocks)
    rate("drain to file, synced to the disk", found["old.snap"], blocks)
    row("processor time of one", f"{statistics.median(found['cpu s'][:rounds]):6.2f} s")
    row("aim: 2 M blocks/s to the file", "yes" if speed >= AIM else "NO")
    row("kernel: maps, empty", f"{mib(found['empty kernel bytes'][0])}, "
        f"{found['empty kernel bytes'][0] / blocks:.0f} bytes a block")
    row("kernel: with the blocks, more by", f"{mib(found['kernel bytes'][0])}, "
        f"{found['kernel bytes'][0] / blocks:.0f} bytes a block "
        f"({found['maps bytes'][0] / blocks:.0f} by the maps' own count)")
    peak = max(found["peak bytes"])
    row("our memory at most", f"{mib(peak)}, {peak / blocks:.0f} bytes a block")
    row("file", f"{mib(found['file bytes'][0])}, {found['file bytes'][0] / blocks:.1f} bytes a block")
    idle, busy = found["pairs/s"][0], found["pairs/s during a drain"][0]
    row("malloc and free of the program, pairs/s", f"{idle:.0f}, {busy:.0f} during a drain: "
        f"{busy / idle:.2f}")
    for question in ("load", "statistics lineno", "compare_to lineno", "compare_to traceback"):
        median = statistics.median(float(line[1]) for line in measured if line[0] == question)
        row(f"{question}, of these files", f"{median:6.1f} ms")


# ---- run --exact ----

class Holder:
    """A program that holds blocks, and its recorder."""

    def __init__(self, allocsnap, books, folder, blocks, size):
        self.allocsnap, self.books, self.folder = allocsnap, books, pathlib.Path(folder)
        self.popen = subprocess.Popen([allocsnap, "run", "--exact", "-i", "1h", "-o", folder, "--", books, "hold",  # pylint: disable=consider-using-with
                                       str(blocks), str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, bufsize=1)
        said = self.popen.stdout.readline().split()
        assert said[:1] == ["ready"], self.popen.communicate()
        self.filled_ns = int(said[1])
        self.program = peers.program_below(self.popen, allocsnap)

    def recorder_ns(self):
        found = peers.family_cpu_ns(self.popen.pid)
        found.pop(self.program, None)
        return sum(found.values())

    def peak(self):
        status = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) << 10

    def order(self):
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def busy(self, work):
        """Pairs a second of CPU time while work() is done, and the longest time that its thread stood still."""
        self.order()
        found = work()
        self.order()
        line = self.popen.stdout.readline()
        pairs, cpu_ns, longest_ns = map(int, line.split())
        return found, pairs / cpu_ns * 1e9, longest_ns / 1e6

    def await_snapshot(self):
        while not (found := list(self.folder.glob("*/*/*.snap"))):
            time.sleep(0.002)
            assert self.popen.poll() is None, self.popen.communicate()
        return found[0]

    def snapshot(self):
        """Its path, the seconds until it is there, and CPU seconds of the recorder."""
        begun, cpu = time.monotonic(), self.recorder_ns()
        self.popen.send_signal(signal.SIGUSR1)
        path = self.await_snapshot()
        return path, time.monotonic() - begun, (self.recorder_ns() - cpu) / 1e9

    def parts(self):
        """Memory of the parts of the books; the last one is the number of nodes."""
        files = pathlib.Path(f"/proc/{self.program}/map_files").iterdir()
        path = next(path for path in files if "allocsnap-books" in os.readlink(path))
        done = subprocess.run([self.books, "size", path], check=True, stdout=subprocess.PIPE, text=True)
        return {name: int(value) for name, value in (line.split("\t") for line in done.stdout.splitlines())}

    def shown(self, path):
        done = subprocess.run([self.allocsnap, "show", "--json", path], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["counters"]["current_blocks"]

    def end(self):
        self.popen.communicate()


def available():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return int(next(line for line in text.splitlines() if line.startswith("MemAvailable:")).split()[1]) << 10


def filled_ns(books, blocks, size):
    """CPU time until an unprofiled one holds its blocks."""
    done = subprocess.run([books, "hold", str(blocks), str(size)], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True)
    return int(done.stdout.split()[1])


def exact_row(allocsnap, books, name, size, blocks):
    blocks = min(blocks, int(available() / 2 / max((size or 108) * BYTES_A_BLOCK, 200)))
    plain_ns = filled_ns(books, blocks, size)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        holder = Holder(allocsnap, books, folder, blocks, size)
        try:
            _, idle, idle_ms = holder.busy(lambda: time.sleep(BUSY_SECONDS))
            before = holder.peak()
            (path, seconds, cpu), busy, busy_ms = holder.busy(holder.snapshot)
            parts, peak = holder.parts(), holder.peak()
            found, file_bytes = holder.shown(path), os.path.getsize(path)
        finally:
            holder.end()
    nodes, of_blocks = parts.pop("nodes"), parts["small blocks"] + parts["larger blocks"]
    assert found >= blocks, f"{found} blocks of {blocks}"
    print(f"| {name} | {blocks / 1e6:.1f} M | {plain_ns / blocks:.0f} {(holder.filled_ns - plain_ns) / blocks:+.0f} | "
          f"{of_blocks / blocks:.1f} | {parts['trie'] / nodes:.0f} ({nodes}) | {(sum(parts.values()) - of_blocks - parts['trie']) / 2**20:.1f} | "
          f"{cpu:.2f} ({seconds:.2f}) | {before >> 20}, {peak >> 20} | {file_bytes / found:.1f} | "
          f"{idle / 1e6:.1f} M, {busy / 1e6:.1f} M | {idle_ms:.0f}, {busy_ms:.0f} |", flush=True)


def print_exact(allocsnap, books, blocks):
    print(f"\n`run --exact`: a program that holds blocks of 4,096 stacks, and one snapshot. Load {os.getloadavg()[0]:.1f}\n")
    print("| size of a block | blocks | CPU ns to allocate one: unprofiled, more | books, bytes a block | trie, bytes a node (nodes) | "
          "other books, MiB | snapshot: recorder's CPU s (wall) | recorder's peak MiB: before, with it | file, bytes a block | "
          "pairs a CPU second of the program: alone, meanwhile | longest stop of its thread, ms: alone, meanwhile |")
    print("|---|" + "---|" * 10)
    for name, size in SIZES.items():
        exact_row(allocsnap, books, name, size, blocks)


# ---- all ----

def main():
    allocsnap, books, folder, blocks, *traps = sys.argv[1:]
    if traps:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        found = run(traps[0], folder, int(blocks))
        done = subprocess.run([traps[1], "time", folder], check=True, stdout=subprocess.PIPE, text=True)
        print_table(found, int(blocks), [line.split("\t") for line in done.stdout.splitlines()])
    print_exact(allocsnap, books, int(blocks))


if __name__ == "__main__":
    main()
