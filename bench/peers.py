# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The compared profilers: how each is attached to a process, and its own cost. Each target runs with a folder of
libraries of its own (LD_LIBRARY_PATH), so that a uprobe that ignores the PID, as bpftrace's, hits no other
process."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

LIBRARIES = "/lib/x86_64-linux-gnu"
PRELOAD = "/usr/lib/heaptrack/libheaptrack_preload.so"
INTERPRET = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
READY_SECONDS = 60
KERNEL_HEADERS = f"/lib/modules/{os.uname().release}/build"
BPFTRACE_BLOCKS = 1000000  # as many as memleak's map has


def copy_libraries(folder, names=("libc.so.6",)):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(os.path.join(LIBRARIES, name), folder / name)
    return folder


def cpu_ns(pid):
    """Processor time, user and system, of all threads, also of ended ones."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # as clock_getcpuclockid(3) makes it


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text(encoding="ascii").split():
                found += family(int(child))
    return found


def family_cpu_ns(pid):
    """CPU time by process; some processes exit meanwhile."""
    found = {}
    for member in family(pid):
        with contextlib.suppress(OSError):
            found[member] = cpu_ns(member)
    return found


FUTEX = "202"


def has_begun(pid):
    """It waits for something else than its recorder, which answers a futex of its books."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    call = pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0]
    return "memfd:allocsnap-books" in maps and call not in ("running", FUTEX)


