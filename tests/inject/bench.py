# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that are injected, and what is seen of them from outside. Everything that a bench starts ends with it."""
import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import Law, Skip, breakpoints_of, check, check_equal, check_sanitizer, wait_for

FOLDER, SAMPLER_FOLDER = os.environ["INJECT"], os.environ["SAMPLER"]
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
JEMALLOC = LIBRARIES + "libjemalloc.so.2"
ALLOCATORS = {
    "glibc": "",
    "jemalloc": JEMALLOC,
    "tcmalloc": LIBRARIES + "libtcmalloc_minimal.so.4",
    "mimalloc": LIBRARIES + "libmimalloc.so.2",
    "musl": "",
}
INJECTOR = os.path.join(FOLDER, "injector")
PATIENCE_S = 120  # a limit only
TIMER = 1 << (signal.SIGALRM - 1)  # pending and blocked at any time where a timer interrupts the program
ALLOCSNAP = os.environ.get("ALLOCSNAP", "./allocsnap")


def by_hooks(of_core=()):
    """Makes a second test of a test, test_…_by_hooks: with hooks of an exact recording of the heap in place of the sampler
    (EXACT, injector.c). of_core: its rows in the core; True: the test, which has no rows."""
    def mark(function):
        @functools.wraps(function)
        def by_hooks_too(bench, *row):
            os.environ["EXACT"] = "1"
            bench.callback(os.environ.pop, "EXACT")
            return function(bench, *row)
        by_hooks_too.__name__ += "_by_hooks"
        by_hooks_too.marks = frozenset({"core"} if of_core is True else ())
        if hasattr(function, "rows"):
            by_hooks_too.rows = {name: (row, {"core"} if name in of_core else set()) for name, (row, _) in function.rows.items()}
        setattr(sys.modules[function.__module__], by_hooks_too.__name__, by_hooks_too)
        return function
    return mark


def has_hooks():
    """Whether the injector puts hooks in, and not a sampler."""
    return "EXACT" in os.environ


def read_text(*path):
    with open(os.path.join(*map(str, path)), encoding="utf-8", errors="replace") as file:
        return file.read()


def descendant(pid, name):
    """The process below another one; None: not yet."""
    try:
        if read_text("/proc", pid, "comm") == name + "\n":
            return pid
        threads = os.listdir(f"/proc/{pid}/task")
        children = [child for tid in threads for child in read_text("/proc", pid, "task", tid, "children").split()]
    except OSError:
        return None
    return next(filter(None, (descendant(int(child), name) for child in children)), None)


def range_of(line):
    """The addresses of a line of /proc/PID/maps."""
    return tuple(int(number, 16) for number in line.split()[0].split("-"))


class Process:
    """A program that answers lines on stdin, and what is seen of it from outside."""

    def __init__(self, argv, cwd=None, **environment):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ALLOCSNAP_")}
        self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env=plain | environment, cwd=cwd, text=True, bufsize=1)
        self.pid = self.popen.pid

    def ask(self, order=""):
        """(rounds, bad) of a storm, and of a victim (victim.h) its PID."""
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(order + "\n")
            self.popen.stdin.flush()
            if select.select([self.popen.stdout], [], [], PATIENCE_S)[0]:
                line = self.popen.stdout.readline()
        found = re.match(r"rounds (\d+) bad (\d+)(?: of (\d+))?", line)
        if not found:
            self.popen.kill()
            raise Law(f"the program says {line!r}, status {self.popen.wait()}, {self.popen.stderr.read(2000)!r}")
        return tuple(map(int, filter(None, found.groups())))

    def find_victim(self):
        """From here on it is the victim (victim.h), which has begun."""
        self.pid = (*self.ask(), self.pid)[2]
        wait_for(lambda: self.ask()[0] > 0, "the first round", PATIENCE_S)

    def enter_container(self, name):
        """From here on it is the program of this name that was started in between by others."""
        wait_for(lambda: descendant(self.pid, name), f"{name} runs in a container", PATIENCE_S)
        self.pid = descendant(self.pid, name)

    def goes_on(self):
        """It is alive and does its work."""
        begun, bad = self.ask()[:2]
        if bad:
            self.end()
        check_equal(bad, 0, "what the program finds wrong", Law)
        wait_for(lambda: self.ask()[0] > begun + 2, "rounds", PATIENCE_S, Law)

    def end(self):
        """At the end of its stdin; nothing was bad."""
        _, said = self.popen.communicate(timeout=PATIENCE_S)
        check_equal(self.popen.returncode, 0, f"status of the program, which says {said[:2000]!r}", Law)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def maps(self, *words):
        """Lines of code, or of the files with one of these words in their names; none of the kernel's for probes."""
        lines = read_text("/proc", self.pid, "maps").splitlines()
        return [line for line in lines if "[uprobes" not in line and (not words or any(word in line for word in words))]

    def injected(self):
        return self.maps("memfd:allocsnap-")

    def sampler_room(self):
        """The addresses that a sampler takes, or hooks: from its file's first page on, without a gap."""
        begun = end = 0
        for line in self.maps():
            at, line_end = range_of(line)
            if re.search("memfd:allocsnap-(sampler|hooks)", line) and line.split()[2] == "00000000":
                begun = end = at
            end = line_end if at == end else end
        return begun, end

    def library(self, name):
        """Its lines, without its pages in the room of a sampler that is still mapped."""
        begun, end = self.sampler_room()
        return [line for line in self.maps(name) if not begun <= range_of(line)[0] < end]

    def code(self, library):
        """Its code in memory, without breakpoints of strangers."""
        found = b""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            for line in self.library(library):
                if " r-xp " in line:
                    found += self.code_at(memory, *range_of(line), int(line.split()[2], 16))
        return found

    def code_at(self, memory, start, end, offset):
        part = f"/proc/{self.pid}/map_files/{start:x}-{end:x}", offset, end - start
        before = breakpoints_of(*part)
        memory.seek(start)
        found = bytearray(memory.read(end - start))
        for place, byte in (before | breakpoints_of(*part)).items():
            found[place] = byte
        return bytes(found)

    def signal_masks(self):
        """The signals that the main thread blocks, without SIGALRM, which is blocked while the storm of signals handles it."""
        found = re.search(r"SigBlk:\s*(\w+)", read_text("/proc", self.pid, "status"))
        return int(found[1], 16) & ~TIMER

    def files(self):
        return sorted(os.listdir(f"/proc/{self.pid}/fd"))

    @contextlib.contextmanager
    def held(self):
        """A victim stays between two rounds meanwhile: nothing changes."""
        self.ask("hold")
        yield
        self.ask()

    def looks(self):
        """All that must be the same after a sampler has come and gone. A thread that has ended meanwhile has nothing."""
        found = {"descriptors": {}}
        with contextlib.suppress(ProcessLookupError):  # its first thread has ended, but not the process
            found |= {"mappings": len(self.maps()), "libc": self.library("libc.so.6"), "code": self.code("libc.so.6")}
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                status = read_text("/proc", self.pid, "task", tid, "status")
                for name, value in re.findall(r"(Sig[A-P]\w+|ShdPnd|TracerPid|Seccomp|NoNewPrivs):\s*(\w+)", status):
                    found[f"{name} of {tid}"] = int(value, 16) & ~TIMER
        for file in self.files():
            with contextlib.suppress(FileNotFoundError):
                flags = re.search(r"flags:\s*(\w+)", read_text("/proc", self.pid, "fdinfo", file))[1]
                found["descriptors"][file] = os.readlink(f"/proc/{self.pid}/fd/{file}"), flags
        return found


