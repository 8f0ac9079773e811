# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""hooked.py: a Python program that allocates in several threads, and checks what it gets. For each line on stdin it
prints "rounds N bad M of PID": PID is the child that it has forked last, or itself. At the end of stdin it ends with
status 0 if nothing was bad. Lines: "fork", "reap" (the child ends), "trace" and "untrace" (tracemalloc), "lock" (mlockall);
from "threads" on it begins and ends threads, from "programs" on it runs others. With DEEP in its environment its first stack
has been deep before."""
import ctypes
import json
import os
import subprocess
import sys
import threading
import tracemalloc
import zlib

STATE = {"rounds": 0, "bad": 0, "ends": False}
CHILD, THREADS = [], []
TEXT = b"".join(b"%d," % (i * i) for i in range(20000))
PACKED = zlib.compress(TEXT)
UNPACKING = threading.Lock()


def expect(is_good):
    if not is_good:
        STATE["bad"] += 1


def allocate(seed):
    """Small objects, large ones, some that move."""
    values = [{"n": i, "text": str(i * seed) * (i % 40), "list": list(range(i % 60))} for i in range(60)]
    again = json.loads(json.dumps(values))
    expect(again == values)
    grown = bytearray()
    for i in range(200):
        grown += bytes([i]) * i
    expect(sum(grown) == sum(i * i for i in range(200)))
    expect(sum(sum(value["list"]) for value in values) == sum(n * (n - 1) // 2 for n in range(60)))


def work(seed):
    while not STATE["ends"]:
        allocate(seed)
        STATE["rounds"] += 1


def unpack():
    """Mostly in calls without the GIL, which take blocks of the raw domain."""
    while not STATE["ends"]:
        with UNPACKING:
            expect(zlib.decompress(PACKED) == TEXT)


def untrace():
    """CPython 3.11 crashes by itself if tracemalloc ends while another thread allocates without the GIL: traceback_new()
    has no memory for its frames any more (Modules/_tracemalloc.c)."""
    with UNPACKING:
        tracemalloc.stop()


def churn(once):
    def go_on():
        while not STATE["ends"]:
            once()
    THREADS.append(threading.Thread(target=go_on))
    THREADS[-1].start()


def begin_and_end():
    threads = [threading.Thread(target=allocate, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_program():
    """By vfork(), and by fork()."""
    for preexec in None, lambda: allocate(1):
        expect(subprocess.run(["/bin/true"], preexec_fn=preexec, check=False).returncode == 0)


def begin():
    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 7)] + [threading.Thread(target=unpack)]
    for thread in threads:
        thread.start()
    return threads


def be_child(end):
    """Threads of its own, until its pipe ends."""
    STATE.update(rounds=0, bad=0)
    threads = begin()
    os.read(end, 1)
    STATE["ends"] = True
    for thread in threads:
        thread.join()
    os._exit(STATE["bad"] != 0 or not STATE["rounds"])


def fork():
    end, ours = os.pipe()
    with UNPACKING:  # the child has a copy that no thread of its own holds
        pid = os.fork()
    if not pid:
        os.close(ours)
        be_child(end)
    os.close(end)
    CHILD.append((pid, ours))


def reap():
    pid, ours = CHILD.pop()
    os.close(ours)
    expect(os.waitpid(pid, 0)[1] == 0)


ORDERS = {"threads": lambda: churn(begin_and_end), "programs": lambda: churn(run_program), "fork": fork, "reap": reap, "trace": tracemalloc.start, "untrace": untrace,
          "lock": lambda: expect(ctypes.CDLL(None).mlockall(2) == 0)}


def be_deep():
    """By recursion of C code, which leaves the whole stack used."""
    sys.setrecursionlimit(10000)
    expect(json.loads("[" * 3000 + "]" * 3000))


def main():
    if "DEEP" in os.environ:
        be_deep()
    threads = begin()
    for line in sys.stdin:
        ORDERS.get(line.strip(), lambda: None)()
        print(f"rounds {STATE['rounds']} bad {STATE['bad']} of {CHILD[-1][0] if CHILD else os.getpid()}", flush=True)
    STATE["ends"] = True
    for thread in threads + THREADS:
        thread.join()
    sys.exit(STATE["bad"] != 0)


main()
