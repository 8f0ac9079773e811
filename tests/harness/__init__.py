# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Helpers of the live tests: processes that are ended, folders that are removed, allocsnap's answers.

A test is a function test_NAME(bench). Everything it starts belongs to the bench and is ended,
by its PID, when the test is over.
"""
import contextlib
import functools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ALLOCSNAP = os.environ.get("ALLOCSNAP", "./allocsnap")
WORKLOADS = os.environ.get("WORKLOADS", ".output/workloads")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
# The suite passes in all modes; the environment chooses, as for allocsnap itself.
BY_FRAME_POINTERS = os.environ.get("ALLOCSNAP_UNWIND") == "fp"
NO_RETURNS = "ALLOCSNAP_NO_UPROBE_RETURN" in os.environ
NO_LINKS = "ALLOCSNAP_NO_UPROBE_MULTI" in os.environ
NO_SESSIONS = NO_RETURNS or NO_LINKS or "ALLOCSNAP_NO_UPROBE_SESSION" in os.environ
# Features that a recording can be told not to use: none; those that kernels before 6.13 lack; those that
# kernels before 6.6 lack; and return probes, which are not safe in some processes.
MODES = (None, "ALLOCSNAP_NO_UPROBE_SESSION", "ALLOCSNAP_NO_UPROBE_MULTI",
         "ALLOCSNAP_NO_UPROBE_RETURN")
# Losses that concern callers only, not the totals: code without call frame information, or that ran
# before its table was there.
UNWINDING = {"tracebacks_" + name for name in (
    "skipping", "broken", "guessed", "no_rule", "unsupported", "unreadable", "backwards", "no_fp",
    "no_table", "no_code", "busy")}
NEVER = "1h"  # an interval that no test waits for
PATIENCE = int(os.environ.get("LIVE_PATIENCE", "4"))  # how many times as long tests wait: 1 is enough on an idle machine


class Failure(Exception):
    """A check failed."""


class Skip(Exception):
    """The machine lacks something that the test needs."""


def long(function):
    """Marks a test that only `make check-long` runs, or run.py with its name."""
    function.is_long = True
    return function


def runs_long():
    """Whether these are the long tests, too."""
    return "--long" in sys.argv


def check(condition, message):
    if not condition:
        raise Failure(message)


def check_equal(found, expected, what):
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def tool(name):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Skip(f"{name} is not installed")
    return path


def folder_of_run(argv):
    """The folder that `allocsnap run -o FOLDER` writes to; None: the command is another one."""
    argv = [str(word) for word in argv]
    if ALLOCSNAP not in argv and os.path.abspath(ALLOCSNAP) not in argv:
        return None
    before = argv[:argv.index("--")] if "--" in argv else argv
    return before[before.index("-o") + 1] if "run" in before and "-o" in before else None


def snapshots_below(folder):
    """The paths of the snapshots, in the order in which they were written."""
    found = [(path.stat().st_mtime_ns, str(path)) for path in pathlib.Path(folder).rglob("*.snap")]
    return [path for _, path in sorted(found)]


def losses_of(shown, ignored=()):
    """The losses in a snapshot. mappings_missed counts events of any process: builds beside the tests can be too many
    for the kernel's rings."""
    return {name: n for name, n in shown["losses"].items()
            if n and name != "mappings_missed" and name not in ignored}


class Process:
    """A child with its output read line by line; stderr goes to a file.

    `allocsnap run` leaves stdout to its program. Here the paths of new snapshots come as lines of output, too."""

    def __init__(self, argv, stderr_path, **options):
        self.stderr_path = stderr_path
        self.run_folder = folder_of_run(argv)
        self.run_paths = snapshots_below(self.run_folder) if self.run_folder else []
        with open(stderr_path, "wb") as stderr:
            self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=stderr, **options)
        self.pid = self.popen.pid
        self.buffer = b""

    def new_path(self):
        """A snapshot of `run` that was not returned yet, or None."""
        new = [path for path in snapshots_below(self.run_folder) if path not in self.run_paths]
        self.run_paths += new[:1]
        return new[0] if new else None

    def line(self, seconds=15):
        """The next line of stdout; None at its end."""
        deadline = time.monotonic() + seconds * PATIENCE
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure(f"{self.popen.args}: no line of output in {seconds} s; "
                              f"stderr: {self.stderr()!r}")
            if not select.select([self.popen.stdout], [], [], 0.02 if self.run_folder else left)[0]:
                path = self.run_folder and self.new_path()
                if path:
                    return path
                continue
            more = os.read(self.popen.stdout.fileno(), 65536)
            if not more:
                return self.new_path() if self.run_folder else None
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def write(self, text):
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()

    def wait(self, seconds=15):
        try:
            return self.popen.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.popen.args}: has not ended after {seconds} s") from None

    def stderr(self):
        return pathlib.Path(self.stderr_path).read_text(errors="replace")

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()


