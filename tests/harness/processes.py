# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes that tests start and talk to: programs of tests/workloads, recordings; and what /proc says of them."""
import contextlib
import functools
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

from .checks import PATIENCE, Failure, Law, Skip, check, check_equal, check_status, late, tool, wait_for
from .suite import must_be_alone

ALLOCSNAP = os.path.abspath(os.environ.get("ALLOCSNAP", "./allocsnap"))
FOLDERS_OF_PROGRAMS = "/bin/", "/sbin/", "/usr/"
OF_COSTS = "is recorded by traps and", "cannot be measured on ourselves"
NEVER = "1h"  # an interval that no test waits for


@functools.cache
def machine_checks():
    """{name: state} of the doctor's rows about this machine."""
    done = subprocess.run([ALLOCSNAP, "doctor", "--json"], capture_output=True, text=True, check=False)
    return {row["name"]: row["state"] for row in json.loads(done.stdout)["machine"]["checks"]}


def is_missing(name):
    """Whether this kernel lacks what a row of the doctor has tried."""
    return machine_checks()[name] in ("no", "costs")


def skip_if_refused(stderr):
    """Where the recorder refuses to inject, since the kernel lacks what that needs, and the doctor's trial fails, too."""
    refused = re.search(r"cannot inject(?: into process \d+)?: (this kernel has no links of many uprobes)", stderr)
    if refused and ("ALLOCSNAP_NO_UPROBE_MULTI" in os.environ or is_missing("many uprobes in a link")):
        raise Skip(f"nothing is injected: {refused[1]}")


def prepared(argv):
    """The command as it is run here. The machine may lack the program. `allocsnap record` puts its probes into every process
    that has the files. `allocsnap run` takes a snapshot every 10 s if it is not asked: on a slow machine too many."""
    if "/" not in str(argv[0]) or str(argv[0]).startswith(FOLDERS_OF_PROGRAMS):
        tool(argv[0])
    if "record" in argv:
        must_be_alone()
    words = words_of_run(argv)
    if not words or {"-i", "--interval", "-n", "--count"} & set(words):
        return argv
    after = words.index("run") + 1
    return [*argv[:after], "--interval", NEVER, *argv[after:]]


def words_of_run(argv):
    """The words of `allocsnap run -o FOLDER` before the program; none: the command is another one."""
    argv = [str(word) for word in argv]
    if ALLOCSNAP not in argv:
        return []
    before = argv[:argv.index("--")] if "--" in argv else argv
    return before if "run" in before and "-o" in before else []


def folder_of_run(argv):
    """The folder that `allocsnap run -o FOLDER` writes to; None: the command is another one."""
    words = words_of_run(argv)
    return words[words.index("-o") + 1] if words else None


def snapshots_below(folder):
    """The paths of the snapshots, in the order in which they were written."""
    found = [(path.stat().st_mtime_ns, str(path)) for path in pathlib.Path(folder).rglob("*.snap")]
    return [path for _, path in sorted(found)]


class Popen(subprocess.Popen):
    """A killed program has ended when kill() returns: else the bench could take it for one that runs, and judge its end."""

    def kill(self):
        super().kill()
        self.wait(60 * PATIENCE)


class Process:
    """A child with its output read line by line; stderr goes to a file.

    `allocsnap run` leaves stdout to its program. Here the paths of new snapshots come as lines of output, too."""

    def __init__(self, argv, stderr_path, **options):
        argv = prepared(argv)
        self.stderr_path = stderr_path
        self.run_folder = folder_of_run(argv)
        self.run_paths = snapshots_below(self.run_folder) if self.run_folder else []
        with open(stderr_path, "wb") as stderr:
            self.popen = Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=stderr, **options)
        self.pid = self.popen.pid
        self.buffer = b""

    def new_path(self):
        """A snapshot of `run` that was not returned yet, or None."""
        new = [path for path in snapshots_below(self.run_folder) if path not in self.run_paths]
        self.run_paths += new[:1]
        return new[0] if new else None

    def line(self, seconds=60):
        """The next line of stdout; None at its end."""
        deadline = time.monotonic() + seconds * PATIENCE
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure(late(f"{self.popen.args}: no line of output in {seconds} s; stderr: {self.stderr()!r}"))
            if not select.select([self.popen.stdout], [], [], 0.02 if self.run_folder else left)[0]:
                path = self.run_folder and self.new_path()
                if path:
                    return path
                continue
            more = os.read(self.popen.stdout.fileno(), 65536)
            if not more:
                skip_if_refused(self.stderr())
                return self.new_path() if self.run_folder else None
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def write(self, text):
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()

    def wait(self, seconds=60):
        try:
            return self.popen.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(late(f"{self.popen.args}: has not ended after {seconds} s")) from None

    def until(self, condition, what):
        """Waits for what comes before its end."""
        def holds():
            if condition():
                return True
            if self.popen.poll() is not None:
                skip_if_refused(self.stderr())
                raise Failure(f"{what}: not before its end; stderr: {self.stderr()!r}")
            return False
        wait_for(holds, what)

    def stderr(self):
        return pathlib.Path(self.stderr_path).read_text(errors="replace")

    def said(self):
        """The lines of stderr, but for notes of what recording costs: these come where the machine is slow or busy."""
        return [line for line in self.stderr().splitlines() if not any(words in line for words in OF_COSTS)]

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()


