# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Probes in programs, and objects in the kernel, of a recording."""
import contextlib
import functools
import json
import mmap
import os
import pathlib
import re
import subprocess
import tempfile

from .checks import Law, Skip, check, tool, wait_for
from .processes import is_running, link_holder_of
from .suite import must_be_alone


def executable_mappings(pid):
    """(low, high, offset) of the code that a process maps from files."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ (\d+) +/", line)
        if match and match[4] != "0":
            yield tuple(int(match[i], 16) for i in (1, 2, 3))


def changed_places(pid, path=""):
    """{(device, inode, offset)} of the bytes of a process's code that differ from its files, or from one of them: the
    breakpoints in it."""
    changed = set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for low, high, offset in executable_mappings(pid):
            if path and os.readlink(f"/proc/{pid}/map_files/{low:x}-{high:x}") != path:
                continue
            with open(f"/proc/{pid}/map_files/{low:x}-{high:x}", "rb") as file:
                file.seek(offset)
                original, status = file.read(high - low), os.fstat(file.fileno())
            memory.seek(low)
            found = memory.read(len(original))
            if found != original:
                changed |= {(status.st_dev, status.st_ino, offset + i)
                            for i, (a, b) in enumerate(zip(found, original)) if a != b}
    return changed


def changed_code(pid, path=""):
    return len(changed_places(pid, path))


def breakpoints_of(path, offset=0, size=None):
    """{place: the byte below it} of the breakpoints that each new process finds in a file, or in a part of it: recorders of
    all processes have them in each mapping of its code, so also in one of our own."""
    with open(path, "rb") as file:
        original = os.pread(file.fileno(), size or os.fstat(file.fileno()).st_size, offset)
        with mmap.mmap(file.fileno(), len(original), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC,
                       offset=offset) as mapped:
            found = mapped[:]
    return {} if found == original else {i: original[i] for i in range(len(original)) if found[i] != original[i]}


def strangers_probes():
    """Breakpoints that recordings of the whole machine have in every process, so also in this one."""
    return changed_places(os.getpid())


def check_unchanged(pid, what, before=None):
    """A process has only strangers' breakpoints. Where the test itself records the whole machine, it says
    which were there before; a stranger's that came since then must go."""
    if before is not None:
        wait_for(lambda: not changed_places(pid) - before, f"{what}: no breakpoint of ours, or of a new stranger", 15, Law)
    left = strangers_probes(), changed_places(pid), strangers_probes()
    check(not left[1] - left[0] - left[2], f"{what}: breakpoints are left in its code", Law)


def fdinfo(path):
    """The lines of a file; none if its descriptor has just been closed."""
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def bpf_ids(pid):
    """{"prog": ids, "link": ids} that a recording holds open, and the process that keeps its links."""
    ids = {"prog": set(), "link": set()}
    for holder in filter(None, (pid, link_holder_of(pid))):
        for path in pathlib.Path(f"/proc/{holder}/fdinfo").iterdir():
            for line in fdinfo(path):
                for kind, found in ids.items():
                    if line.startswith(f"{kind}_id:"):
                        found.add(int(line.split()[1]))
    return ids


def bpf_ids_in_kernel():
    """All IDs in the kernel, of any holder: {"prog": ids, "link": ids}."""
    must_be_alone()
    return {kind: ids_in_kernel(kind) for kind in ("prog", "link")}


def ids_in_kernel(kind):
    """bpftool fails if an object, of any recorder, goes while it lists them: then it is asked again."""
    listed = []

    def is_listed():
        done = subprocess.run([tool("bpftool"), "--json", kind, "list"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            listed.extend(json.loads(done.stdout or "[]"))
        return done.returncode == 0
    wait_for(is_listed, f"bpftool lists each {kind}")
    return {item["id"] for item in listed}


def preempts_itself():
    """Whether another thread may run within one that is in the kernel."""
    with contextlib.suppress(OSError):
        return bool(re.search(r"\((?:full|lazy)\)", pathlib.Path("/sys/kernel/debug/sched/preempt").read_text()))
    return False


def need_overlays():
    if "\toverlay\n" not in pathlib.Path("/proc/filesystems").read_text(encoding="ascii"):
        raise Skip("this kernel has no overlays")


@functools.cache
def private_mounts():
    """The command that runs another one with mounts of its own. Where / is no mount point, as in
    a plain chroot, unshare can't make them private: they are what the mount above them is."""
    unshare = [tool("unshare"), "-m"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        unshare += ["--propagation", "unchanged"]
    return unshare


def kill_and_check(bench, recording, target, when):
    """Nothing stays behind a recording that is killed now: no link, no process, no breakpoint."""
    link_holder, own = link_holder_of(recording.pid), set()
    with contextlib.suppress(FileNotFoundError):  # it may have ended by itself: then it holds nothing
        own = bpf_ids(recording.pid)["link"]
    recording.popen.kill()
    recording.wait(60)

    def is_gone():
        return (not own & ids_in_kernel("link") and not changed_places(target.pid) - strangers_probes()
                and not (link_holder and is_running(link_holder)))

    wait_for(is_gone, f"{when}: its links, link_holder and breakpoints are gone", 60, Law)


def uprobe_events(bench):
    """The lines of tracefs' uprobe_events. It is mounted in a namespace of its own, and on a folder
    of its own: mount refuses to mount it a second time where the machine already has it."""
    must_be_alone()
    folder = tempfile.mkdtemp(prefix="tracing.", dir=bench.folder)
    script = 'mount -t tracefs none "$0" && cat "$0/uprobe_events"'
    return bench.run([*private_mounts(), "sh", "-c", script, folder])[0].splitlines()
