# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CPU time of a Go program for the same work, unrecorded and while attach reads its heap profile and takes a snapshot each second.
Unrecorded, allocsnap is stopped (SIGSTOP): nothing of it is in the program. A round does each piece of work in all ways, in turns;
the first way changes. Page faults, too, and what a reading costs the recorder.

    go.py ALLOCSNAP WORKLOADS      as root

Environment: BENCH_ROUNDS (41).
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import rounds  # pylint: disable=wrong-import-position

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "tests" / "workloads" / "heap.go"
WORK = "churn 100000"
PIECES = 3


class Target:
    """tests/workloads/heap.go: it holds a leak, and takes and frees blocks."""

    def __init__(self, folder):
        environment = os.environ | {"GOCACHE": os.environ.get("GOCACHE", os.path.expanduser("~/.cache/go-build")), "GO111MODULE": "off"}
        subprocess.run(["go", "build", "-o", f"{folder}/heap", str(SOURCE)], check=True, env=environment)
        self.popen = subprocess.Popen([f"{folder}/heap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.popen.stdout.readline()
        for order in ("leak 50000", WORK, "collect"):
            self.order(order)

    def order(self, text):
        self.popen.stdin.write(text.encode() + b"\n")
        self.popen.stdin.flush()
        self.popen.stdout.readline()

    def used(self):
        """CPU seconds and minor faults so far."""
        parts = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        nanoseconds = sum(int(path.read_text(encoding="ascii").split()[0])
                          for path in pathlib.Path(f"/proc/{self.popen.pid}/task").glob("*/schedstat"))
        return nanoseconds / 1e9, int(parts[7])

    def work(self):
        """CPU seconds and minor faults of a piece of work."""
        before = self.used()
        self.order(WORK)
        after = self.used()
        return after[0] - before[0], after[1] - before[1]


class Recorder:
    def __init__(self, allocsnap, pid, folder):
        self.popen = subprocess.Popen([allocsnap, "attach", str(pid), "-o", f"{folder}/out", "--interval", "1s"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.popen.stdout.readline()  # its first snapshot

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        self.popen.communicate()


def main(allocsnap, workloads):
    rounds.end_in_order()
    samples = rounds.Samples()
    with tempfile.TemporaryDirectory(prefix="bench-go.") as folder:
        target = Target(folder)

        recorder = Recorder(allocsnap, target.popen.pid, folder)
        ways = {"unrecorded": signal.SIGSTOP, "recorded": signal.SIGCONT, "unrecorded again": signal.SIGSTOP}
        for round_nr in range(rounds.rounds_wanted(41)):
            sums = {way: [0, 0] for way in ways}
            for piece in range(PIECES):
                first = (round_nr + piece) % len(ways)
                for way in (*list(ways)[first:], *list(ways)[:first]):
                    recorder.popen.send_signal(ways[way])
                    cpu, faults = target.work()
                    sums[way][0] += cpu
                    sums[way][1] += faults
            for way, (cpu, faults) in sums.items():
                samples.add(way, cpu)
                samples.add(way + ", faults", faults)
            if rounds.PROGRESS:
                print(round_nr, sums, flush=True)
        recorder.popen.send_signal(signal.SIGCONT)
        recorder.end()
        nr = 100
        used = os.times()
        subprocess.run([f"{workloads}/read_go", str(target.popen.pid), str(nr)], check=True, stdout=subprocess.DEVNULL)
        reading = (os.times().children_user + os.times().children_system - used.children_user - used.children_system) / nr
        target.popen.kill()
        target.popen.wait()
    print(f"CPU time of {len(samples.values('recorded'))} pairs, {samples.median('unrecorded'):.2f} s each unrecorded:")
    for name in ("recorded", "unrecorded again"):
        middle, low, high = samples.quartiles(name, "unrecorded")
        print(f"  {name:17} {100 * (middle - 1):+.2f} % (quartiles {100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %)")
    print(f"minor faults, medians: {samples.median('unrecorded, faults'):.0f} unrecorded, {samples.median('recorded, faults'):.0f} recorded")
    print(f"a reading takes {reading * 1e3:.2f} ms of CPU")


main(*sys.argv[1:])
