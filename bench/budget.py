#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures what a budget allows, what it costs, and whether sums stay true.

usage: budget.py ALLOCSNAP WORKLOADS

A program with a ledger of its own (tests/workloads/paced.c) makes pairs of malloc and free at a given rate, and keeps
blocks of three places. Each row is one rate of pairs, recorded several times with a budget: what was allowed, what the
recording took (by the snapshot, and by the CPU time of the same work unrecorded), which part of the time was recorded
at all and which with every block, and how many of the sums of the three places (blocks and bytes, of live blocks and of
what two snapshots differ by) hold the ledger's numbers in their 95 % intervals. A recording that paused gives none.

Then come groups of processes that `record` selects by --comm, one row for each kind of process in them: quiet ones
beside a busy one, a burst, redis-server under redis-benchmark, and 20 mixed ones for three minutes. `leaks` must name
the places that keep blocks, or say that it cannot be judged.

BENCH_ROUNDS: recordings of each row; BENCH_ROWS=single,quiet,burst,redis,mixed: some of the rows.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PERCENT = 10
SECONDS = 6
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
ROWS = (  # name, pairs a second, kept blocks a second of each place
    ("quiet", 500, 100), ("light", 15000, 300), ("medium", 38000, 300), ("heavy", 120000, 300),
    ("full speed", -1, 300))


class Paced:
    def __init__(self, program):
        # Each in a session of its own, as services are. Linux 6.18 was seen to run the twenty processes of one session's
        # scheduling group (autogroup) alone for up to a minute: kernel threads and the recorder waited meanwhile.
        self.popen = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      start_new_session=True)
        self.line()

    def line(self):
        return json.loads(self.popen.stdout.readline())

    def begin(self, command):
        self.popen.stdin.write(command + "\n")
        self.popen.stdin.flush()

    def order(self, command):
        self.begin(command)
        return self.answers()

    def answers(self):
        answers = [self.line()]
        while "done" not in answers[-1]:
            answers.append(self.line())
        return answers[:-1], answers[-1]["done"]

    def end(self):
        self.popen.stdin.close()
        self.popen.wait()


class Recording:
    def __init__(self, allocsnap, folder, *args, interval="1h"):
        self.allocsnap, self.folder = allocsnap, folder
        self.popen = subprocess.Popen([allocsnap, *args, "--max-overhead", str(PERCENT), "-i", interval, "-o", folder],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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


def intervals(statistics, ledger, before, suffix, has_gaps):
    """
    Counts the intervals of blocks and bytes of each place that hold the ledger's numbers, and all of them. A recording
    with gaps must not give any.
    """
    rows = {row["key"]: row for row in statistics["statistics"]}
    held = nr = 0
    if has_gaps:
        if any(name.endswith("_interval") for row in rows.values() for name in row):
            raise SystemExit("budget.py: a recording with gaps gives intervals")
        return 0, 0
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
        paced = Paced(os.path.join(workloads, "paced"))
        recording = Recording(allocsnap, folder, "attach", str(paced.popen.pid))
        paced.order(f"pace {SECONDS * 500} {pairs} {kept}")
        old, (before, _) = recording.snapshot(), paced.order("ledger")
        paced.order(f"pace {SECONDS * 500} {pairs} {kept}")
        new, (ledger, _) = recording.snapshot(), paced.order("ledger")
        recording.end()
        paced.end()
        return compare(allocsnap, old, new, before, ledger)


def compare(allocsnap, old, new, before, ledger):
    """Reads what a recording took and had, and whether its sums are the ledger's; without a ledger only the former."""
    known = ask(allocsnap, "show", new)[0]["metadata"]
    wall = int(known["monotonic_ns"]) - int(known["recording_start_monotonic_ns"])
    gaps, thinned = int(known["gaps_ns"]), int(known["thinned_ns"])
    by = ("--group-by", "function", "--top", "0")
    live = intervals(ask(allocsnap, "stats", new, *by)[0], ledger, before, "", gaps)
    diff, status = ask(allocsnap, "diff", old, new, *by)
    growth = intervals(diff, ledger, before, "_diff", gaps)
    return {"cost": int(known["cost_ns"]) / wall, "recorded": 1 - gaps / wall, "whole": 1 - min(thinned, wall) / wall,
            "live": live, "growth": growth, "judged": status == 0}


# ---- groups of processes, selected by name ----

GROUPS = (  # name, seconds; (kind, how many, orders: seconds, pairs a second, kept blocks a second)
    ("quiet", 20, (("4 quiet, leaking", 4, ((20, 1000, 100),)), ("1 busy beside", 1, ((20, -1, 10),)))),
    ("burst", 20, (("burst, then idle", 1, ((5, -1, 10), (15, 200, 100))), ("1 quiet beside", 1, ((20, 1000, 100),)))),
    ("mixed", 180, (("14 quiet of 20", 14, ((180, 500, 50),)), ("4 light", 4, ((180, 15000, 50),)),
                    ("2 busy", 2, ((180, -1, 10),)))),
)
PLACES = ("keep_small", "keep_medium", "keep_grown")


def leaks_are_right(allocsnap, folder):
    """Whether all leaks that are named are planted, and there is one; or it cannot be judged."""
    report, status = ask(allocsnap, "leaks", folder)
    named = [json.dumps(line["traceback"]) for leak in report["leaks"] for line in leak["lines"]]
    return status == 3 or bool(named) and all(any(place in line for place in PLACES) for line in named)


class Member:
    def __init__(self, program, kind, orders):
        self.paced, self.kind, self.orders = Paced(program), kind, list(orders)
        self.before = self.ledger = ()

    def snapshot_since(self, recording, time_ns):
        """Waits for a snapshot from after this time: a pass writes one process after the other."""
        for _ in range(600):
            path = max(glob.glob(f"{recording.folder}/*/*.{self.paced.popen.pid}/*.snap"), default=None)
            if path and int(ask(recording.allocsnap, "show", path)[0]["metadata"]["monotonic_ns"]) > time_ns:
                return path
            time.sleep(0.1)
        raise SystemExit(f"budget.py: there is no snapshot of PID {self.paced.popen.pid}")


def run_members(members, seconds):
    """Gives all of them their orders; each is done with all orders after so many seconds."""
    for member in members:
        for ms, pairs, kept in member.orders:
            member.paced.begin(f"pace {ms * 1000} {pairs} {kept}")
    time.sleep(seconds)
    for member in members:
        for _ in member.orders:
            member.paced.answers()


def run_group(allocsnap, workloads, seconds, kinds):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "grouped")
        shutil.copy(os.path.join(workloads, "paced"), program)
        members = [Member(program, kind, orders) for kind, nr, orders in kinds for _ in range(nr)]
        recording = Recording(allocsnap, os.path.join(folder, "out"), "record", "--comm", "grouped",
                              interval=f"{seconds // 4}s")
        old = {member: member.snapshot_since(recording, 0) for member in members}
        for member in members:
            member.before = member.paced.order("ledger")[0]
        run_members(members, seconds)
        ended_ns = time.monotonic_ns()
        recording.snapshot()
        results = []
        for member in members:
            new = member.snapshot_since(recording, ended_ns)
            result = compare(allocsnap, old[member], new, member.before, member.paced.order("ledger")[0])
            results.append((member.kind, result))
        recording.end()
        for member, (_, result) in zip(members, results):
            result["leaks"] = leaks_are_right(allocsnap, os.path.dirname(old[member]))
            member.paced.end()
        return results


