#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A file that is no whole snapshot is refused: one line that names it, exit 1, in bounded memory.

    run.py [-l] [WORD…]     those whose names contain one of WORD; -l lists them

Environment: ALLOCSNAP, the binary; REPAIR, the compiled repair.c; DAMAGE_AS=0 lifts the limit on
the address space (a sanitizer needs more).
"""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
from snapfile import HEADER, with_header  # pylint: disable=wrong-import-position

ALLOCSNAP = os.path.abspath(os.environ.get("ALLOCSNAP", "./allocsnap"))
REPAIR = os.path.abspath(os.environ.get("REPAIR", ".output/damage/repair"))
LIMITED = os.environ.get("DAMAGE_AS") != "0"
BESIDES = 256 << 20  # bytes of address space, beside the file itself
SECONDS = 10  # of CPU time
COMMANDS = {
    "stats": ["stats", "{}"],
    "show": ["show", "{}"],
    "diff": ["diff", "{}", "good.snap"],
    "diff-new": ["diff", "good.snap", "{}"],
    "convert": ["convert", "{}", "-o", "made.snap"],
    "symbolize": ["symbolize", "{}", "-o", "made.snap", "--root", "."],
}


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


class Run:
    """Runs one command on one file; returns the fault of its end, or ""."""

    def __init__(self, command, path, prefix=()):
        self.argv = [*prefix, ALLOCSNAP, *(word.format(path) for word in COMMANDS[command])]
        self.path = path

    def go(self):
        pathlib.Path("made.snap").unlink(missing_ok=True)
        return subprocess.run(self.argv, stdin=subprocess.DEVNULL, capture_output=True,
                              preexec_fn=limit_cpu, timeout=60 * SECONDS, check=False)

    def fault(self):
        try:
            done = self.go()
        except subprocess.TimeoutExpired:
            return f"not done after {60 * SECONDS} s"
        err = done.stderr.decode(errors="backslashreplace")
        if done.returncode != 1:
            return f"exit {done.returncode}: {err!r}"
        if done.stdout:
            return f"stdout: {done.stdout[:80]!r}"
        if err.count("\n") != 1 or not err.startswith("allocsnap: ") or not err.endswith("\n"):
            return f"not one line: {err!r}"
        if self.path not in err:
            return f"does not name the file: {err!r}"
        return "a file was written" if os.path.exists("made.snap") else ""


@contextlib.contextmanager
def address_space(size):
    """The children's limit; our own stays below it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if LIMITED:
        resource.setrlimit(resource.RLIMIT_AS, (size + BESIDES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Verdicts:
    def __init__(self, words):
        self.words = words
        self.passed = self.failed = self.skipped = 0

    def wants(self, name):
        return not self.words or any(word in name for word in self.words)

    def add(self, name, fault):
        if fault:
            self.failed += 1
            print(f"FAIL {name}: {fault}", flush=True)
        else:
            self.passed += 1

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip {name}: because {why}", flush=True)


# ---- files ------------------------------------------------------------------------------------

def repair(paths):
    for at in range(0, len(paths), 500):
        subprocess.run([REPAIR, *paths[at:at + 500]], check=True)


def write_good():
    for name, data in cases.good_files():
        pathlib.Path(f"good-{name}.snap").write_bytes(data)
    paths = [f"good-{name}.snap" for name, _ in cases.good_files()]
    repair(paths)
    shutil.copy(paths[0], "good.snap")
    return paths


def read_good(verdicts, paths):
    """Under the same limits the whole files are read."""
    for path in paths:
        for command in COMMANDS:
            name = f"{command}: {path}"
            if not verdicts.wants(name):
                continue
            with address_space(os.path.getsize(path)):
                done = Run(command, path).go()
            verdicts.add(name, "" if done.returncode == 0 else f"refused: {done.stderr!r}")


def refuse_files(verdicts):
    """Every snapshot by one command, in turns; JSON by the one that reads it."""
    wanted, repaired = [], []
    turns = ((list(COMMANDS)[number % len(COMMANDS)], case)
             for number, case in enumerate(cases.all_files()))
    imports = (("convert", case) for case in cases.bad_json())
    for number, (command, (name, data, is_repaired)) in enumerate([*turns, *imports]):
        if not verdicts.wants(f"{command}: {name}"):
            continue
        path = f"case-{number}.snap"
        pathlib.Path(path).write_bytes(data)
        wanted.append((name, command, path))
        if is_repaired:
            repaired.append(path)
    repair(repaired)
    with address_space(0):
        for name, command, path in wanted:
            verdicts.add(f"{command}: {name}", Run(command, path).fault())


# ---- files of other kinds ---------------------------------------------------------------------

def sparse(path, size, data):
    pathlib.Path(path).write_bytes(data)
    os.truncate(path, size)


def make_places(good):
    """(path, size that counts, words before the command, which commands)"""
    tebibyte = 1 << 40
    every = list(COMMANDS)
    no_import = [name for name in every if name != "convert"]  # it reads JSON, and waits for pipes
    pathlib.Path("empty").write_bytes(b"")
    pathlib.Path("directory").mkdir()
    os.mkfifo("fifo")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    pathlib.Path("a.json").write_text(json.dumps(
        {"traceback_limit": 1, "traces": [[0, 1, [["a.py", 1]], 1]]}), encoding="utf-8")
    pathlib.Path("text").write_text("hello\n", encoding="utf-8")
    pathlib.Path("secret").write_bytes(good)
    os.chmod("secret", 0)
    for path in ("empty", "directory", "loop", "dangling", "text", "nothing",
                 "good.snap/below", "/dev/zero", "/dev/null", "/proc/self/mem"):
        yield path, 0, (), every
    for path in ("a.json", "fifo"):
        yield path, 0, (), no_import
    sparse("zeros", tebibyte, b"")
    sparse("tebibyte", tebibyte, with_header(good, "file_size", tebibyte))
    sparse("tebibyte-sections", tebibyte, with_header(
        with_header(good[:HEADER.size], "file_size", tebibyte), "section_nr", (1 << 32) - 1))
    sparse("gibibytes", 3 << 30, with_header(good, "file_size", 3 << 30))
    for path in ("zeros", "tebibyte", "tebibyte-sections"):
        yield path, tebibyte, (), every
    yield "gibibytes", 3 << 30, (), ["stats"]
    yield "zeros", 0, (), every
    yield "tebibyte", 0, (), every
    yield "secret", 0, ("setpriv", "--bounding-set=-all"), every


def refuse_places(verdicts, good):
    for path, size, prefix, commands in make_places(good):
        for command in commands:
            name = f"{command}: {path}{' without capabilities' if prefix else ''}"
            if not verdicts.wants(name):
                continue
            if prefix and not shutil.which(prefix[0]):
                verdicts.skip(name, f"{prefix[0]} is not installed")
                continue
            with address_space(size):
                verdicts.add(name, Run(command, path, prefix).fault())


def main():
    words = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    if "-l" in sys.argv:
        print(*(name for name, _, _ in cases.all_files()), sep="\n")
        return 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    verdicts = Verdicts(words)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        paths = write_good()
        read_good(verdicts, paths)
        refuse_files(verdicts)
        refuse_places(verdicts, pathlib.Path(paths[0]).read_bytes())
        os.chdir("/")
    skipped = f", {verdicts.skipped} skipped" if verdicts.skipped else ""
    print(f"damage: {verdicts.passed} passed, {verdicts.failed} failed{skipped}")
    return 1 if verdicts.failed or not verdicts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
