# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How a test fails, is skipped, and waits."""
import os
import pathlib
import re
import shutil
import time

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PATIENCE = int(os.environ.get("LIVE_PATIENCE", "4"))  # how many times as long tests wait: 1 is enough on an idle machine
SANITIZER = re.compile(r"(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error): [^\n]*")
THREADS_MAX = 12  # of processes that are late
CALLS_MAX = 8


class Failure(Exception):
    """A check failed."""


class Law(Failure):
    """A law of docs/design.md is broken. This is never chance, so the test is not tried again: a target ended or was
    harmed; a signal ended the recorder or a child of it; probes, links or mappings stayed behind; a file with its final
    name cannot be read; a snapshot has more blocks than the ledger; a sanitizer reported."""


class Hung(Failure):
    """The test did not end in its time."""


class Skip(Exception):
    """The machine lacks something that the test needs."""


def text_of(path):
    """The text of a file of /proc; empty, if the process has ended."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def processes_below(pid):
    """All PIDs below a process: of its children, and of theirs."""
    started = " ".join(map(text_of, pathlib.Path(f"/proc/{pid}/task").glob("*/children"))).split()
    return started + [below for child in started for below in processes_below(child)]


def thread_text(task):
    """Where a thread waits. task: its folder in /proc."""
    state = text_of(task / "stat").rpartition(")")[2][1:2]
    calls = re.findall(r"] ([\w.]+)", text_of(task / "stack"))[:CALLS_MAX]
    return (f"{text_of(task / 'comm')} {task.name} {state} in {text_of(task / 'wchan')} ({'<'.join(calls)}), "
            f"syscall {' '.join(text_of(task / 'syscall').split()[:4])}")


def late(what):
    """The words of a failure to do something in time: also, where each thread waits, of the processes below this one, of those
    that allocsnap has left behind, and of those that the kernel does not let go."""
    others = [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/stat") if re.search(r"\(allocsnap|\) D ", text_of(path))]
    tasks = [task for pid in dict.fromkeys(processes_below(os.getpid()) + others)
             for task in pathlib.Path(f"/proc/{pid}/task").glob("*")]
    return f"{what}; still running: {'; '.join(map(thread_text, tasks[:THREADS_MAX]))}"


def check(condition, message, kind=Failure):
    if not condition:
        raise kind(message)


def check_equal(found, expected, what, kind=Failure):
    check(found == expected, f"{what}: {found!r}, expected {expected!r}", kind)


def check_status(found, expected, what):
    """The exit status of allocsnap; None: any. A signal that ended it is a broken law, unless the test expects it."""
    check_equal(found, max(found, 0) if expected is None else expected, f"exit status of {what}", Law if found < 0 else Failure)


def check_sanitizer(said, what):
    report = SANITIZER.search(said)
    check(not report, f"{what}: {report and report[0]}", Law)


def wait_for(condition, what, seconds=60, kind=Failure):
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() >= deadline:
            raise kind(late(f"{what}: not within {seconds} s"))
        time.sleep(0.02)


def tool(name):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Skip(f"{name} is not installed")
    return path
