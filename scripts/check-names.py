#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""No two functions of src/ and bpf/ have one name, and no two files there: what grep and a backtrace show is one thing."""
import collections
import os
import re
import subprocess
import sys

FUNCTION = re.compile(r"^(?!(?:else|return|struct\s+\w+\s*\{|typedef|#))[A-Za-z_][\w \t*()\",]*?[ *]\**(?!__attribute__)(\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)
# Names that several files must define: struct command has a row `run` in each file of src/cli, and
# bpf/shared/unwind_lookup.h calls unwind_rows__at(), which the kernel side and user space define each in its own way.
REQUIRED = {"run", "main", "unwind_rows__at"}
# They only go down.
LIMIT_FUNCTIONS, LIMIT_FILES = 0, 0


def main():
    functions, files = collections.defaultdict(set), collections.defaultdict(set)
    for path in subprocess.run(["git", "ls-files", "src", "bpf"], capture_output=True, text=True, check=True).stdout.split():
        if not path.endswith((".c", ".h")) or not os.path.isfile(path):
            continue
        name = os.path.basename(path)
        files[name].add(path)
        with open(path, encoding="utf-8") as file:
            for found in FUNCTION.finditer(file.read()):
                functions[found[1]].add(path)
    twice = {name: paths for name, paths in functions.items() if len(paths) > 1 and name not in REQUIRED}
    files = {name: paths for name, paths in files.items() if len(paths) > 1}
    if "--list" in sys.argv:
        for name, paths in sorted(twice.items()) + sorted(files.items()):
            print(f"{name}: {' '.join(sorted(paths))}")
    print(f"names: {len(functions)} functions; {len(twice)} names in two files or more, of at most {LIMIT_FUNCTIONS}; "
          f"{len(files)} file names twice, of at most {LIMIT_FILES}")
    return len(twice) > LIMIT_FUNCTIONS or len(files) > LIMIT_FILES


if __name__ == "__main__":
    sys.exit(main())
