# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our unwind tables beside libdw's, and our stacks of live threads, and those that the kernel's side takes, beside
libdwfl's."""
import collections
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import files
import programs
from harness import check, check_equal, core
from harness.suite import for_each

UNWIND = os.environ["UNWIND"]
ALLOCSNAP = os.path.abspath(os.environ.get("ALLOCSNAP", "./allocsnap"))
STACKS = int(os.environ.get("UNWIND_STACKS") or 300)
SECONDS = 300  # limits only: a program that has shown enough stacks is ended
# Walks by the kernel's side: every 1499th allocation and so on, from which spacing an equal share.
SPACINGS = 1499, 331, 61, 7
WALK_SECONDS = 600  # a limit only
HOW = os.environ.get("UNWIND_HOW") or "auto"
COMPLETE_PERCENT = 95  # of the stacks of a program, at least; the rest are in code without CFI
AT_ONCE = 40  # files to one process
EVERY = os.environ.get("UNWIND_FILES") == "all"


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


@core
def test_files_of_the_machine(_):
    """Where all are asked, some have nothing: fonts of code, debug files, other machines'."""
    paths = list(files.below(files.EVERYWHERE)) if EVERY else files.usual(ALLOCSNAP)
    faults, total, none = [], [0] * 5, 0
    for path, status, *numbers, why in compare_many(paths):
        if EVERY and status in ("none", "error"):
            none += 1
            continue
        total = [a + b for a, b in zip(total, numbers)]
        if status != "same":
            faults.append(f"{path}: {status} {numbers[-1]} {why}")
    rows, addresses, unsupported, no_fp, differences = total
    said = (f"{len(paths) - none} files, {rows} rows, {addresses} addresses: {differences} differences, {unsupported} "
            f"unsupported, {no_fp} without frame pointer; {none} files with nothing")
    check(not faults and rows, "; ".join([said, *faults]))
    return said


@for_each(files.MADE, of_core=files.MADE)
def test_files_made(folder, name):
    (_, status, rows, *_, differences, why), = compare_files([files.make(folder, name)])
    check(status == "same" and rows >= 8, f"{status} {rows} rows {differences} {why}")


# ---- stacks -----------------------------------------------------------------------------------

def fault_of(stacks, complete, same, false_complete, is_complete):
    if stacks < STACKS:
        return f"only {stacks} stacks"
    if same != stacks or false_complete:
        return f"{stacks - same} of {stacks} differ, {false_complete} are not complete"
    if is_complete and complete * 100 < stacks * COMPLETE_PERCENT:
        return f"only {complete} of {stacks} are complete"
    return ""


@for_each(programs.TABLE)
def test_live(folder, name):
    program = programs.TABLE[name]
    with program.work(folder):
        done = subprocess.run([f"{UNWIND}/against_dwfl", str(STACKS), str(SECONDS), *program.command()],
                              cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    *numbers, frames = map(int, done.stdout.split("\t")[:5])
    stacks, complete, same, _ = numbers
    fault = fault_of(*numbers, program.is_complete)
    said = (f"{stacks} stacks, {frames / max(stacks, 1):.1f} frames, {100 * same / max(stacks, 1):.2f} % same, "
            f"{100 * complete / max(stacks, 1):.2f} % complete {' '.join(done.stdout.split()[5:])}")
    check(not fault, f"{fault}: {said}")
    return said


# ---- the kernel -------------------------------------------------------------------------------

WALKED = "stacks", "complete", "limited", "same", "false_complete", "guessed", "frames"


def walk_once(folder, command, stacks, spacing):
    """Counter of one recording: WALKED, and by name the other ends."""
    done = subprocess.run([f"{UNWIND}/against_bpf", f"{UNWIND}/stopper.so", str(stacks),
                           str(spacing), str(WALK_SECONDS), HOW, *command],
                          cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    fields = done.stdout.split()
    check(done.returncode == 0 and len(fields) >= len(WALKED), f"every {spacing}: status {done.returncode}")
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


def walk_line(found):
    def share(key):
        return f"{100 * found[key] / max(found['stacks'], 1):.2f} % {key}"
    ends = [f"{key}={number}" for key, number in found.items() if key not in WALKED and key != "ROOT"]
    return ", ".join([f"{found['stacks']} stacks", f"{found['frames'] / max(found['stacks'], 1):.1f} frames",
                      *map(share, ("same", "complete", "limited", "guessed")),
                      f"{found['false_complete']} false complete", *ends])


@for_each(programs.TABLE)
def test_walk(folder, name):
    """Stacks from the program's begin, and from ever further on."""
    found, program = collections.Counter(), programs.TABLE[name]
    with program.work(folder):
        for left, spacing in zip(range(len(SPACINGS), 0, -1), SPACINGS):
            found += walk_once(folder, program.command(), -(-(STACKS - found["stacks"]) // left), spacing)
    fault = walk_fault_of(found)
    check(not fault, f"{fault}: {walk_line(found)}")
    return walk_line(found)


def test_bpf(_):
    """clang for BPF has made it of the same headers; the verifier must let it pass."""
    done = subprocess.run([f"{UNWIND}/load_bpf", f"{UNWIND}/in_bpf.o"], capture_output=True, text=True, check=False)
    check_equal(done.returncode, 0, f"the verifier: {done.stderr}")
    return f"verified instructions: {done.stdout.strip()}"
