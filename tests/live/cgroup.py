# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A memory cgroup for one process of a test: of version 2, or of version 1 if that has the memory controller.

The group is made below our own group or, if version 2 does not allow memory limits there, below the nearest
ancestor that allows them. Only the process of the test is in it, and it is removed with the test.
"""
import contextlib
import os
import pathlib
import signal

from harness import Process, Skip, check_equal, private_mounts, wait_for

# By version: what to write where, and which file counts the kills.
LIMITS = {1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
          2: ("memory.max", "memory.swap.max")}
KILLS = {1: "memory.oom_control", 2: "memory.events"}


def own_path(version):
    """Our own group, as the kernel names it."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" if version == 2 else "memory" in controllers.split(","):
            return path
    return "/"


def mounted():
    """(version, mount point, folder of our own group) of each hierarchy that could do."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        version = 2 if kind == "cgroup2" else 1
        if kind == "cgroup2" or kind == "cgroup" and "memory" in options.split(","):
            own = pathlib.Path(point, os.path.relpath(own_path(version), root))
            yield version, pathlib.Path(point), own if own.exists() else pathlib.Path(point)


def has_memory(folder, file):
    path = folder / file
    return path.exists() and "memory" in path.read_text().split()


def parent_of_v2(point, own):
    """The nearest group that gives memory limits to its children, or None."""
    for folder in (own, *own.parents):
        if has_memory(folder, "cgroup.subtree_control"):
            return folder
        if folder == point:
            break
    return None


@contextlib.contextmanager
def mounted_for_us(bench):
    """Version 2 in mounts of our own, on a machine that has none."""
    folder = bench.path("cgroup")
    os.mkdir(folder)
    holder = bench.start([*private_mounts(), "sh", "-c", f"mount -t cgroup2 none {folder} && "
                          f"echo mounted && read line; umount {folder}"], kind=Process)
    if holder.line() != "mounted":
        raise Skip("no cgroup file system can be mounted")
    try:
        yield pathlib.Path(f"/proc/{holder.pid}/root{folder}")
    finally:
        holder.write("\n")
        holder.wait()


@contextlib.contextmanager
def made_to_give(root):
    """The root of version 2, which gives memory limits to its children for a while."""
    if not has_memory(root, "cgroup.controllers"):
        raise Skip("this machine has no memory cgroups")
    control = root / "cgroup.subtree_control"
    control.write_text("+memory")
    try:
        yield root
    finally:
        control.write_text("-memory")


@contextlib.contextmanager
def parent_group(bench):
    """(version, folder) in which a group with a memory limit can be made."""
    found = sorted(mounted(), key=lambda place: place[0])
    for version, point, own in found:
        parent = own if version == 1 else parent_of_v2(point, own)
        if parent:
            yield version, parent
            return
    with contextlib.ExitStack() as stack:
        root = found[0][1] if found else stack.enter_context(mounted_for_us(bench))
        yield 2, stack.enter_context(made_to_give(root))


class MemoryGroup:
    """A group with a limit; swap does not get around it."""

    def __init__(self, version, folder):
        self.version, self.folder = version, folder

    def limit(self, limit_bytes):
        memory, swap = LIMITS[self.version]
        (self.folder / memory).write_text(str(limit_bytes))
        if (self.folder / swap).exists():  # version 1 counts memory and swap, 2 swap alone
            (self.folder / swap).write_text(str(limit_bytes if self.version == 1 else 0))

    def take_in(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))
        check_equal(self.pids(), [pid], "processes in the memory cgroup")

    def pids(self):
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    def kill_count(self):
        words = (self.folder / KILLS[self.version]).read_text().split()
        return int(words[words.index("oom_kill") + 1])

    def remove(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.pids(), "the end of who is in the memory cgroup")
        wait_for(self._is_removed, "the end of the memory cgroup")

    def _is_removed(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return not self.folder.exists()


@contextlib.contextmanager
def memory_group(bench, limit_bytes):
    with parent_group(bench) as (version, parent):
        folder = parent / f"allocsnap-live.{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            raise Skip(f"no memory cgroup can be made: {error.strerror}") from None
        group = MemoryGroup(version, folder)
        try:
            group.limit(limit_bytes)
            yield group
        finally:
            group.remove()
