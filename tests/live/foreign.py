# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Return probes that are not ours: perf's, by perf_event_open(2)."""
import contextlib
import ctypes
import os
import pathlib
import struct

from harness import check, tool

SYS_PERF_EVENT_OPEN = 298
ATTR_BYTES = 72  # PERF_ATTR_SIZE_VER1
PMU = pathlib.Path("/sys/bus/event_source/devices/uprobe")
libc = ctypes.CDLL(None, use_errno=True)


def open_return_probe(path, offset, pid):
    """A descriptor; a read of it gives how often the function has returned."""
    kind = int((PMU / "type").read_text(encoding="ascii"))
    retprobe = int((PMU / "format/retprobe").read_text(encoding="ascii").split(":")[1])
    name = ctypes.create_string_buffer(os.fsencode(path))
    attr = struct.pack("=IIQQQQQIIQQ", kind, ATTR_BYTES, 1 << retprobe, 0, 0, 0, 0, 0, 0,
                       ctypes.addressof(name), offset)
    fd = libc.syscall(SYS_PERF_EVENT_OPEN, attr, pid, -1, -1, 8)
    check(fd >= 0, f"perf_event_open: {os.strerror(ctypes.get_errno())}")
    return fd


def offsets(bench, path, functions):
    """The functions' offsets in the file: GNU ld gives code an address that equals its offset."""
    lines = bench.run([tool("nm"), path])[0].split("\n")
    known = {line.split()[-1]: int(line.split()[0], 16) for line in lines if line[:1] == "0"}
    return [known[name] for name in functions]


@contextlib.contextmanager
def return_probes(bench, workload, functions):
    """Keeps return probes on the functions. At the end each must have been hit, or the test proves nothing."""
    path = workload.popen.args[0]
    fds = [open_return_probe(path, offset, workload.pid)
           for offset in offsets(bench, path, functions)]
    try:
        yield
        for name, fd in zip(functions, fds):
            check(struct.unpack("=Q", os.read(fd, 8))[0], f"{name}: its return probe was not hit")
    finally:
        for fd in fds:
            os.close(fd)
