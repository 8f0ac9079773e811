# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Python program that runs source code: each line is a literal of it. It answers "done"."""
import sys


def keep(kept, number, size=5000):
    kept.extend(bytes(size) for _ in range(number))


def main():
    space = {"keep": keep, "kept": []}
    print("ready", flush=True)
    for line in sys.stdin:
        exec(compile(eval(line), "<told>", "exec"), space)
        print("done", flush=True)


main()
