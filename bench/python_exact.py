# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CPU time of five Python programs: unrecorded, unrecorded again, recorded by `attach --inject=exact`, by tracemalloc with
1 and 25 frames, and by probes (`attach --domain python`, a tenth of the work, in the first rounds only).

    python_exact.py ALLOCSNAP [PYTHON]      as root

In turns; ratios are medians of the rounds' own ratios, with quartiles. Environment: BENCH_ROUNDS (9).
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
from python_work import WORKS  # pylint: disable=wrong-import-position
from rounds import Samples, end_in_order, in_turns, load, rounds_wanted  # pylint: disable=wrong-import-position

PART = 10  # of the work, by probes
PROBED_ROUNDS = 2


def catches(pid, signo):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.M)[1], 16) >> (signo - 1) & 1


class Bench:
    def __init__(self, allocsnap, python="/usr/bin/python3"):
        self.allocsnap, self.python, self.blocks = allocsnap, python, {}

    def measure(self, work, frames=(), attach=(), part=1):
        """CPU ns of all the work."""
        argv = [self.python, f"{HERE}/python_work.py", work, str(WORKS[work][1] // part), *map(str, frames)]
        with tempfile.TemporaryDirectory() as folder, \
             subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONHASHSEED": "0"}) as program:
            assert program.stdout.readline() == "ready\n", argv
            recorder = self.attach(program.pid, folder, attach) if attach else None
            taken = self.do_work(program)
            if recorder:
                self.end(work, recorder, part)
            program.stdin.close()
        return taken * part

    @staticmethod
    def do_work(program):
        program.stdin.write("\n")
        program.stdin.flush()
        return int(program.stdout.readline())

    def attach(self, pid, folder, options):
        """The recorder, once it has written a first snapshot: then it records."""
        argv = [self.allocsnap, "attach", str(pid), "-i", "1h", "-o", folder, *options]
        recorder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # pylint: disable=consider-using-with
        while recorder.poll() is None and not catches(recorder.pid, signal.SIGUSR1):
            time.sleep(0.01)
        recorder.send_signal(signal.SIGUSR1)
        assert recorder.stdout.readline(), argv
        return recorder

    def end(self, work, recorder, part):
        recorder.terminate()
        last = recorder.communicate()[0].split()[-1]
        shown = subprocess.run([self.allocsnap, "show", last], check=True, stdout=subprocess.PIPE, text=True).stdout
        blocks = next(int(line.split()[1]) for line in shown.splitlines() if line.startswith("  allocations "))
        self.blocks[work] = blocks if part == 1 else self.blocks.get(work, blocks * part)


def row(found, work, way):
    value, of = (work, way), found.quartiles((work, way), (work, "unrecorded"))
    ratio = found.ratio(value, (work, "unrecorded"))
    return f"{ratio:6.2f}" + (f" ({of[1]:.2f} … {of[2]:.2f})" if of else "")


def main():
    end_in_order()
    bench, found = Bench(*sys.argv[1:3]), Samples()
    ways = {
        "unrecorded": {}, "unrecorded again": {}, "exact": {"attach": ["--inject=exact"]}, "tracemalloc(1)": {"frames": [1]},
        "tracemalloc(25)": {"frames": [25]}, "by probes": {"attach": ["--domain", "python"], "part": PART},
    }

    def taker(work, way):
        return lambda nr: None if way == "by probes" and nr >= PROBED_ROUNDS else bench.measure(work, **ways[way])

    in_turns(found, {(work, way): taker(work, way) for work in WORKS for way in ways}, rounds_wanted(9))
    print(f"{load()}; times the CPU time unrecorded")
    for work in WORKS:
        unrecorded = found.median((work, "unrecorded"))
        print(f"{work}: {unrecorded / 1e6:.0f} ms, {bench.blocks[work]} blocks")
        for way in list(ways)[1:]:
            more = (found.median((work, way)) - unrecorded) / bench.blocks[work]
            print(f"  {way:<17} {row(found, work, way)}, {more:.0f} ns a block")
    most = max(found.ratio((work, "exact"), (work, "unrecorded")) for work in WORKS)
    is_below = all(found.ratio((work, "exact"), (work, "tracemalloc(1)")) < 1 for work in WORKS)
    print(f"aim: at most 1.8 times ({'yes' if most <= 1.8 else 'NO'}: {most:.2f}), and below tracemalloc(1) in each "
          f"({'yes' if is_below else 'NO'})")


if __name__ == "__main__":
    main()