def program_below(popen, starter):
    """The PID of the program that `run --exact` has started, once it records and waits for its work."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and popen.poll() is None:
        for pid in family(popen.pid):
            with contextlib.suppress(OSError):
                if not os.path.samefile(f"/proc/{pid}/exe", starter) and has_begun(pid):
                    return pid
        time.sleep(0.002)
    raise RuntimeError(f"{starter} has started no program")


# ---- how each is started ----------------------------------------------------------------------
# A command of a target's PID and of the library that has its malloc, and the environment it needs.

def memleak(places, pid, library):
    root = places.peers / "memleak/usr"
    libraries = root / "lib/x86_64-linux-gnu"
    library = os.path.relpath(library, places.work)  # it cuts paths at 31 characters
    return [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries,
            root / "sbin/memleak-libbpf", "-p", pid, "-O", library, "10000"], {}


def memleak_bpfcc(places, pid, library):
    argv = ["/usr/sbin/memleak-bpfcc", "-p", pid, "-O", library, "10000"]
    if os.path.exists(KERNEL_HEADERS):
        return argv, {}
    return argv, {"BCC_KERNEL_SOURCE": str(places.peers / "headers/merged")}


def bpftrace(places, _pid, library):
    script = pathlib.Path(__file__).with_name("live_blocks.bt").read_text(encoding="utf-8")
    path = places.work / "live_blocks.bt"
    path.write_text(script.replace("LIBRARY", str(library)), encoding="utf-8")
    return ["bpftrace", path], {"BPFTRACE_MAP_KEYS_MAX": str(BPFTRACE_BLOCKS)}


def why_not(places, name, path):
    """None, or why there is no such file."""
    if os.path.exists(path) or shutil.which(path):
        return None
    with contextlib.suppress(OSError):
        for line in (places.peers / "missing").read_text(encoding="utf-8").splitlines():
            if line.partition(":")[0] in (name, "all"):
                return line.partition(": ")[2]
    return f"no {path}"


class Attached:
    """A profiler at work on a process."""

    def __init__(self, argv, environment, log):
        with open(log, "wb") as output:
            self.popen = subprocess.Popen([str(word) for word in argv], env=os.environ | environment,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=output, cwd=pathlib.Path(log).parent)
        self.log = log
        self.begun_ns = {}

    def check(self):
        if self.popen.poll() is None:
            return
        raise RuntimeError(self.complaint() or f"ended with {self.popen.returncode}")

    def complaint(self):
        """The first thing that went wrong, not what followed from it."""
        said = pathlib.Path(self.log).read_text(errors="replace").strip().splitlines()
        wrong = [line for line in said if "failed" in line or "Exception: " in line]
        return (wrong or said[-1:] or [None])[0]

    def wait_for_line(self):
        if not self.popen.stdout.readline():
            self.popen.wait()
            self.check()

    def wait_for_probes(self):
        """A profiler that does not report when it is ready counts as ready after a second without new probes."""
        deadline, seen, since = time.monotonic() + READY_SECONDS, 0, time.monotonic()
        while time.monotonic() < deadline:
            self.check()
            found = sum("perf_event" in link or "bpf" in link for link in self.descriptors())
            if found != seen:
                seen, since = found, time.monotonic()
            if seen and time.monotonic() > since + 1 and self.has_probes():
                return
            time.sleep(0.05)
        raise RuntimeError(f"is not ready after {READY_SECONDS} s")

    def descriptors(self):
        for path in pathlib.Path(f"/proc/{self.popen.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(path)

    def has_probes(self):
        return any("[perf_event]" in link for link in self.descriptors())

    def family_cpu_ns(self):
        return family_cpu_ns(self.popen.pid)

    def begin(self):
        """own_ns() counts from here on."""
        self.begun_ns = self.family_cpu_ns()

    def own_ns(self):
        now_ns = self.family_cpu_ns()
        return sum(ns - self.begun_ns.get(member, 0) for member, ns in now_ns.items())

    def end(self):
        """Kills it: bpftrace would print for a minute if it was asked to end."""
        self.popen.kill()
        self.popen.communicate()


class Recording(Attached):
    """allocsnap attach."""

    def __init__(self, argv, log, folder):
        super().__init__(argv, {}, log)
        self.folder = folder

    def wait_until_ready(self):
        """It answers a signal when it records; before it holds it back it would end it."""
        bit = 1 << (signal.SIGUSR1 - 1)
        while True:
            self.check()
            status = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text(encoding="ascii")
            blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
            if int(blocked.split()[1], 16) & bit:
                break
            time.sleep(0.01)
        self.popen.send_signal(signal.SIGUSR1)
        self.wait_for_line()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(signal.SIGTERM)
        self.popen.communicate(timeout=READY_SECONDS)

    def snapshots(self):
        return sorted(self.folder.glob("*/*/*.snap"))


class Profiler:
    """A way to profile. command: words before the target's own, if the profiler starts it; environment: the variables
    that the target needs; attach(): None if these are enough."""

    def __init__(self, name, missing=None):
        self.name = name
        self.missing = missing

    def command(self, _places):
        return []

    def environment(self, _places):
        return {}

    def attach(self, _places, _pid, _library):
        return None


class Allocsnap(Profiler):
    def __init__(self, places, name, *options):
        super().__init__(name)
        self.options = options
        done = subprocess.run([places.allocsnap, "attach", "--help"], check=True,
                              stdout=subprocess.PIPE, text=True)
        for option in options:
            if option.startswith("--") and option.partition("=")[0] not in done.stdout:
                self.missing = f"not there: {option}"

    def attach(self, places, pid, _library):
        folder = places.work / f"snapshots.{pid}"
        shutil.rmtree(folder, ignore_errors=True)
        recording = Recording([places.allocsnap, "attach", pid, "-o", folder, *places.more_options, *self.options],
                              places.work / f"{len(os.listdir(places.work))}.log", folder)
        recording.wait_until_ready()
        return recording


class Started(Attached):
    """allocsnap run: it has started the program, and ends with it."""

    def __init__(self, pid, program, folder):  # pylint: disable=super-init-not-called
        self.pid = pid
        self.program = program
        self.folder = folder
        self.begun_ns = {}

    def family_cpu_ns(self):
        found = family_cpu_ns(self.pid)
        found.pop(self.program, None)
        return found

    def end(self):
        pass

    def snapshots(self):
        return sorted(self.folder.glob("*/*/*.snap"))


class RunExact(Profiler):
    """allocsnap run --exact: every block, in the program's own books."""

    def __init__(self, name="run --exact"):
        super().__init__(name)
        self.folder = None

    def command(self, places):
        self.folder = places.work / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        return [places.allocsnap, "run", "--exact", "-i", "1h", "-o", self.folder, *places.more_options, "--"]

    def attach(self, places, pid, _library):
        parent = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return Started(int(parent.rpartition(")")[2].split()[1]), pid, self.folder)