def run_redis(allocsnap):
    """redis-server under load for some seconds; it has no ledger."""
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "socket")
        with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
                              stdout=subprocess.DEVNULL) as server:
            recording = Recording(allocsnap, os.path.join(folder, "out"), "record", "--pid", str(server.pid))
            old = max(recording.paths())
            end = time.monotonic() + 15
            while time.monotonic() < end:
                subprocess.run(["redis-benchmark", "-s", socket, "-t", "set", "-n", "50000", "-r", "100000", "-d", "200",
                                "-q"], check=True, stdout=subprocess.DEVNULL)
            result = compare(allocsnap, old, recording.snapshot(), (), ())
            recording.end()
            server.terminate()
    return result


# ---- rows ----

def print_row(name, pairs, runs):
    def mean(key):
        return sum(run[key] for run in runs) / len(runs)

    def held(key):
        nr = sum(run[key][1] for run in runs)
        return f"{sum(run[key][0] for run in runs)}/{nr}" if nr else "none"

    def of_all(key):
        return f"{sum(run[key] for run in runs)}/{len(runs)}" if key in runs[0] else ""

    print(f"{name:<18}{pairs:>9}{100 * mean('cost'):>6.1f} %{100 * mean('recorded'):>8.1f} %"
          f"{100 * mean('whole'):>6.0f} %{held('live'):>11}{held('growth'):>13}{of_all('judged'):>8}"
          f"{of_all('leaks'):>8}", flush=True)


def main():
    allocsnap, workloads = sys.argv[1:3]
    rows = os.environ.get("BENCH_ROWS", "single,quiet,burst,redis,mixed").split(",")
    print(f"budget: {PERCENT} %; {ROUNDS} recordings of {SECONDS} s in each row; "
          f"load {os.getloadavg()[0]:.1f} before")
    print(f"{'program':<18}{'pairs/s':>9}{'cost':>8}{'recorded':>10}{'whole':>8}{'live held':>11}{'growth held':>13}"
          f"{'judged':>8}{'leaks':>8}")
    for name, pairs, kept in ROWS if "single" in rows else ():
        print_row(name, pairs if pairs >= 0 else "all",
                  [run_once(allocsnap, workloads, pairs, kept) for _ in range(ROUNDS)])
    for group, seconds, kinds in GROUPS:
        if group not in rows:
            continue
        results = [result for _ in range(1 if seconds > 60 else ROUNDS)
                   for result in run_group(allocsnap, workloads, seconds, kinds)]
        for kind, _, orders in kinds:
            print_row(kind, orders[0][1] if orders[0][1] >= 0 else "all",
                      [result for of, result in results if of == kind])
    if "redis" in rows:
        print_row("redis-server", "", [run_redis(allocsnap) for _ in range(ROUNDS)])


if __name__ == "__main__":
    main()
