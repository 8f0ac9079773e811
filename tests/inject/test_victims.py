# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that do what an injector easily harms, injected and ejected again and again. Each of them checks itself, and is
afterwards as it was: signal masks, handlers, pending signals, descriptors, mappings, code."""
import concurrent.futures
import contextlib
import os
import re
import subprocess

from bench import FOLDER, by_hooks, has_hooks, injector, read_text
from harness import Failure, Law, Skip, check, check_equal, core, runs_core, wait_for
from harness.suite import for_each
from test_inject import Killed

CYCLES = 3 if runs_core() else 1000
AT_A_TIME = 8  # most of them wait
INJECTED, REFUSED, EITHER = "injected", "refused", "either"


def take_out(process):
    """A sampler that stayed because a thread was inside."""
    def is_out():
        if process.injected():
            injector("eject", process.pid, status=None)
        return not process.injected()
    wait_for(is_out, "the sampler is out", 20)


def check_same(before, after):
    changed = {name: (before.get(name), after.get(name)) for name in before | after
               if name != "code" and before.get(name) != after.get(name)}
    check_equal(changed, {}, "what has changed", Law)
    check(before.get("code") == after.get("code"), "the code has changed", Law)


def check_victim(process, outcome, cycles=CYCLES):
    """outcome: whether it is injected, or refused for a reason of one line, each time; in both cases it is as it was."""
    process.find_victim()
    with process.held():
        before = process.looks()
    if outcome == INJECTED:
        said = injector("cycles", process.pid, cycles, status=None, AGAIN=str(10 + cycles // 10)).strip()
    else:
        said = injector("tries", process.pid, cycles, AGAIN=str(100 * cycles)).strip()
    process.goes_on()
    take_out(process)
    with process.held():
        check_same(before, process.looks())
    process.end()
    found = re.fullmatch(r"cycles (\d+), .+(?:\nrefused (\d+)(?: E[A-Z]+ (.+))?)?", said)
    check(found, f"it must be {outcome}, and: {said}")
    injected, refused = int(found[1]), int(found[2] or 0)
    check_equal(injected + refused, cycles, "tries")
    check(bool(refused) == bool(found[3]), f"a refusal has a reason of one line, and: {said!r}")
    check(not (refused if outcome == INJECTED else injected if outcome == REFUSED else 0), f"it must be {outcome}, and: {said}")
    return said.replace("\n", ", ")


def check_calls(bench, program):
    """Each call that a program waits by, in a process of its own."""
    def check_call(name):
        try:
            check_victim(bench.start(program, name, bench.folder), INJECTED)
        except (Failure, AssertionError) as error:
            return f"{name}: {str(error)[:300]}"
        return None
    names = subprocess.run([os.path.join(FOLDER, program), "-l"], capture_output=True, text=True, check=True).stdout.split()
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        harmed = list(filter(None, pool.map(check_call, names)))
    check(not harmed, f"{len(harmed)} of {len(names)}: " + "; ".join(harmed), Law)
    return f"{len(names)} calls"


@by_hooks()
@core
def test_calls_with_a_time_limit(bench):
    return check_calls(bench, "waits")


@by_hooks()
@core
def test_calls_that_are_woken(bench):
    return check_calls(bench, "wakes")


# ---- modes: each checks that nothing happens to it but what it does itself ----

CODE = {
    "rseq-count 1": INJECTED,
    "rseq-count 4": INJECTED,
    "rseq-list 1": INJECTED,
    "rseq-list 4": INJECTED,
    "code32 2": INJECTED,
    "code32-by-turns 1": EITHER,
    "code32-by-turns 4": EITHER,
    "code32-ldt 1": EITHER,
    "code32-ldt 3": EITHER,
    "only32": REFUSED,
    "dispatched 1": REFUSED,
    "dispatched 2": REFUSED,
    "dispatched-by-one": EITHER,
    "dispatched-by-turns 2": EITHER,
    "steps": EITHER,
}
STATE = {
    "masked": INJECTED,
    "traps": INJECTED,
    "queued": INJECTED,
    "raises": INJECTED,
    "stops 1": EITHER,
    "stops 2": EITHER,
    "stopped 2": EITHER,
    "closes": INJECTED,
    "filtered": INJECTED,
    "offsets": INJECTED,
    "workers": INJECTED,
    "files": INJECTED,
    "below": INJECTED,
    "own-files": INJECTED,
    "all-files": REFUSED,
    "all-memory": REFUSED,
    "shared-files": EITHER,
    "no-leader": EITHER,
}
STATE |= {f"all-mappings {nr}": EITHER for nr in (0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40)}
POINTERLESS = {"none": REFUSED, "unmapped": REFUSED, "other": REFUSED, "good": INJECTED, "shared": EITHER}

MODES = {mode.replace(" ", "-"): (program, mode.split(), outcome)
         for program, modes in (("victim_code", CODE), ("victim_state", STATE), ("pointerless", POINTERLESS),
                                ("pointerless_near", {"good near": EITHER}))
         for mode, outcome in modes.items()}
FEWER = "all-mappings", "only32"  # each look reads 65,000 mappings; each refusal is 50 tries
KILLED = "raises", "files"  # in the core by test_killed_beside
GATED = [name for name in MODES if not name.startswith("all-mappings") and name not in KILLED]


def check_io_uring():
    with contextlib.suppress(FileNotFoundError):  # a kernel before 6.6 has no such switch
        if read_text("/proc/sys/kernel/io_uring_disabled") == "2\n":
            raise Skip("kernel.io_uring_disabled is 2: no process has workers")


@by_hooks(of_core=("masked", "traps", "closes"))
@for_each(MODES, of_core=GATED)
def test_mode(bench, name):
    program, mode, outcome = MODES[name]
    if has_hooks() and name == "good":
        outcome = REFUSED  # it has no C library, which keeps the number of a thread
    if name == "workers":
        check_io_uring()
    process = bench.start(program, *mode)
    return check_victim(process, outcome, max(1, CYCLES // 50) if mode[0] in FEWER else CYCLES)


# ---- the injector is killed beside them ----

@by_hooks()
@for_each(KILLED, of_core=KILLED)
def test_killed_beside(bench, mode):
    """At each moment (in the core at ever fewer, and on the way in): all its signals come, and its descriptors stay."""
    process = bench.start("victim_state", mode)
    process.find_victim()
    with process.held():
        before = process.looks()
    injectors, moments = Killed(bench, process.pid), 0
    for action in ("inject", "eject")[:1 if runs_core() else 2]:
        moment = 1
        while injectors.order(action, moment):
            process.goes_on()
            injector("eject", process.pid, status=None, TRIES="200")
            take_out(process)
            with process.held():
                check_same(before, process.looks())
            if action == "eject":
                injectors.order("inject")
            moment += moment // 2 + 1 if runs_core() else 1
            moments += 1
    process.end()
    return f"{moments} moments"
