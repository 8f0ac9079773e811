#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""No two functions of src/ and bpf/ have one name, and no two files there: what grep and a backtrace show is one thing.
The files that comments and documents name exist. In docs/architecture.md a file has the symbols that are named with it, and
each room of scripts/arrows has a row."""
import collections
import os
import re
import subprocess
import sys

FUNCTION = re.compile(r"^(?!(?:else|return|struct\s+\w+\s*\{|typedef|#))[A-Za-z_][\w \t*()\",]*?[ *]\**(?!__attribute__)(\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)
# Names that several files must define: struct command has a row `run` in each file of src/cli; headers call functions that
# each of their users defines (unwind_lookup.h, unwind_step.h, books_blocks.h, native_calls.h, next_allocator.h,
# injected_hooks.S); and two libraries are preloaded in front of malloc. A file of STAND_INS stands for others.
REQUIRED = {"run", "main", "unwind_rows__at", "unwind_memory__read", "count_allocation", "count_temporary", "retire_code",
            "own_thread_slot", "find_next_allocator", "early_is_used", "injected_slow",
            "malloc", "calloc", "realloc", "reallocarray", "free", "cfree", "posix_memalign"}
STAND_INS = {"src/cli/reading.c", "src/inject/refused.c"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# A file of ours: its folder is one of ours, or it is a header without a folder. NAME in capitals stands for any name.
FILE = re.compile(r"(?<![\w/.<*-])((?:[a-z_]+/)*)([a-z_0-9]+\.(?:bpf\.[ch]|[ch]|py|sql))\b(?![*(])")
# `symbol`, `symbol()` in `file`
SYMBOLS = re.compile(r"((?:`(?:enum |struct )?\w+(?:\(\))?`(?:, | and )?)+)\s+in\s+`((?:\w+/)+[\w.]+\.[ch])`")
# They only go down.
LIMIT_FUNCTIONS, LIMIT_FILES = 0, 0


def missing_files():
    """"PATH: NAME" for each file that is named and not there."""
    paths = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    ends, folders = set(), set()
    for path in paths:
        parts = path.split("/")
        ends.update("/".join(parts[at:]) for at in range(len(parts)))
        folders.update("/".join(parts[at:-1]) for at in range(len(parts) - 1))
    folders.discard("src")  # examples are called src/cart.c; ours have a room
    for path in paths:
        if not path.startswith(("src/", "bpf/", "include/", "docs/")) or not path.endswith((".c", ".h", ".md")) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        is_page = path.endswith(".md")
        for part in [text] if is_page else COMMENT.findall(STRING.sub("", text)):
            for folder, name in FILE.findall(part):
                is_ours = folder.rstrip("/") in folders if folder else name.endswith(".h") and not is_page
                if is_ours and folder + name not in ends:
                    yield f"{path}: {folder}{name}"


def wrong_in_architecture():
    """"PATH: WHAT" for each symbol that its file lacks, and each room without one row of its own."""
    path = "docs/architecture.md"
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for symbols, name in SYMBOLS.findall(page):
        with open(name, encoding="utf-8") as file:
            words = set(re.findall(r"\w+", file.read()))
        yield from (f"{path}: {symbol} in {name}" for symbol in re.findall(r"(\w+)(?:\(\))?`", symbols) if symbol not in words)
    rows = re.findall(r"`src/([\w/]+?)(?:\.c)?`", "".join(re.findall(r"^\| (`src/.*?) \|", page.split("\n## ")[1], re.MULTILINE)))
    with open("scripts/arrows", encoding="utf-8") as file:
        rooms = re.findall(r"^([\w/]+):", file.read(), re.MULTILINE)
    yield from (f"{path}: one row of src/{room}" for room in rooms if rows.count(room) != 1)


def main():
    functions, files = collections.defaultdict(set), collections.defaultdict(set)
    for path in subprocess.run(["git", "ls-files", "src", "bpf"], capture_output=True, text=True, check=True).stdout.split():
        if not path.endswith((".c", ".h")) or not os.path.isfile(path):
            continue
        # A function of the machine is there once for each; x86-64's stands for all of them.
        if "/arch/" in path and "/arch/x86/" not in path:
            continue
        name = os.path.basename(path)
        files[name].add(path)
        with open(path, encoding="utf-8") as file:
            for found in FUNCTION.finditer("" if path in STAND_INS else file.read()):
                functions[found[1]].add(path)
    twice = {name: paths for name, paths in functions.items() if len(paths) > 1 and name not in REQUIRED}
    files = {name: paths for name, paths in files.items() if len(paths) > 1}
    if "--list" in sys.argv:
        for name, paths in sorted(twice.items()) + sorted(files.items()):
            print(f"{name}: {' '.join(sorted(paths))}")
    print(f"names: {len(functions)} functions; {len(twice)} names in two files or more, of at most {LIMIT_FUNCTIONS}; "
          f"{len(files)} file names twice, of at most {LIMIT_FILES}")
    missing = sorted({*missing_files(), *wrong_in_architecture()})
    for line in missing:
        print(f"names: {line} does not exist", file=sys.stderr)
    return bool(missing) or len(twice) > LIMIT_FUNCTIONS or len(files) > LIMIT_FILES


if __name__ == "__main__":
    sys.exit(main())
