#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Deliberate mistakes in how CPython is recorded. At least two tests must notice each: unit tests of CPython's facts and
of the kernel side, then live tests that compare with tracemalloc. As root; builds in a copy of the tree.

    python_mutants.py OUT [NAME…]   the folder of what was built; only mutants whose names contain one of these
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WANTED = 2
LIVE = ("blocks_are_exactly", "blocks_are_those_of_its_own", "blocks_are_those_of_a_tracemalloc", "blocks_behind")
FAILED = re.compile(r"^(?:\[FAIL\] (\S+): |(?:FAIL|LAW) (\w+))", re.MULTILINE)

# name: (file, old text, new text)
MUTANTS = {
    "an offset is shifted": (
        "src/elf/python/python_offsets.c", ".code_mask = -1ull, .tstate_frame = 56, .cframe_frame = 8,",
        ".code_mask = -1ull, .tstate_frame = 64, .cframe_frame = 8,"),
    "an offset of lines is shifted": (
        "src/elf/python/python_offsets.c", ".code_instructions = 184", ".code_instructions = 186"),
    "the flag is not asked": (
        "bpf/python/python_calls.bpf.h", "(!python_calls[row].asks_zf || ctx->flags & FLAG_ZF)", "true"),
    "a place in eight is left out": (
        "src/collect/python/python_places.c", "if (shape_of_operation(info->site[i].operation) == shape)",
        "if (shape_of_operation(info->site[i].operation) == shape && (info->site[i].is_entry || i % 8))"),
    "size and pointer are swapped": (  # a calloc's count and size may be, without harm
        "bpf/python/python_calls.bpf.h",
        "argument_value(ctx, &call->size, &ret->size) || argument_value(ctx, &call->pointer, &ret->pointer)",
        "argument_value(ctx, &call->pointer, &ret->size) || argument_value(ctx, &call->size, &ret->pointer)"),
    "code that was freed keeps its number": (
        "bpf/python/frames.bpf.h", "\terr = bpf_map_delete_elem(&python_codes, &key);", "\terr = -1;"),
    "debug hooks ask for no more": (
        "bpf/python/python_calls.bpf.h", "__u64 bytes = size + python->hook_bytes, address;", "__u64 bytes = size, address;"),
}


def failed_tests(folder, argv, **environment):
    """The names of the tests that fail."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=2400,
                          env=dict(os.environ, **environment))
    return {name for pair in FAILED.findall(done.stdout + done.stderr) for name in pair if name}


def noticed(folder, out):
    """The names of tests that notice: of all unit tests, and if these are not enough, of the live ones."""
    make = subprocess.run(["make", "-j2", "allocsnap", f"{out}/unit", f"{out}/unit-bpf"], cwd=folder,
                          capture_output=True, text=True, check=False)
    if make.returncode:
        sys.exit(f"a mutant does not compile: {make.stderr[-500:]}")
    found = failed_tests(folder, [f"{out}/unit", "--filter", "python_*/*"])
    found |= failed_tests(folder, [f"{out}/unit-bpf", "--filter", "python*/*"], FAKE_SESSION="1")
    if len(found) < WANTED:
        found |= failed_tests(folder, ["tests/live/run.py", *LIVE], ALLOCSNAP=f"{folder}/allocsnap",
                              WORKLOADS=f"{ROOT}/{out}/workloads")
    return found


def main():
    out, names = os.path.relpath(sys.argv[1], ROOT), sys.argv[2:]
    failed, chosen = 0, [name for name in MUTANTS if not names or any(word in name for word in names)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT, f"{folder}/tree", symlinks=True, ignore=shutil.ignore_patterns(".git", "workloads", "pythons"))
        shutil.copytree(ROOT / "tests/workloads", f"{folder}/tree/tests/workloads", symlinks=True)
        for name in chosen:
            file, old, new = MUTANTS[name]
            path = pathlib.Path(folder, "tree", file)
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
            by = sorted(noticed(f"{folder}/tree", out)) if old in text else []
            path.write_text(text, encoding="utf-8")
            failed += len(by) < WANTED
            print(f"{'ok' if len(by) >= WANTED else 'mutant'}: {name}: noticed by {len(by)}: {' '.join(by[:6])}", flush=True)
    print(f"python-mutants: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
