# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs a command once as it is and lists its sites (faults.c), then once for each fault, and says what came of it:

    unharmed    the usual status, the same answer, and all that stderr says without a fault
    said        the usual status, another answer, and stderr has a line that it did not have before
    refused     another status, and stderr says why
    not passed  this time the program did not pass the site

Everything else is a finding: a crash (also of a helper), a hang, another answer without a word, an end without a word,
a file that is damaged or left, a process that is left.

A fault can also be a signal to the program, at a call that then goes on, what a test does meanwhile, or a step of the wall
clock. fill_disk() has full disks in place of faults.
"""
import collections
import contextlib
import ctypes
import errno
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import typing

from harness import ALLOCSNAP, Law, check

FAULTY = os.environ["FAULTY"]
SNAPSHOTS = pathlib.Path(os.environ["SNAPSHOTS"])
SILENT = "another answer without a word"
SECONDS = 60  # a command needs a tenth of one, a recording five
UNJUDGED = 3  # an answer, too
SITES_MAX, SITE, HEAD = 8192, struct.Struct("24sII"), struct.Struct("IiIII")
NUMBER = re.compile(r"\b[0-9a-fA-FTZ]*\d[0-9a-fA-FTZ]*\b")  # other ones in each run: PIDs, times
LIST, ONCE, ALWAYS, SIGNAL, STEP, MEET = range(6)
ADDR_NO_RANDOMIZE = 0x40000
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000

ENDS = "ENOMEM malloc calloc realloc mmap madvise mprotect open_memstream syscall", \
    "EMFILE open open64 openat openat64 mkostemp fopen fdopen opendir fdopendir dup dup2 fcntl pipe2 socket socketpair " \
    "epoll_create1 inotify_init1 eventfd signalfd timerfd_create memfd_create", \
    "EAGAIN fork pthread_create posix_spawn posix_spawnp timer_create", \
    "ENOSPC write pwrite pwrite64 fallocate ftruncate mkdir mkdirat mkdtemp rename renameat linkat fsetxattr fwrite fputs " \
    "fwrite_unlocked fputc putc puts printf fprintf vfprintf __fprintf_chk fclose fflush inotify_add_watch"
ERRORS = {name: getattr(errno, row.split()[0]) for row in ENDS for name in row.split()[1:]}
INTERRUPTED = {"read", "write", "recv", "recvmsg", "sendmsg", "send", "poll", "waitpid", "waitid", "epoll_wait", "open", "openat"}
SHORT = {"read", "pread", "pread64", "write", "pwrite", "pwrite64", "send"}


class Site(typing.NamedTuple):
    name: str
    place: int


class Fault(typing.NamedTuple):
    site: Site
    err: int  # 0: half of the bytes; the number of a signal; seconds; what the test does
    mode: int
    after: int = 0  # so many calls succeed before

    def text(self):
        if self.mode == STEP:
            return f"the wall clock steps by {self.err} s after {self.after} readings"
        if self.mode == SIGNAL:
            return f"{signal.Signals(self.err).name} at {self.site.name} at {place_text(self.site.place)}"
        if self.mode == MEET:
            return f"deed {self.err} after {self.after} calls of {self.site.name} at {place_text(self.site.place)}"
        how = errno.errorcode[self.err] if self.err else "short"
        when = "from then on" if self.mode == ALWAYS else "once"
        return f"{self.site.name} at {place_text(self.site.place)}: {how} after {self.after} calls, {when}"


class Outcome(typing.NamedTuple):
    status: int
    out: bytes
    err: list  # lines
    files: dict  # {name: bytes} of the files that the command made or changed
    fired: int
    finding: str = ""  # what is wrong whatever the answer is


class Scenario(typing.NamedTuple):
    """Arguments of allocsnap, in a folder with copies of these snapshots. before: commands that prepare it. after: commands
    after each fault, the last of which must say what it says without one: a file that was being changed is whole."""
    inputs: tuple
    command: tuple
    before: tuple = ()
    after: tuple = ()


def place_text(place):
    done = subprocess.run(["addr2line", "-sfe", FAULTY, hex(place - 1)], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()[:2])


def faults_of(site, calls):
    err = ERRORS.get(site.name, errno.EIO)
    yield Fault(site, err, ONCE)
    yield Fault(site, err, ALWAYS)
    if calls > 1:
        yield Fault(site, err, ONCE, calls // 2)
    if site.name in INTERRUPTED:
        yield Fault(site, errno.EINTR, ONCE)
    if site.name in SHORT:
        yield Fault(site, 0, ALWAYS)


def write_table(path, fault):
    with open(path, "wb") as file:
        if fault:
            file.write(HEAD.pack(fault.mode, fault.err, 0, 0, 0) + SITE.pack(fault.site.name.encode(), fault.site.place, fault.after))
        file.truncate(HEAD.size + SITE.size * (SITES_MAX + 1))


def read_sites(path):
    """{site: how often it was passed}"""
    table = pathlib.Path(path).read_bytes()
    slots = (SITE.unpack_from(table, HEAD.size + SITE.size * i) for i in range(1, SITES_MAX + 1))
    return {Site(name.rstrip(b"\0").decode(), place): calls for name, place, calls in slots if place}


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def members(session):
    """Processes of a session that have not ended."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                yield int(pid)