def injector(*argv, status=0, as_user=None, without=None, **environment):
    """status None: any. without: a capability."""
    prefix = ["setpriv", f"--reuid={as_user}", "--clear-groups", "--bounding-set=-all"] if as_user else []
    if without:
        prefix = ["setpriv", f"--bounding-set=-{without}", f"--inh-caps=-{without}"]
    if status in (0, -signal.SIGKILL):
        environment["TRIES"] = "200"
    done = subprocess.run([*prefix, INJECTOR, *map(str, argv)], env=os.environ | environment, capture_output=True,
                          text=True, timeout=PATIENCE_S * 10, check=False)
    check_sanitizer(done.stderr, argv)
    assert done.returncode == status or status is None and done.returncode in (0, 1), \
        f"injector {argv} ends with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


class Bench(contextlib.ExitStack):
    """Everything that a test starts ends with it. The programs have a copy of the C library, so that probes of others on
    the machine's do not reach them."""

    def __init__(self):
        super().__init__()
        self.folder = self.enter_context(tempfile.TemporaryDirectory(prefix="allocsnap-inject-"))
        os.chmod(self.folder, 0o755)
        shutil.copy(os.path.realpath(LIBRARIES + "libc.so.6"), self.folder)

    def start(self, *argv, preload="", prefix=(), **environment):
        if preload:
            environment["LD_PRELOAD"] = preload
        environment.setdefault("LD_LIBRARY_PATH", self.folder)
        process = Process([*prefix, os.path.join(FOLDER, argv[0]), *map(str, argv[1:])], **environment)
        self.callback(process.kill)
        return process

    def storm(self, mode, *argument, program="storm", **more):
        if mode == "dlopen":
            argument = [os.path.join(SAMPLER_FOLDER, "plugin.so")]
        process = self.start(program, mode, *argument, **more)
        wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
        return process

    def refusing(self, mode, *argument, **more):
        process = self.start("refusals", mode, *argument, **more)
        line = process.popen.stdout.readline()
        if process.popen.poll() == 3:
            raise Skip(f"this kernel has no {mode}")
        assert line == "ready\n", line
        return process

    def start_attach(self, pid, *options):
        """allocsnap attach, from its first snapshot on."""
        folder = tempfile.mkdtemp(dir=self.folder)
        recorder = Process([ALLOCSNAP, "attach", str(pid), "--interval", "1s", "--output", folder, *options])
        self.callback(recorder.kill)
        wait_for(lambda: any(name.endswith(".snap") for *_, names in os.walk(folder) for name in names) or
                 recorder.popen.poll() is not None, "a snapshot", PATIENCE_S)
        assert recorder.popen.poll() is None, recorder.popen.stderr.read()
        return recorder, folder


def stop_attach(recorder):
    recorder.popen.send_signal(signal.SIGINT)
    recorder.popen.communicate(timeout=PATIENCE_S)
    assert recorder.popen.returncode == 0, recorder.popen.returncode


def check_whole_way(process, library="libc.so.6"):
    """Inject, go on, eject, go on; afterwards the library is mapped as before."""
    maps, code, masks = process.library(library), process.code(library), process.signal_masks()
    said = injector("inject", process.pid, 5000)
    assert "function malloc " in said and "function free " in said, said
    process.goes_on()
    assert process.injected(), "nothing is mapped"
    assert "active 1" in injector("find", process.pid)
    assert "refused EEXIST" in injector("inject", process.pid, status=1)
    gone = injector("eject", process.pid)
    process.goes_on()
    check(process.library(library) == maps, "its mappings have changed", Law)
    check(process.code(library) == code, "its code has changed", Law)
    check_equal(process.signal_masks(), masks, "signals that are blocked", Law)
    if "kept 0" in gone:
        check(not process.injected(), "something is still mapped", Law)
        assert "refused ENOENT" in injector("eject", process.pid, status=1)