class Workload(Process):
    """A program of tests/workloads: see workload.h."""

    ENDLESS = ("crowd", "grow", "leaks", "own_pages")  # these read no orders

    def ready(self):
        line = self.line()
        check(line and json.loads(line)["ready"] == self.pid, f"{self.popen.args}: not ready: {line}")
        return self

    def order(self, command):
        """All answers but the last one, and the contents of the last one, {"done": …}."""
        answers = []
        self.write(command + "\n")
        while True:
            line = self.line()
            if line is None:
                raise Law(f"{self.popen.args} ended with {self.wait()} instead of doing '{command}': {self.stderr()!r}")
            answers.append(json.loads(line))
            if "done" in answers[-1]:
                return answers[:-1], answers[-1]["done"]

    def is_unharmed(self):
        check(self.popen.poll() is None, f"{self.popen.args} has ended: {self.popen.returncode}", Law)
        if os.path.basename(self.popen.args[0]) in self.ENDLESS:
            return
        self.write("quit\n")
        check_equal(self.wait(), 0, f"exit status of {self.popen.args}", Law)


class Recording(Process):
    """A running `allocsnap attach`."""

    def __init__(self, argv, stderr_path, folder, target_nr, **options):
        super().__init__(argv, stderr_path, **options)
        self.folder = folder
        self.target_nr = target_nr

    def ready(self):
        """Waits until it records: it has set up its signals, then answers one."""
        deadline = time.monotonic() + 60 * PATIENCE
        bit = 1 << (signal.SIGUSR1 - 1)
        while not signal_masks(self.pid) & bit:
            status = self.popen.poll()
            if status is not None:
                skip_if_refused(self.stderr())
            check(status is None, f"attach ended at once with {status}: {self.stderr()!r}", Law if (status or 0) < 0 else Failure)
            if time.monotonic() >= deadline:
                raise Failure(late("attach does not wait for SIGUSR1"))
            time.sleep(0.01)
        self.snapshots()
        return self

    def clear(self):
        """Makes it forget all traces. A signal that it has not taken yet would come after a later SIGUSR1."""
        self.popen.send_signal(signal.SIGUSR2)
        wait_for(lambda: not pending_signals(self.pid) & 1 << (signal.SIGUSR2 - 1), "it takes SIGUSR2")

    def snapshots(self):
        """One of each process, now."""
        self.popen.send_signal(signal.SIGUSR1)
        return [self.path() for _ in range(self.target_nr)]

    def snapshot(self):
        path = self.snapshots()[0]
        check(path, f"attach ended before its snapshot: {self.stderr()!r}")
        return path

    def path(self):
        line = self.line()
        if line is None:
            check_status(self.wait(), None, f"attach, which ended (stderr {self.stderr()!r})")
        return line

    def end(self, how=None, status=0):
        """Its last snapshots, after signal `how`, or by itself."""
        if how:
            self.popen.send_signal(how)
        paths = list(iter(self.line, None))
        check_status(self.wait(), status, f"attach (stderr {self.stderr()!r})")
        return paths


def children_of(pid):
    """[(PID, comm)] of the children that the main thread has started."""
    found = []
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                found.append((int(child), pathlib.Path(f"/proc/{child}/comm").read_text().strip()))
    return found


def reader_of(recording):
    """The PID of the process that reads ELF files for a recording; None: it has none now."""
    for child, comm in children_of(recording.pid):
        if comm == "allocsnap-spawn":
            return next((pid for pid, comm in children_of(child) if comm == "allocsnap-names"), None)
    return None


def link_holder_of(pid):
    """The PID of the process that keeps a recording's links; None: it has none."""
    return next((child for child, comm in children_of(pid) if comm == "allocsnap-links"), None)


OURS = ("allocsnap-spawn", "allocsnap-links", "allocsnap-files")  # children of a recording that are its own affair


def pending_signals(pid):
    """Signals sent to a process that it has not taken yet."""
    return int(re.search(r"ShdPnd:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1], 16)


def signal_masks(pid):
    """Signals that allocsnap catches or holds back (for a signalfd); 0 before it is executed."""
    masks = 0
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        for line in lines if lines[0] == "Name:\tallocsnap" else ():
            if line.startswith(("SigBlk:", "SigCgt:")):
                masks |= int(line.split()[1], 16)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return masks


def cpu_seconds(pid):
    """The CPU time of a process, in the kernel's ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_running(pid):
    """False also for a zombie: a process that has ended and was not waited for."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