class Workload(Process):
    """A program of tests/workloads: see workload.h."""

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
            check(line is not None, f"{self.popen.args} ended instead of doing '{command}'")
            answers.append(json.loads(line))
            if "done" in answers[-1]:
                return answers[:-1], answers[-1]["done"]

    def is_unharmed(self):
        check(self.popen.poll() is None, f"{self.popen.args} has ended: {self.popen.returncode}")
        self.write("quit\n")
        check_equal(self.wait(), 0, f"exit status of {self.popen.args}")


class Recording(Process):
    """A running `allocsnap attach`."""

    def __init__(self, argv, stderr_path, folder, target_nr, **options):
        super().__init__(argv, stderr_path, **options)
        self.folder = folder
        self.target_nr = target_nr

    def ready(self):
        """Waits until it records: it has set up its signals, then answers one."""
        deadline = time.monotonic() + 15 * PATIENCE
        bit = 1 << (signal.SIGUSR1 - 1)
        while not signal_masks(self.pid) & bit:
            check(self.popen.poll() is None, f"attach ended at once: {self.stderr()!r}")
            check(time.monotonic() < deadline, "attach does not wait for SIGUSR1")
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
        return self.snapshots()[0]

    def path(self):
        line = self.line()
        check(line is not None, f"attach ended: {self.stderr()!r}")
        return line

    def end(self, how=None, status=0):
        """Its last snapshots, after signal `how`, or by itself."""
        if how:
            self.popen.send_signal(how)
        paths = list(iter(self.line, None))
        check_equal(self.wait(), status, f"exit status of attach (stderr {self.stderr()!r})")
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


def keeper_of(pid):
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


class Bench:
    """All that one test has started and made."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="allocsnap-live.")
        self.processes = []
        self.raw = []

    def close(self):
        for process in reversed(self.processes):
            process.kill()
        for process in self.raw:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def _next_stderr(self):
        return self.path(f"stderr.{len(self.processes)}")

    def start(self, argv, kind=Process, **options):
        process = kind(argv, self._next_stderr(), **options)
        self.processes.append(process)
        return process

    def start_raw(self, argv, **options):
        """A plain Popen, for a test that passes descriptors of its own."""
        process = subprocess.Popen(argv, **options)
        self.raw.append(process)
        return process

    def workload(self, name, *args):
        return self.start([os.path.join(WORKLOADS, name), *args], kind=Workload).ready()

    def attach(self, targets, *options, wait=True, interval=NEVER, command=(ALLOCSNAP,), folder=None,
               preexec_fn=None):
        """Starts recording; returns when it does. The command may be one that executes allocsnap."""
        pids = [str(getattr(target, "pid", target)) for target in targets]
        folder = folder or tempfile.mkdtemp(prefix="out.", dir=self.folder)
        argv = [*command, "attach", *pids, "-o", folder, "--interval", interval, *options]
        recording = self.start(argv, kind=Recording, folder=folder, target_nr=len(pids),
                               preexec_fn=preexec_fn)
        return recording.ready() if wait else recording

    def run(self, argv, status=0, seconds=20, **options):
        """Runs to the end: (stdout, stderr). The stdout of `allocsnap run` is followed by the new snapshots' paths."""
        folder = folder_of_run(argv)
        before = snapshots_below(folder) if folder else []
        process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=seconds * PATIENCE, check=False, **options)
        check_equal(process.returncode, status,
                    f"exit status of {' '.join(argv)} (stderr {process.stderr!r})")
        new = [path for path in snapshots_below(folder) if path not in before] if folder else []
        return process.stdout + "".join(path + "\n" for path in new), process.stderr

    def allocsnap(self, *args, status=0):
        return self.run([ALLOCSNAP, *args], status)

    def json(self, *args):
        return json.loads(self.allocsnap(*args, "--json")[0])

    def stats(self, path, *options):
        return self.json("stats", path, "--top", "0", *options)

    def diff(self, old, new, *options):
        return self.json("diff", old, new, "--top", "0", *options)

    def show(self, path):
        return self.json("show", path)


