#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our unwind tables beside libdw's, and our stacks of live threads, and those that the kernel's side
takes, beside libdwfl's.

    run.py [files] [live] [bpf] [walk]     only these parts

Environment: UNWIND, the compiled programs; ALLOCSNAP; WORKLOADS; UNWIND_FILES=all, every ELF file
below /usr/bin, /usr/sbin and /usr/lib; UNWIND_STACKS (300), stacks of each program; UNWIND_HOW
(auto), as allocsnap's --unwind.
"""
import collections
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
import files  # pylint: disable=wrong-import-position
import programs  # pylint: disable=wrong-import-position

UNWIND = os.environ.setdefault("UNWIND", os.path.abspath(".output/unwind"))
os.environ.setdefault("WORKLOADS", os.path.abspath(".output/workloads"))
ALLOCSNAP = os.path.abspath(os.environ.get("ALLOCSNAP", "./allocsnap"))
STACKS = int(os.environ.get("UNWIND_STACKS") or 300)
SECONDS = 300  # limits only: a program that has shown enough stacks is ended
# Walks by the kernel's side: every 1499th allocation and so on, from which spacing an equal share.
SPACINGS = 1499, 331, 61, 7
WALK_SECONDS = 120
HOW = os.environ.get("UNWIND_HOW") or "auto"
COMPLETE_PERCENT = 95  # of the stacks of a program, at least; the rest are in code without CFI
AT_ONCE = 40  # files to one process


class Score:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, fault):
        if fault:
            self.failed += 1
            print(f"unwind: {name} failed: {fault}")
        else:
            self.passed += 1

    def skip(self, name, why):
        self.skipped += 1
        print(f"unwind: {name} skipped, because {why}")


# ---- tables -----------------------------------------------------------------------------------

def compare_files(paths):
    """(path, status, rows, addresses, unsupported, no fp, differences, why) of each."""
    done = subprocess.run([f"{UNWIND}/against_libdw", *paths], stdout=subprocess.PIPE, text=True,
                          errors="replace", check=True)
    for line in done.stdout.splitlines():
        status, *numbers, path, why = line.split("\t")
        yield path, status, *map(int, numbers), why


def compare_many(paths):
    groups = [paths[at:at + AT_ONCE] for at in range(0, len(paths), AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(lambda group: list(compare_files(group)), groups):
            yield from rows


def check_machine(score):
    every = os.environ.get("UNWIND_FILES") == "all"
    paths = list(files.below(files.EVERYWHERE)) if every else files.usual(ALLOCSNAP)
    total, none, begun = [0] * 5, 0, time.monotonic()
    for path, status, *numbers, why in compare_many(paths):
        # Where all are asked, some have nothing: fonts of code, debug files, other machines'.
        if every and status in ("none", "error"):
            none += 1
            continue
        total = [a + b for a, b in zip(total, numbers)]
        score.add(path, "" if status == "same" else f"{status} {numbers[-1]} {why}")
    rows, addresses, unsupported, no_fp, differences = total
    print(f"unwind: {len(paths) - none} files, {rows} rows, {addresses} addresses in "
          f"{time.monotonic() - begun:.1f} s: {differences} differences, {unsupported} unsupported, "
          f"{no_fp} without frame pointer; {none} files with nothing")


def check_made(score, folder):
    for name, path in files.make(folder):
        if not path:
            score.skip(name, "it could not be built")
            continue
        (_, status, rows, *_, differences, why), = compare_files([str(path)])
        is_good = status == "same" and rows >= 8
        score.add(name, "" if is_good else f"{status} {rows} rows {differences} {why}")


# ---- stacks -----------------------------------------------------------------------------------

def fault_of(stacks, complete, same, false_complete, is_complete):
    if stacks < STACKS:
        return f"only {stacks} stacks"
    if same != stacks or false_complete:
        return f"{stacks - same} of {stacks} differ, {false_complete} are not complete"
    if is_complete and complete * 100 < stacks * COMPLETE_PERCENT:
        return f"only {complete} of {stacks} are complete"
    return ""


def check_program(score, folder, name, command, busy, is_complete):
    if not programs.is_there(command):
        score.skip(name, f"{command[0]} is not installed")
        return
    with busy(folder):
        done = subprocess.run([f"{UNWIND}/against_dwfl", str(STACKS), str(SECONDS), *command],
                              cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    *numbers, frames = map(int, done.stdout.split("\t")[:5])
    ends = " ".join(done.stdout.split()[5:])
    stacks, complete, same, _ = numbers
    print(f"unwind: {name:13} {stacks:6} stacks {frames / max(stacks, 1):6.1f} frames "
          f"{100 * same / max(stacks, 1):6.2f} % same {100 * complete / max(stacks, 1):6.2f} % complete"
          f"  {ends}")
    score.add(name, fault_of(*numbers, is_complete))


# ---- the kernel -------------------------------------------------------------------------------

WALKED = "stacks", "complete", "limited", "same", "false_complete", "guessed", "frames"


def walk_once(score_name, folder, command, stacks, spacing):
    """Counter of one recording: WALKED, and by name the other ends."""
    done = subprocess.run([f"{UNWIND}/against_bpf", f"{UNWIND}/stopper.so", str(stacks),
                           str(spacing), str(WALK_SECONDS), HOW, *command],
                          cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    fields = done.stdout.split()
    if done.returncode or len(fields) < len(WALKED):
        print(f"unwind: {score_name}, every {spacing}: status {done.returncode}")
        return collections.Counter()
    found = collections.Counter(dict(zip(WALKED, map(int, fields))))
    for field in fields[len(WALKED):]:
        name, number = field.split("=")
        found[name] += int(number)
    return found


def walk_fault_of(found):
    stacks = found["stacks"]
    if stacks < STACKS:
        return f"only {stacks} stacks"
    if found["false_complete"]:
        return f"{found['false_complete']} are not complete and say so"
    if found["same"] * 1000 < stacks * 999:
        return f"{stacks - found['same']} of {stacks} differ"
    if (found["complete"] + found["limited"]) * 100 < stacks * 99:
        return f"only {found['complete']} of {stacks} are complete, {found['limited']} limited"
    return ""


def walk_line(name, found):
    def share(key):
        return f"{100 * found[key] / max(found['stacks'], 1):6.2f} % {key}"
    ends = [f"{key}={number}" for key, number in found.items()
            if key not in WALKED and key != "ROOT"]
    return " ".join([f"unwind: kernel: {name:13} {found['stacks']:6} stacks "
                     f"{found['frames'] / max(found['stacks'], 1):6.1f} frames", share("same"),
                     share("complete"), share("limited"), share("guessed"),
                     f" {found['false_complete']} false complete", *ends])


def walk_program(score, folder, name, command, busy):
    """Stacks from the program's begin, and from ever further on."""
    if not programs.is_there(command):
        score.skip(name, f"{command[0]} is not installed")
        return collections.Counter()
    found = collections.Counter()
    with busy(folder):
        for left, spacing in zip(range(len(SPACINGS), 0, -1), SPACINGS):
            found += walk_once(name, folder, command, -(-(STACKS - found["stacks"]) // left),
                               spacing)
    print(walk_line(name, found))
    score.add(f"{name}, in the kernel", walk_fault_of(found))
    return found


def check_walk(score, folder):
    if os.geteuid():
        score.skip("the kernel's walk", "this is not run as root")
        return
    total = collections.Counter()
    for name, command, busy, _ in programs.table(folder):
        total += walk_program(score, folder, name, command, busy)
    print(walk_line("all", total))


def check_bpf(score):
    """clang for BPF has made it of the same headers; the verifier must let it pass."""
    if os.geteuid():
        score.skip("the verifier", "this is not run as root")
        return
    done = subprocess.run([f"{UNWIND}/load_bpf", f"{UNWIND}/in_bpf.o"], capture_output=True,
                          text=True, check=False)
    print(f"unwind: verified instructions: {done.stdout.strip()}")
    score.add("the verifier", done.stderr if done.returncode else "")


def main():
    parts = sys.argv[1:] or ["files", "live", "bpf", "walk"]
    score = Score()
    with tempfile.TemporaryDirectory() as folder:
        if "files" in parts:
            check_machine(score)
            check_made(score, folder)
        if "bpf" in parts:
            check_bpf(score)
        if "walk" in parts:
            check_walk(score, folder)
        if "live" in parts:
            for program in programs.table(folder):
                check_program(score, folder, *program)
    print(f"unwind: {score.passed} passed, {score.failed} failed, {score.skipped} skipped")
    return 1 if score.failed or not score.passed else 0


if __name__ == "__main__":
    sys.exit(main())
