#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the commands of the cases in cases/*.case in a folder of snapshots and compares what they print.

	ALLOCSNAP=…/allocsnap SNAPSHOTS=DIR tests/golden/run.py [--update] [NAME…]     cases with NAME in their names

A case begins with the line "== NAME". Lines of shell follow, each behind "$ ", then what they must print: stdout, then
stderr below "== err", then "== exit N" if the status is not 0. A new case is only its name and its lines of shell:
--update accepts what they print now.

SNAPSHOTS is the folder that make_snapshots filled. All cases share one copy of it. A file that a case changes, makes
or removes there is put right before the next case, so each of them finds the same folder."""
import difflib
import itertools
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).resolve().parent / "cases"
HEADING = re.compile(rb"^== (?!err$|exit \d+$)(.*)\n", re.MULTILINE)


def cases_of(path):
    """{name: text} of a file. Two cases of one name would be one."""
    nothing, *parts = HEADING.split(path.read_bytes())
    names = [name.decode() for name in parts[::2]]
    if nothing or len(set(names)) < len(names):
        sys.exit(f"golden: {path.name}: it does not begin with a case, or has two of one name")
    return dict(zip(names, parts[1::2]))


def exact(output):
    """A line that could be taken for one of this format has a backslash before it; other bytes are as printed."""
    lines = [b"\\" + line if line.startswith((b"== ", b"$ ", b"\\")) else line for line in output.split(b"\n")]
    lines[-1] = lines[-1] and lines[-1] + b"\n\\ no newline\n"
    return b"\n".join(lines)


def case_text(commands, out, err, status):
    return b"".join(b"$ %s\n" % line for line in commands) + exact(out) + (b"== err\n" + exact(err) if err else b"") + \
        (b"== exit %d\n" % status if status else b"")


def states(folder):
    """The state of each file and folder below it. A later change of one gives another state."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            of = os.lstat(path)
            found[os.path.relpath(path, folder)] = (of.st_mode, of.st_ino) if stat.S_ISDIR(of.st_mode) else \
                (of.st_mode, of.st_ino, of.st_size, of.st_mtime_ns)
    return found


class Shared:
    """A copy of a folder. It has the times of the files that were copied, so that each later change has another one."""

    def __init__(self, origin, folder):
        self.origin, self.folder = origin, folder
        shutil.copytree(origin, folder)
        self.right = states(folder)

    def put_right(self):
        now = states(self.folder)
        if now == self.right:
            return
        for name, state in now.items():
            path = os.path.join(self.folder, name)
            if state == self.right.get(name) or not os.path.lexists(path):
                continue
            if stat.S_ISDIR(state[0]):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        for name, state in self.right.items():
            path = os.path.join(self.folder, name)
            if os.path.lexists(path):
                continue
            if stat.S_ISDIR(state[0]):
                os.mkdir(path, stat.S_IMODE(state[0]))
            else:
                shutil.copy2(os.path.join(self.origin, name), path)
        self.right = states(self.folder)


def run_case(text, work, environment):
    """The case's right text: its commands, and what they print."""
    commands = [line[2:] for line in itertools.takewhile(lambda line: line.startswith(b"$ "), text.split(b"\n"))]
    with open(work / "out", "w+b") as out, open(work / "err", "w+b") as err:
        status = subprocess.run(["sh", "-c", b"\n".join(commands)], cwd=work / "snapshots", env=environment,
                                stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False).returncode
    return case_text(commands, (work / "out").read_bytes(), (work / "err").read_bytes(),
                     status if status >= 0 else 128 - status)


def main(arguments):
    update = arguments[:1] == ["--update"]
    allocsnap = pathlib.Path(os.environ["ALLOCSNAP"])
    environment = os.environ | {"LC_ALL": "C", "PATH": f"{allocsnap.parent}:{os.environ['PATH']}"}
    names = arguments[update:]
    files = {path: cases_of(path) for path in sorted(CASES.glob("*.case"))}
    chosen = [(path, case) for path, cases in files.items() for case in cases
              if not names or any(name in case for name in names)]
    if not chosen:
        sys.exit(f"golden: no case has {' or '.join(names)} in its name")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        shared = Shared(os.environ["SNAPSHOTS"], work / "snapshots")
        for path, case in chosen:
            expected, got = files[path][case], run_case(files[path][case], work, environment)
            shared.put_right()
            if expected == got:
                continue
            if update:
                files[path][case] = got
                path.write_bytes(b"".join(b"== %s\n%s" % (name.encode(), text) for name, text in files[path].items()))
                continue
            failed += 1
            print(f"golden: {case} differs")
            lines = [text.decode(errors="backslashreplace").splitlines(keepends=True) for text in (expected, got)]
            print("".join(difflib.unified_diff(*lines, f"{case} expected", f"{case} got")), end="")
    print(f"golden: {len(chosen) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
