# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""births.py RATE PROGRAM…: starts RATE processes a second, until its stdin ends; it waits for all.

Each PROGRAM is one command line in one word; they take turns. At the end it says how often each has run, in JSON.
"""
import json
import os
import select
import sys
import time

AT_ONCE = 30  # a machine that cannot keep up gets no more


def main():
    rate, programs = float(sys.argv[1]), [text.split() for text in sys.argv[2:]]
    counts, failed, living = [0] * len(programs), 0, 0
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0, due - time.monotonic()))[0]:
        which = sum(counts) % len(programs)
        os.posix_spawn(programs[which][0], programs[which], os.environ)
        counts[which] += 1
        living += 1
        due = max(due + 1 / rate, time.monotonic() - 2)
        while living:
            pid, status = os.waitpid(-1, 0 if living >= AT_ONCE else os.WNOHANG)
            if not pid:
                break
            living -= 1
            failed += status != 0
    while living:
        failed += os.wait()[1] != 0
        living -= 1
    print(json.dumps({"counts": counts, "failed": failed}), flush=True)


if __name__ == "__main__":
    main()
