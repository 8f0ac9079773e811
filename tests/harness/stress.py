#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How often a test passes on a busy machine.

    stress.py [-n TIMES] [-l LOOPS] COMMAND…

Runs COMMAND TIMES (30) times beside LOOPS (4) processes that compute. A run has passed if its exit status is 0 and, where
it prints its summary "SUITE: N passed, M failed, K skipped", N is not 0 and K is. The exit status is 1 if a run has not.
"""
import argparse
import contextlib
import re
import subprocess
import sys
import time

SUMMARY = re.compile(r"^\w+: (\d+) passed, \d+ failed, (\d+) skipped", re.MULTILINE)
TOLD = re.compile(r"^(?:FAIL|LAW|skip|failed of|make.*\*\*\*).*", re.MULTILINE)


@contextlib.contextmanager
def busy_machine(number):
    """Processes that compute as long as this lasts; they end with us, however we end."""
    loop = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"]
    loops = [subprocess.Popen(loop) for _ in range(number)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def why_failed(command):
    """Empty: the run has passed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    found = SUMMARY.findall(done.stdout)
    if done.returncode == 0 and all(passed != "0" and skipped == "0" for passed, skipped in found):
        return ""
    return "\n".join(TOLD.findall(done.stdout)) or done.stdout[-2000:] or f"exit status {done.returncode}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", dest="times", type=int, default=30)
    parser.add_argument("-l", dest="loops", type=int, default=4)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    begun, passed = time.monotonic(), 0
    with busy_machine(options.loops):
        for turn in range(options.times):
            why = why_failed(options.command)
            passed += not why
            print(f"run {turn + 1}: {why or 'passed'}", flush=True)
    print(f"stress: {passed} of {options.times} passed beside {options.loops} busy loops ({time.monotonic() - begun:.0f} s): "
          + " ".join(options.command))
    return passed != options.times


if __name__ == "__main__":
    sys.exit(main())