class Peer(Profiler):
    """An eBPF profiler. needs: {what fetch-peers.sh calls it: its file}."""

    def __init__(self, places, name, needs, command):
        reasons = [why_not(places, what, path) for what, path in needs.items()]
        super().__init__(name, next(filter(None, reasons), None))
        self.command = command

    def attach(self, places, pid, library):
        argv, environment = self.command(places, pid, library)
        attached = Attached(argv, environment, places.work / f"{len(os.listdir(places.work))}.log")
        attached.wait_for_probes()
        return attached


class Sampler(Profiler):
    """allocsnap's own library in the process; with `recording` attached, or no recording."""

    def __init__(self, name, library, recording=None):
        super().__init__(name)
        self.library = library
        self.recording = recording

    def environment(self, _places):
        return {"LD_PRELOAD": str(self.library), "ALLOCSNAP_SAMPLE": "512K"}

    def attach(self, places, pid, library):
        if str(self.library) not in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace"):
            raise RuntimeError(f"has not loaded {self.library}")
        return self.recording.attach(places, pid, library) if self.recording else None


class Jemalloc(Profiler):
    """jemalloc in place of the program's malloc; with its own heap profiler, one sample in 512 KiB, or without."""

    LIBRARY = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

    def __init__(self, name, is_profiled):
        super().__init__(name, None if os.path.exists(self.LIBRARY) else f"no {self.LIBRARY}")
        self.is_profiled = is_profiled

    def environment(self, _places):
        wanted = {"LD_PRELOAD": self.LIBRARY}
        if self.is_profiled:
            wanted["MALLOC_CONF"] = "prof:true,prof_active:true,lg_prof_sample:19"
        return wanted


class Tracemalloc(Profiler):
    """Python's own, with that many frames, from the program's start on; the program's start is not in its work."""

    def __init__(self, frames):
        super().__init__(f"tracemalloc({frames})")
        self.frames = frames

    def environment(self, _places):
        return {"PYTHONTRACEMALLOC": str(self.frames)}


class Heaptrack(Profiler):
    """Its library runs in the target and writes a raw file; interpreting the file later costs the target nothing."""

    def __init__(self, places):
        super().__init__("heaptrack", why_not(places, "heaptrack", PRELOAD))

    def environment(self, places):
        return {"LD_PRELOAD": PRELOAD, "DUMP_HEAPTRACK_OUTPUT": str(places.work / "heaptrack.raw")}

    @staticmethod
    def interpret_ns(places):
        """The time that heaptrack needs afterwards to interpret its file."""
        with open(places.work / "heaptrack.raw", "rb") as raw:
            popen = subprocess.Popen([INTERPRET], stdin=raw, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            usage = os.wait4(popen.pid, 0)[2]
        popen.returncode = 0
        return int((usage.ru_utime + usage.ru_stime) * 1e9)


class Places:
    """The folders and files of the benchmark."""

    def __init__(self, allocsnap, bench, peers, work):
        self.allocsnap = allocsnap
        self.bench = pathlib.Path(bench)
        self.peers = pathlib.Path(peers)
        self.work = self.bench / work
        self.more_options = ()  # of allocsnap, for the program at work
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)


def ebpf_peers(places):
    headers = places.peers / "headers/merged"
    if os.path.exists(KERNEL_HEADERS):
        headers = KERNEL_HEADERS
    return [
        Peer(places, "memleak", {"memleak": places.peers / "memleak/usr/sbin/memleak-libbpf"},
             memleak),
        Peer(places, "memleak-bpfcc",
             {"bpfcc-tools": "/usr/sbin/memleak-bpfcc", "headers": headers}, memleak_bpfcc),
        Peer(places, "bpftrace", {"bpftrace": "bpftrace"}, bpftrace),
    ]
