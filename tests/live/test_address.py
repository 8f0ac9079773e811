# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""show --address: tracemalloc's get_object_traceback() on a snapshot."""
import ctypes
import json
import signal

from harness import Process, check, check_equal

# Allocates a block, prints its address, then waits.
SCRIPT = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
sys.stdin.readline()
print(libc.malloc(123457), threading.get_native_id(), flush=True)
sys.stdin.readline()
"""


def test_show_finds_the_block_at_an_address(bench):
    python = bench.start(["/usr/bin/python3", "-c", SCRIPT], kind=Process)
    recording = bench.attach([python], "--domain", "malloc")
    python.write("\n")
    address, thread = map(int, python.line().split())
    path = recording.snapshot()
    times = bench.show(path)["metadata"]
    lasted_ns = times["monotonic_ns"] - times["recording_start_monotonic_ns"]
    for inside in (address, address + 1, address + 123456):
        block = json.loads(bench.allocsnap("show", path, "--address", hex(inside), "--json")[0])
        check_equal((block["address"], block["size"], block["thread"], block["domain"]),
                    (address, 123457, thread, 0), "the block")
        check(0 < block["age_ns"] < lasted_ns, f"its age: {block['age_ns']} of {lasted_ns}")
        check(block["traceback"], "no traceback")
    text = bench.allocsnap("show", path, "--address", str(address))[0]
    check(text.startswith(f"{hex(address)}: 121 KiB in domain 0 (malloc), by thread {thread}, "), text)
    check("ffi" in text, f"not called through libffi: {text}")
    bench.allocsnap("show", path, "--address", hex(address + 123457 + ctypes.sizeof(
        ctypes.c_size_t)), status=1)
    bench.allocsnap("show", path, "--address", "0x", status=2)
    recording.end(signal.SIGINT)
