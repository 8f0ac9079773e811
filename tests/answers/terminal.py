# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A terminal in which a task types the commands of a user, and what the answers say."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import harness
from harness import check, check_equal

PLANTED = pathlib.Path(__file__).parent / "planted"
ANSWERS = os.environ.get("ANSWERS", ".output/answers")
FOR = int(os.environ.get("ANSWERS_SECONDS", "20"))  # how long a program is recorded
COLUMNS = 160
UNJUDGED = 3  # the status of `leaks` without a verdict


class Answer:
    """The output of a command."""

    def __init__(self, stdout, stderr, status):
        self.stdout, self.stderr, self.status = stdout, stderr, status

    def lines(self):
        return self.stdout.splitlines()


class Terminal:
    """Runs command lines in the folder of a bench, and prints each with its seconds and the first lines it wrote."""

    def __init__(self, bench):
        self.bench = bench
        self.typed = []
        self.seconds = 0.0
        self.own = bench.path("bin")
        os.mkdir(self.own)
        os.symlink(os.path.abspath(harness.ALLOCSNAP), os.path.join(self.own, "allocsnap"))
        self.environment = dict(os.environ, PATH=f"{self.own}:{harness.PATH}", COLUMNS=str(COLUMNS), LC_ALL="C.UTF-8")

    def type(self, command, status=0, shown=6, seconds=120):
        """Runs a command line to its end; fails if its exit status is another one."""
        begun = time.monotonic()
        shell = subprocess.Popen(["bash", "-c", command], cwd=self.bench.folder, env=self.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True)
        try:
            stdout, stderr = shell.communicate(timeout=seconds)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        took = time.monotonic() - begun
        self.typed.append(command)
        self.seconds += took
        self.show(command, took, stdout + stderr, shown)
        statuses = status if isinstance(status, tuple) else (status,)
        check(shell.returncode in statuses, f"exit status of {command}: {shell.returncode} (stderr {stderr[-500:]!r})")
        return Answer(stdout, stderr, shell.returncode)

    def show(self, command, took, text, shown):
        print(f"$ {command}    ({took:.1f} s)")
        lines = text.replace(self.bench.folder, "…").splitlines()
        for line in lines[:shown]:
            print("    " + (line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…"))
        if len(lines) > shown:
            print(f"    … {len(lines) - shown} more lines")
        sys.stdout.flush()

    def folder(self, name):
        """The absolute path of a new folder."""
        path = self.bench.path(name)
        os.makedirs(path, exist_ok=True)
        return path


# ---- rows -----------------------------------------------------------------------------------------

ROW = re.compile(r"LEAKS |MAY LEAK |\(grows\)")


def leak_rows(answer):
    """The rows of an answer of `leaks`, each with the indented lines below it; the surest and largest one first."""
    rows = []
    for line in answer.lines():
        if ROW.match(line):
            rows.append(line)
        elif rows and line.startswith(" "):
            rows[-1] += "\n" + line
        elif rows:
            break
    return rows


def first_leak(answer):
    rows = leak_rows(answer)
    check(rows, f"no row names a leak: {answer.stdout[:500]!r}")
    return without_common_caller(rows[0])


def without_common_caller(row):
    """A row of several lines that leak together begins with the caller of all of them; its lines are below it."""
    head, _, lines = row.partition("\n")
    return lines if "lines that leak together" in head else row


def planted_lines(name):
    """The numbers of the lines of a program that allocate the planted leak: those between marks, or with one."""
    lines, inside = set(), False
    for number, text in enumerate((PLANTED / name).read_text(encoding="utf-8").splitlines(), 1):
        if "planted: begin" in text:
            inside = True
        elif "planted: end" in text:
            inside = False
        elif inside or re.search(r"(//|#|/\*) planted", text):
            lines.add(number)
    check(lines, f"{name} has no marks")
    return lines


def check_planted_line(row, name):
    """The first place that the row names is a line of the planted leak."""
    found = re.search(re.escape(name) + r":(\d+)", row)
    check(found, f"the first row names no line of {name}: {row!r}")
    check(int(found[1]) in planted_lines(name), f"{name}:{found[1]} is not the planted leak: {row!r}")
    return f"{name}:{found[1]}"


def check_named(row, pattern):
    """The first row names a function of the planted leak; which one."""
    found = re.search(pattern, row)
    check(found, f"the first row does not name {pattern}: {row!r}")
    return found[0]


def check_unjudged(answer, reason):
    """No verdict, and the heap that was not recorded."""
    check(answer.status == UNJUDGED, f"status {answer.status}: {answer.stdout[:300]!r}")
    found = re.search(rf"cannot be judged.*?{reason}", answer.stdout, re.DOTALL)
    check(found, f"it says no {reason!r}: {answer.stdout[:500]!r}")
    return f"cannot be judged: {reason}"


def snapshots_below(folder):
    """The snapshot files, the oldest first."""
    return sorted(map(str, pathlib.Path(folder).rglob("*.snap")), key=os.path.basename)


def check_status(answer, expected):
    check_equal(answer.status, expected, "exit status")
