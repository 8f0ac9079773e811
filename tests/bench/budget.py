#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures what a budget allows, what it costs, and whether sums stay true.

usage: budget.py ALLOCSNAP WORKLOADS

A program with a ledger of its own (tests/workloads/paced.c) makes pairs of malloc and free at a given rate, and keeps
blocks of three places. Each row is one rate of pairs, recorded several times with a budget: what was allowed, what the
recording took (by the snapshot, and by the CPU time of the same work unrecorded), which part of the time was recorded
at all and which with every block, and how many of the sums of the three places (blocks and bytes, of live blocks and of
what two snapshots differ by) hold the ledger's numbers in their 95 % intervals. BENCH_ROUNDS: recordings of each row.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile

PERCENT = 10
SECONDS = 6
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
ROWS = (  # name, pairs a second, kept blocks a second of each place
    ("quiet", 500, 100), ("below the budget", 15000, 300), ("samples suffice", 38000, 300),
    ("samples do not", 120000, 300), ("full speed", -1, 300))


class Paced:
    def __init__(self, workloads):
        self.popen = subprocess.Popen([os.path.join(workloads, "paced")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.line()

    def line(self):
        return json.loads(self.popen.stdout.readline())

    def order(self, command):
        self.popen.stdin.write(command + "\n")
        self.popen.stdin.flush()
        answers = [self.line()]
        while "done" not in answers[-1]:
            answers.append(self.line())
        return answers[:-1], answers[-1]["done"]

    def end(self):
        self.popen.stdin.close()
        self.popen.wait()


class Recording:
    def __init__(self, allocsnap, pid, folder):
        self.allocsnap, self.folder = allocsnap, folder
        self.popen = subprocess.Popen([allocsnap, "attach", str(pid), "--max-overhead", str(PERCENT), "-i", "1h", "-o",
                                       folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.snapshot()

    def snapshot(self):
        """Asks by SIGUSR1 until there is a new one: at first attach is not ready yet."""
        before = len(self.paths())
        while len(self.paths()) == before:
            if self.popen.poll() is None and self.is_ready():
                self.popen.send_signal(signal.SIGUSR1)
            try:
                self.popen.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
            raise SystemExit(f"budget.py: attach ended: {self.popen.stderr.read()}")
        return max(self.paths())

    def is_ready(self):
        """Whether SIGUSR1 is handled (blocked and read from a descriptor) by now."""
        with open(f"/proc/{self.popen.pid}/status", encoding="utf-8") as status:
            blocked = next(line for line in status if line.startswith("SigBlk"))
        return int(blocked.split()[1], 16) & 1 << signal.SIGUSR1 - 1

    def paths(self):
        return glob.glob(f"{self.folder}/*/*/*.snap")

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        self.popen.communicate()


def ask(allocsnap, *args):
    done = subprocess.run([allocsnap, *args, "--json"], check=False, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"budget.py: {args}: {done.stderr}")
    return json.loads(done.stdout), done.returncode


def intervals(statistics, ledger, before, suffix):
    """Counts the intervals of blocks and bytes of each place that hold the ledger's numbers, and all of them."""
    rows = {row["key"]: row for row in statistics["statistics"]}
    held = nr = 0
    for answer, old in zip(ledger, before):
        row = rows.get(answer["row"], {})
        count = answer["count"] - (old["count"] if suffix else 0)
        for name, truth in (("count", count), ("size", count * answer["size"])):
            value = row.get(name + suffix, 0)
            low, high = row.get(f"{name}{suffix}_interval") or (value, value)
            held += low <= truth <= high
            nr += 1
    return held, nr


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_once(allocsnap, workloads, pairs, kept):
    with tempfile.TemporaryDirectory() as folder:
        paced = Paced(workloads)
        recording = Recording(allocsnap, paced.popen.pid, folder)
        paced.order(f"pace {SECONDS * 500} {pairs} {kept}")
        old, (before, _) = recording.snapshot(), paced.order("ledger")
        paced.order(f"pace {SECONDS * 500} {pairs} {kept}")
        new, (ledger, _) = recording.snapshot(), paced.order("ledger")
        recording.end()
        paced.end()
        shown, _ = ask(allocsnap, "show", new)
        known = shown["metadata"]
        wall = int(known["monotonic_ns"]) - int(known["recording_start_monotonic_ns"])
        gaps, thinned = int(known["gaps_ns"]), int(known["thinned_ns"])
        by = ("--group-by", "function", "--top", "0")
        live = intervals(ask(allocsnap, "stats", new, *by)[0], ledger, before, "")
        diff, status = ask(allocsnap, "diff", old, new, *by)
        growth = intervals(diff, ledger, before, "_diff")
        return {"cost": int(known["cost_ns"]) / wall, "recorded": 1 - gaps / wall,
                "whole": 1 - min(thinned, wall) / wall, "live": live, "growth": growth, "judged": status == 0}


def main():
    allocsnap, workloads = sys.argv[1:3]
    print(f"budget: {PERCENT} % of one core; {ROUNDS} recordings of {SECONDS} s in each row; "
          f"load {os.getloadavg()[0]:.1f} before")
    print(f"{'program':<18}{'pairs/s':>9}{'cost':>8}{'recorded':>10}{'whole':>8}{'live held':>11}{'growth held':>13}"
          f"{'judged':>8}")
    for name, pairs, kept in ROWS:
        runs = [run_once(allocsnap, workloads, pairs, kept) for _ in range(ROUNDS)]

        def mean(key):
            return sum(run[key] for run in runs) / len(runs)

        def held(key):
            return f"{sum(run[key][0] for run in runs)}/{sum(run[key][1] for run in runs)}"

        print(f"{name:<18}{pairs if pairs >= 0 else 'all':>9}{100 * mean('cost'):>6.1f} %"
              f"{100 * mean('recorded'):>8.1f} %"
              f"{100 * mean('whole'):>6.0f} %{held('live'):>11}{held('growth'):>13}"
              f"{sum(run['judged'] for run in runs):>5}/{len(runs)}", flush=True)


if __name__ == "__main__":
    main()
