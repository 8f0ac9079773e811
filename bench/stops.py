#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How long threads stand still while a sampler is put into their process, and while it is taken out.

    stops.py INJECTOR STORM BENCH [OTHER]   OTHER: the injector of another commit; BENCH: a folder for the samples
Each way has a process of its own for each number of threads, and a round asks all of them. "again" is the same injector once
more: what the machine does to a ratio. Environment: BENCH_ROUNDS (41).
"""
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 41
THREADS = (1, 30, 300)
OWN_THREADS = 4  # of storm, beside its crowd


class Way:
    """An injector, and a process for it."""

    def __init__(self, injector, storm, thread_nr, own_library):
        mode = ["crowd", str(thread_nr - OWN_THREADS)] if thread_nr > OWN_THREADS else ["plain"]
        program = storm if thread_nr > OWN_THREADS else storm.with_name("victim_state")
        self.injector = injector
        self.popen = subprocess.Popen([program, *mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                      env=os.environ | {"LD_LIBRARY_PATH": str(own_library)})
        self.popen.stdin.write("\n")
        self.pid = int((re.findall(r" of (\d+)", self.popen.stdout.readline()) or [self.popen.pid])[0])
        while thread_nr > 1 and len(os.listdir(f"/proc/{self.pid}/task")) < thread_nr:
            time.sleep(0.1)

    def stopped_us(self, action):
        said = subprocess.run([self.injector, action, str(self.pid)], env=os.environ | {"TRIES": "200"}, capture_output=True,
                              text=True, check=True).stdout
        return int(re.search(r"^times (\d+) ns", said, re.MULTILINE)[1]) / 1000

    def measure(self, samples, name):
        samples.add(f"{name}, in", self.stopped_us("inject"))
        samples.add(f"{name}, out", self.stopped_us("eject"))

    def end(self):
        self.popen.communicate()


def main():
    rounds.end_in_order()
    injector, storm, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    injectors = {"this": injector, "this again": injector} | ({"other": sys.argv[4]} if len(sys.argv) > 4 else {})
    own_library = peers.copy_libraries(folder / "stops.d")
    samples, wanted, base = rounds.Samples(), rounds.rounds_wanted(ROUNDS), list(injectors)[-1]
    print(f"Threads stand still for: us, medians of {wanted} rounds; quartiles of the rounds' own ratios to {base!r}. "
          f"{rounds.load()}\n")
    for thread_nr in THREADS:
        ways = {f"{thread_nr:>3} threads, {name}": Way(path, storm, thread_nr, own_library) for name, path in injectors.items()}
        try:
            for _ in range(wanted):
                for name, way in ways.items():
                    way.measure(samples, name)
        finally:
            for way in ways.values():
                way.end()
        for action in "in", "out":
            for name in ways:
                quartiles = samples.quartiles(f"{name}, {action}", f"{thread_nr:>3} threads, {base}, {action}")
                text = "   {:.2f} ({:.2f} to {:.2f})".format(*quartiles) if quartiles else ""
                print(f"{name + ', ' + action:<32}{samples.median(f'{name}, {action}'):>9.0f}{text}")
    rounds.save(folder / "stops.json", {"us": samples.of})


if __name__ == "__main__":
    main()
