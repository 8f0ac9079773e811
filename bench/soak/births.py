# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""births.py RATE AT_ONCE PROGRAM…: starts RATE processes a second, until its stdin ends; it waits for all.

Each PROGRAM is one command line in one word; they take turns. At most AT_ONCE processes run at a time, so a slow
machine gets fewer. At the end it prints in JSON how often each has run, how many have failed, and how the first
of them failed.
"""
import json
import os
import select
import sys
import time

FAILURES_MAX = 5


class Births:
    def __init__(self, programs):
        self.programs = [text.split() for text in programs]
        self.counts = [0] * len(programs)
        self.living = {}
        self.failed, self.failures = 0, []

    def start(self):
        which = sum(self.counts) % len(self.programs)
        argv = self.programs[which]
        pid = os.posix_spawn(argv[0], argv, os.environ)
        self.living[pid] = " ".join(argv)
        self.counts[which] += 1

    def wait(self, most):
        """Waits until fewer than that many run."""
        while self.living:
            pid, status = os.waitpid(-1, 0 if len(self.living) > most else os.WNOHANG)
            if not pid:
                return
            program = self.living.pop(pid)
            if status:
                self.failed += 1
                self.failures += [f"{program}: {os.waitstatus_to_exitcode(status)}"] * (self.failed <= FAILURES_MAX)

    def say(self):
        print(json.dumps({"counts": self.counts, "failed": self.failed, "failures": self.failures}), flush=True)


def main():
    rate, at_once, births = float(sys.argv[1]), int(sys.argv[2]), Births(sys.argv[3:])
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0, due - time.monotonic()))[0]:
        births.start()
        due = max(due + 1 / rate, time.monotonic() - 2)
        births.wait(at_once - 1)
    births.wait(0)
    births.say()


if __name__ == "__main__":
    main()