def end_session(session, seconds=5):
    """Its processes get time to end; whether some had to be killed."""
    deadline = time.monotonic() + seconds
    while list(members(session)) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = list(members(session))
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


class Runs:
    """The runs of one scenario, each in a folder of its own."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.command = scenario.command
        self.usual_afterwards = None
        self.stdin = os.devnull
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults."))
        self.table = self.folder / "table"

    def __enter__(self):
        self.prepared = self.folder / "prepared"
        (self.prepared / "tmp").mkdir(parents=True)
        for name in self.scenario.inputs:
            source = SNAPSHOTS / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, self.prepared / name)
        for command in self.scenario.before:
            subprocess.run([ALLOCSNAP, *command], cwd=self.prepared, env=self.environment(self.prepared), check=True, capture_output=True)
        self.inputs = files_below(self.prepared)
        self.usual = self.run(None)
        self.sites = read_sites(self.table)
        again = self.run(None)
        check(self.usual.status in (0, UNJUDGED) and not self.usual.finding, f"without a fault: {self.usual}")
        check(again.out == self.usual.out, f"without a fault, two runs have different answers: {self.usual}, {again}")
        # A database lacks what an error has left out, and has times of the second. What is asked afterwards judges it.
        self.changing = {name for name, held in self.usual.files.items()
                         if again.files[name] != held or (self.scenario.after and name.endswith(".db"))}
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    @staticmethod
    def environment(folder, **more):
        return os.environ | {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "LC_ALL": "C.UTF-8"} | more

    def run(self, fault):
        folder = self.folder / "run"
        shutil.copytree(self.prepared, folder)
        write_table(self.table, fault)
        try:
            return self.run_in(folder)
        finally:
            shutil.rmtree(folder)

    def run_in(self, folder):
        finding = ""
        with open(self.stdin, "rb") as orders, open(self.folder / "out", "w+b") as out, open(self.folder / "err", "w+b") as err:
            program = subprocess.Popen([FAULTY, *self.command], cwd=folder, stdin=orders, stdout=out, stderr=err,
                                       env=self.environment(folder, FAULTS=str(self.table)), start_new_session=True,
                                       preexec_fn=lambda: ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE))
            try:
                program.wait(SECONDS)
            except subprocess.TimeoutExpired:
                finding = "hangs"
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            if end_session(program.pid) and not finding:
                finding = "a process is left"
            out.seek(0), err.seek(0)
            answer, said = out.read(), NUMBER.sub("N", err.read().decode(errors="replace")).splitlines()
        finding = finding or self.bad_afterwards(folder)
        mode, number, fired, crashed, _ = HEAD.unpack_from(self.table.read_bytes())
        if crashed or (program.returncode < 0 and (mode, number) != (SIGNAL, -program.returncode)):
            finding = finding or "crash"
        files = files_below(folder)
        if any(files.get(name) != held for name, held in self.inputs.items() if name not in self.may_change()):
            finding = finding or "an input has changed"
        made = {name: held for name, held in files.items() if self.inputs.get(name) != held}
        finding = finding or self.bad_snapshot(folder, made)
        answer, made = self.comparable(folder, answer, made)
        return Outcome(program.returncode, answer, said, made, fired, finding)

    def comparable(self, _folder, answer, made):
        """The part in which two runs without a fault are equal."""
        return answer, made

    def bad_afterwards(self, folder):
        said = [subprocess.run([ALLOCSNAP, *command], cwd=folder, env=self.environment(folder), capture_output=True, check=False)
                for command in self.scenario.after]
        self.usual_afterwards = self.usual_afterwards or [done.stdout for done in said[-1:]]
        if said and said[-1].returncode:
            return f"afterwards: {said[-1].stderr}"
        return "" if [done.stdout for done in said[-1:]] == self.usual_afterwards else "afterwards: another answer"

    def may_change(self):
        return {name for name in self.inputs if name.endswith("catalogue.bin") or "fleet" in self.scenario.command[0]}

    @staticmethod
    def bad_snapshot(folder, files):
        for name in files:
            if name.endswith(".snap") and subprocess.run([ALLOCSNAP, "stats", folder / name], capture_output=True, check=False).returncode:
                return f"{name} cannot be read"
        return ""

    def judge(self, outcome):
        """(a word of the page's head, or a finding)"""
        usual = self.usual
        if outcome.finding:
            return outcome.finding
        if not outcome.fired:
            return "not passed"
        says = bool(collections.Counter(outcome.err) - collections.Counter(usual.err))
        left = outcome.files.keys() - usual.files.keys()
        damaged = [name for name, held in outcome.files.items() if name in usual.files and name not in self.changing
                   and held != usual.files[name]]
        same = outcome.out == usual.out and outcome.files.keys() == usual.files.keys() and not damaged and \
            not collections.Counter(usual.err) - collections.Counter(outcome.err)
        if left and not any("cannot be removed" in line for line in outcome.err):
            return f"left {sorted(left)}"
        if outcome.status != usual.status:
            return f"damaged {damaged}" if damaged else "refused" if says else f"ends with {outcome.status} without a word"
        return "unharmed" if same else "said" if says else SILENT


class OnDisk(Runs):
    """In a file system with so many free pages."""
    pages = None

    def run(self, fault):
        folder = self.folder / "run"
        if self.pages is None:
            return super().run(fault)
        inputs = sum(-(-len(held) // mmap.PAGESIZE) for held in self.inputs.values())
        write_table(self.table, None)
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={(inputs + self.pages) * mmap.PAGESIZE}", "none", folder], check=True)
        try:
            shutil.copytree(self.prepared, folder, dirs_exist_ok=True)
            return self.run_in(folder)._replace(fired=1)
        finally:
            subprocess.run(["umount", folder], check=True)
            folder.rmdir()

    def bad_afterwards(self, folder):
        """There is room again."""
        if self.pages is not None:
            subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        return super().bad_afterwards(folder)


def own_mounts():
    """For this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    check(not libc.unshare(CLONE_NEWNS) and not libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "own mounts")


def fill_disk(scenario):
    """With no free page, one, …, until there are enough: a text that counts the outcomes."""
    own_mounts()
    counted, findings, verdict = collections.Counter(), [], ""
    with OnDisk(scenario) as runs:
        runs.pages = 0
        while verdict != "unharmed":
            outcome = runs.run(None)
            verdict = runs.judge(outcome)
            counted[verdict] += 1
            if verdict not in VERDICTS:
                findings.append(f"{runs.pages} free pages: {verdict}; status {outcome.status}, stderr {outcome.err[:3]}")
            runs.pages += 1 + runs.pages // 16
            check(runs.pages < 10000, f"{runs.pages} pages do not suffice: {outcome}")
    check(counted["refused"], f"no disk was too small: {counted}")
    check(not findings, f"{len(findings)} findings: " + "; ".join(findings), Law)
    return ", ".join(f"{verdict} {nr}" for verdict, nr in counted.items())


VERDICTS = "unharmed", "said", "refused", "not passed"


def try_all(scenario, kind=Runs, faults=faults_of):
    """A text that counts the outcomes; fails with the findings."""
    counted, findings = collections.Counter(), []
    with kind(scenario) as runs:
        for site, calls in sorted(runs.sites.items()):
            for fault in faults(site, calls):
                outcome = runs.run(fault)
                verdict = runs.judge(outcome)
                counted[verdict] += 1
                if verdict not in VERDICTS:
                    findings.append(f"{fault.text()}: {verdict}")
                    print(f"finding: {findings[-1]}; status {outcome.status}, stderr {outcome.err[:3]}", flush=True)
        nr = sum(counted.values())
        text = f"{len(runs.sites)} sites, {nr} faults: " + ", ".join(f"{verdict} {counted[verdict]}" for verdict in VERDICTS)
    check(not findings, f"{text}; {len(findings)} findings: " + "; ".join(findings), Law)
    return text
