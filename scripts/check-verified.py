#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""check-verified.py ALLOCSNAP: how many instructions the kernel verifies at the start of each kind of recording.

They are most of the CPU time of a start. Fails if a kind is above its limit; a commit that raises one says what that buys.
Needs root, and a
kernel with uprobe sessions: others verify other programs.
"""
import os
import re
import subprocess
import sys
import tempfile

KERNEL = (6, 13)
LOWER_BELOW = 0.85  # of the limit: then it has to go down

CAT = ("cat",)
PYTHON = (sys.executable, "-c", "import sys; sys.stdin.read()")
# kind, program that is recorded, command, limit
KINDS = (
    ("attach", CAT, ("attach", "{pid}"), 31_000),
    ("attach, Python", PYTHON, ("attach", "{pid}", "--domain", "python"), 108_000),
    ("attach --domain malloc,mmap", CAT, ("attach", "{pid}", "--domain", "malloc,mmap"), 43_000),
    ("attach --max-overhead 5", CAT, ("attach", "{pid}", "--max-overhead", "5"), 28_500),
    ("record", CAT, ("record", "--comm", "none-of-this-name"), 134_000),
)


class NotMeasured(Exception):
    pass


def verified_by(pid):
    """The instructions of all programs that a process holds."""
    programs = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as file:
                facts = dict(line.split(":", 1) for line in file if ":" in line)
        except FileNotFoundError:
            continue
        if "verified_insns" in facts:
            programs[int(facts["prog_id"])] = int(facts["verified_insns"])
    return sum(programs.values())


def measure(allocsnap, program, command, folder):
    """Counts at the first line of output, a snapshot's path or the number of processes: all is loaded then."""
    with subprocess.Popen(program, stdin=subprocess.PIPE) as target:
        argv = [allocsnap, *(word.format(pid=target.pid) for word in command), "-o", folder, "-i", "200ms"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "ALLOCSNAP_NO_BEFOREHAND": "1"}) as recorder:
            line = recorder.stdout.readline()
            verified = verified_by(recorder.pid) if line else 0
            recorder.terminate()
            why = recorder.communicate()[1].strip()
        target.stdin.close()
    if not line and "does not take the BPF programs" in why:
        sys.exit(why)
    if not verified:
        raise NotMeasured(why.splitlines()[0] if why else "this kernel does not tell the number")
    return verified


def report(allocsnap):
    if os.geteuid():
        raise NotMeasured("this is not root")
    release = os.uname().release
    if tuple(map(int, re.match(r"(\d+)\.(\d+)", release).groups())) < KERNEL:
        raise NotMeasured(f"the limits are for kernels with uprobe sessions, and this is {release}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, program, command, limit in KINDS:
            verified = measure(allocsnap, program, command, folder)
            note = " is above its limit" if verified > limit else \
                   f" is well below: lower its limit in {sys.argv[0]}" if verified < LOWER_BELOW * limit else ""
            print(f"{verified:7d} {kind} (limit {limit}){note}")
            failed |= verified > limit
    return failed


def main():
    print("instructions that the kernel verifies for a recording")
    try:
        return report(os.path.abspath(sys.argv[1]))
    except NotMeasured as why:
        print(f"not measured, because {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
