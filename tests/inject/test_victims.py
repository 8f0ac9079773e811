# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that do what an injector easily harms, injected and ejected again and again. Each of them checks itself, and is
afterwards as it was: signal masks, handlers, pending signals, descriptors, mappings, code."""
import concurrent.futures
import os
import re
import subprocess

from bench import FOLDER, injector
from harness import Failure, Law, check, check_equal, core, runs_core, wait_for

CYCLES = 3 if runs_core() else 1000
AT_A_TIME = 8  # most of them wait


def take_out(process):
    """A sampler that stayed because a thread was inside."""
    def is_out():
        if process.maps("memfd:allocsnap-sampler"):
            injector("eject", process.pid, status=None)
        return not process.maps("memfd:allocsnap-sampler")
    wait_for(is_out, "the sampler is out", 20)


def check_same(before, after):
    changed = {name: (before.get(name), after.get(name)) for name in before | after
               if name != "code" and before.get(name) != after.get(name)}
    check_equal(changed, {}, "what has changed", Law)
    check(before["code"] == after["code"], "the code has changed", Law)


def check_victim(process, cycles=CYCLES, refused=None):
    """refused: how the reason begins for which nothing may be injected; may also have |, and may match nothing."""
    with process.held():
        before = process.looks()
    said = injector("cycles", process.pid, cycles, status=0 if refused is None else None)
    check(not said.startswith("refused") or re.match(f"refused {refused}", said), said)
    process.goes_on()
    take_out(process)
    with process.held():
        check_same(before, process.looks())
    process.end()
    return said.strip()


def check_calls(bench, program):
    """Each call that a program waits by, in a process of its own."""
    def check_call(name):
        try:
            check_victim(bench.victim(program, name, bench.folder))
        except (Failure, AssertionError) as error:
            return f"{name}: {str(error)[:300]}"
        return None
    names = subprocess.run([os.path.join(FOLDER, program), "-l"], capture_output=True, text=True, check=True).stdout.split()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        harmed = list(filter(None, pool.map(check_call, names)))
    check(not harmed, f"{len(harmed)} of {len(names)}: " + "; ".join(harmed), Law)
    return f"{len(names)} calls"


@core
def test_calls_with_a_time_limit(bench):
    return check_calls(bench, "waits")


@core
def test_calls_that_are_woken(bench):
    return check_calls(bench, "wakes")
