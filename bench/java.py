#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of the agent of --domain java to a program that does nothing but allocate (tests/workloads/Leak.java, "churn").

    java.py ALLOCSNAP SOURCE
Each way has a virtual machine of its own, and a round asks all of them for the same work. "unrecorded again" is the same once
more: what the machine does to a ratio. Environment: BENCH_ROUNDS (21).
"""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 21
WORK = 3000000  # arrays of 4 KB on average: 12 GB
WARM_UP = 3
WAYS = {"unrecorded": None, "unrecorded again": None, "--domain java (512K)": (), "--sample 4M": ("--sample", "4M"),
        "--sample 64K": ("--sample", "64K")}


class Way:
    """A virtual machine, and its recording."""

    def __init__(self, allocsnap, folder, options):
        self.java = subprocess.Popen(["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", folder, "Leak"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, bufsize=1)
        self.java.stdout.readline()
        for _ in range(WARM_UP):
            self.work()
        self.recording = None
        if options is not None:
            self.recording = subprocess.Popen([allocsnap, "attach", str(self.java.pid), "--domain", "java", *options, "-i", "1h", "-o",
                                               tempfile.mkdtemp(dir=folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while "takes samples of allocations" not in self.recording.stderr.readline():
                assert self.recording.poll() is None, "the recording has ended"

    def cpu_ms(self):
        return sum(int(path.read_text(encoding="ascii").split()[0]) for path in
                   pathlib.Path(f"/proc/{self.java.pid}/task").glob("*/schedstat")) / 1e6

    def work(self):
        """CPU time of all its threads, in ms."""
        before = self.cpu_ms()
        self.java.stdin.write(f"churn {WORK}\n")
        self.java.stdout.readline()
        return self.cpu_ms() - before

    def end(self):
        if self.recording:
            self.recording.terminate()
            self.recording.communicate()
        self.java.stdin.close()
        self.java.wait()


def main():
    rounds.end_in_order()
    allocsnap, source = sys.argv[1:3]
    samples, wanted = rounds.Samples(), rounds.rounds_wanted(ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-d", folder, source], check=True)
        ways = {name: Way(allocsnap, folder, options) for name, options in WAYS.items()}
        begun = time.monotonic()
        for _ in range(wanted):
            for name, way in ways.items():
                samples.add(name, way.work())
        for way in ways.values():
            way.end()
    print(f"CPU ms for {WORK} arrays of 4 KB on average, medians of {wanted} rounds in {time.monotonic() - begun:.0f} s, and the median "
          f"and quartiles of the rounds' own ratios. {rounds.load()}\n")
    for name in WAYS:
        ratios = sorted(samples.ratios(name, "unrecorded"))
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        print(f"{name:<24} {samples.median(name):8.0f} ms  ×{ratios[len(ratios) // 2]:.3f}  ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