@contextlib.contextmanager
def environment(name):
    """Programs started inside the `with` have NAME=1 in their environment; with None nothing changes."""
    if name:
        os.environ[name] = "1"
    try:
        yield
    finally:
        if name:
            del os.environ[name]


def top_frame(row):
    """The most recent call of a row."""
    return row["traceback"][0]


def frame_text(frame):
    """All places that a frame names, in one line to search in."""
    return " ".join(str(frame.get(key, "")) for key in ("function", "filename", "lineno", "object"))


def rows_of_file(statistics, name):
    """{(function, line): (count, size)} of the call sites in one source file."""
    rows = {}
    for row in statistics["statistics"]:
        frame = top_frame(row)
        if os.path.basename(frame["filename"]) == name:
            rows[frame.get("function"), frame["lineno"]] = row["count"], row["size"]
    return rows


def wait_for(condition, what, seconds=10):
    deadline = time.monotonic() + seconds * PATIENCE
    while not condition():
        check(time.monotonic() < deadline, f"{what}: not within {seconds} s")
        time.sleep(0.02)


def executable_mappings(pid):
    """(low, high, offset) of the code that a process maps from files."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ (\d+) +/", line)
        if match and match[4] != "0":
            yield tuple(int(match[i], 16) for i in (1, 2, 3))


def changed_code(pid, path=""):
    """How many bytes of a process's code differ from its files, or from one of them: the breakpoints in it."""
    changed = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for low, high, offset in executable_mappings(pid):
            if path and os.readlink(f"/proc/{pid}/map_files/{low:x}-{high:x}") != path:
                continue
            with open(f"/proc/{pid}/map_files/{low:x}-{high:x}", "rb") as file:
                file.seek(offset)
                original = file.read(high - low)
            memory.seek(low)
            found = memory.read(len(original))
            if found != original:
                changed += sum(a != b for a, b in zip(found, original))
    return changed


def fdinfo(path):
    """The lines of a file; none if its descriptor has just been closed."""
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def bpf_ids(pid):
    """{"prog": ids, "link": ids} that a recording holds open, and the process that keeps its links."""
    ids = {"prog": set(), "link": set()}
    for holder in filter(None, (pid, keeper_of(pid))):
        for path in pathlib.Path(f"/proc/{holder}/fdinfo").iterdir():
            for line in fdinfo(path):
                for kind, found in ids.items():
                    if line.startswith(f"{kind}_id:"):
                        found.add(int(line.split()[1]))
    return ids


def bpf_ids_in_kernel(bench):
    """All IDs in the kernel, of any holder: {"prog": ids, "link": ids}."""
    return {kind: {item["id"] for item in
                   json.loads(bench.run([tool("bpftool"), "--json", kind, "list"])[0] or "[]")}
            for kind in ("prog", "link")}


@functools.cache
def private_mounts():
    """The command that runs another one with mounts of its own. Where / is no mount point, as in
    a plain chroot, unshare can't make them private: they are what the mount above them is."""
    unshare = [tool("unshare"), "-m"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        unshare += ["--propagation", "unchanged"]
    return unshare


def is_running(pid):
    """False also for a zombie: a process that has ended and was not waited for."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def kill_and_check(bench, recording, target, when):
    """Nothing stays behind a recording that is killed now: no link, no process, no breakpoint."""
    keeper, own = keeper_of(recording.pid), bpf_ids(recording.pid)["link"]
    recording.popen.kill()
    recording.wait(60)

    def is_gone():
        return (not own & bpf_ids_in_kernel(bench)["link"] and not changed_code(target.pid)
                and not (keeper and is_running(keeper)))

    wait_for(is_gone, f"{when}: its links, keeper and breakpoints are gone", 5)


def uprobe_events(bench):
    """The lines of tracefs' uprobe_events. It is mounted in a namespace of its own, and on a folder
    of its own: mount refuses to mount it a second time where the machine already has it."""
    folder = tempfile.mkdtemp(prefix="tracing.", dir=bench.folder)
    script = 'mount -t tracefs none "$0" && cat "$0/uprobe_events"'
    return bench.run([*private_mounts(), "sh", "-c", script, folder])[0].splitlines()
