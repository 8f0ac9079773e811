#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How many blocks a recording can hold, how fast they get to a file, and the time and memory for that.

    capacity.py CAPACITY MEASURE DIR BLOCKS     the two programs, compiled; as root

Environment: BENCH_ROUNDS (3).
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

AIM = 2e6  # blocks a second


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


def main():
    capacity, measure, folder, blocks = sys.argv[1:]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    found = run(capacity, folder, int(blocks))
    done = subprocess.run([measure, "time", folder], check=True, stdout=subprocess.PIPE, text=True)
    print_table(found, int(blocks), [line.split("\t") for line in done.stdout.splitlines()])


if __name__ == "__main__":
    main()
