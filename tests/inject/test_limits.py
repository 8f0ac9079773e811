# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recorder spends little on a process of another user, whatever that maps, forges or shares."""
import os
import re
import subprocess

from bench import ALLOCSNAP, PATIENCE_S, read_text
from harness import check, core

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
LARGE = 64 << 20


def run_counted(*argv):
    """(exit status, stderr, what it and its children have read): bytes and calls."""
    running = subprocess.Popen([ALLOCSNAP, *map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = running.stderr.read()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    counts = dict(re.findall(r"(\w+): (\d+)", read_text("/proc", running.pid, "io")))
    return running.wait(timeout=PATIENCE_S), said, int(counts["rchar"]), int(counts["syscr"])


def hostile(bench, program, *argv):
    process = bench.start(program, *argv, prefix=NOBODY, cwd=bench.folder)
    line = process.popen.stdout.readline()
    assert line == "ready\n", line
    return process


@core
def test_code_that_makes_no_calls(bench):
    """The call gate is looked for in the program and its dynamic linker; other files that it maps cost nothing."""
    with open(os.path.join(bench.folder, "large"), "wb") as file:
        file.truncate(LARGE)
    process = hostile(bench, "no_gate")
    status, said, read_bytes, _ = run_counted("attach", "--inject", "--dry", process.pid)
    assert status == 1 and "makes no system calls in a known way" in said, said
    check(read_bytes < LARGE, f"{read_bytes} bytes were read")
    return f"{read_bytes >> 10} KiB were read"
