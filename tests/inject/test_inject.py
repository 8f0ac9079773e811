# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A sampler is put into running programs, and taken out, while the worst happens."""
import os
import re
import signal
import subprocess
import time

from bench import (ALLOCATORS, ALLOCSNAP, FOLDER, INJECTOR, PATIENCE_S, SAMPLER_FOLDER, Process, check_whole_way, injector,
                   stop_attach)
from harness import Law, check, check_sanitizer, core, runs_core, wait_for
from harness.suite import for_each

STORMS = ("alloc", "spawn", "fork", "thread", "crowd", "signal", "dlopen", "coroutine", "calls", "float")

# ---- the way in and out ----

WAYS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")


@for_each(WAYS, of_core=WAYS)
def test_whole_way(bench, allocator):
    preload = ALLOCATORS[allocator]
    process = bench.storm("alloc", preload=preload)
    check_whole_way(process, os.path.basename(preload or "libc.so.6"))
    process.end()


@core
def test_static_program(bench):
    process = bench.storm("alloc", program="storm_static")
    check_whole_way(process, "storm_static")
    process.end()


@core
def test_seccomp(bench):
    """All calls but a few end the program, mmap and mremap with them."""
    process = bench.storm("seccomp")
    check_whole_way(process)
    process.end()


@core
def test_caller_that_ignores_its_children(bench):
    """A child does the work, and the kernel tells nothing of its end."""
    process = bench.storm("alloc")
    for action in "inject", "eject":
        done = subprocess.run(["env", "--ignore-signal=CHLD", INJECTOR, action, str(process.pid), "5000"], capture_output=True,
                              env=os.environ | {"TRIES": "200"}, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done
    process.goes_on()
    process.end()


# ---- what the sampler tells: the programs of tests/sampler catch its probes themselves ----

def exercise(mode, allocator="glibc", behind=None, interval=4096, program=None, **environment):
    program = program or ("exercise_musl" if allocator == "musl" else "exercise")
    environment |= {"INTERVAL": str(interval), "INJECT": f"env -u LD_PRELOAD TRIES=200 {INJECTOR} inject",
                    "LD_PRELOAD": behind or ALLOCATORS[allocator]}
    if allocator == "jemalloc":
        environment["NO_PVALLOC"] = "1"
    done = subprocess.run([os.path.join(SAMPLER_FOLDER, program), mode], env=os.environ | environment,
                          capture_output=True, text=True, timeout=PATIENCE_S * 10, check=False)
    said = "\n".join(line for line in done.stderr.splitlines()
                     if not re.match("function |allocator |times ", line))
    check_sanitizer(done.stderr, mode)
    check(done.returncode >= 0, f"{mode} ends with {done.returncode}: {said}", Law)
    assert done.returncode == 0 and not said, f"{mode} ends with {done.returncode}: {said}{done.stdout}"
    return done.stdout


@for_each(ALLOCATORS)
def test_functions(_, allocator):
    """All functions with each way to fail; every block is a sample."""
    exercise("functions", allocator, interval=1)


@for_each(ALLOCATORS)
def test_estimates(_, allocator):
    """The live blocks of each round; each round has new threads."""
    return exercise("estimates", allocator, ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_estimates_while_the_interval_changes(_):
    return exercise("estimates-changing", interval=8192, ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_five_thousand_threads(_):
    """More than there are slots."""
    return exercise("estimates", ROUNDS="1250")


@for_each(("lockfree", "nested"))
def test_signal_handlers_that_allocate(_, name):
    exercise("signals", behind=os.path.join(FOLDER, name + ".so"), interval=500)


def test_calls_below_strict_seccomp(_):
    exercise("strict", behind=os.path.join(FOLDER, "lockfree.so"), interval=2000)


def test_full_set(_):
    exercise("full", interval=1)


def test_libraries_that_come_and_go(_):
    exercise("dlopen", interval=1, PLUGIN=os.path.join(SAMPLER_FOLDER, "plugin.so"))


# ---- the injector is killed ----

class Killed:
    """Injectors that are killed at a moment; 0: at none. One plan serves for all."""

    def __init__(self, bench, pid, **environment):
        self.served = Process([INJECTOR, "serve", str(pid), "5000"], TRIES="200", **environment)
        bench.callback(self.served.kill)

    def order(self, action, moment=0):
        """Whether it was killed."""
        self.served.popen.stdin.write(f"{action} {moment}\n")
        said = [self.served.popen.stdout.readline()]
        while not re.match("killed|done|refused", said[-1]):
            assert said[-1], f"moment {moment}: {said}{self.served.popen.stderr.read()}"
            said.append(self.served.popen.stdout.readline())
        assert not said[-1].startswith("refused"), f"moment {moment}: {said}"
        return said[-1] == "killed\n"


EACH = 3 if runs_core() else 1  # so many moments at a time


def check_deaths(bench, process, action, step):
    """At each moment the process lives; then what was left is taken out."""
    maps, code, masks, files = (process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(),
                                process.files())
    injectors, moment = Killed(bench, process.pid), 1

    def prepare():
        if action != "eject":
            return None
        injectors.order("inject")
        return process.sampler_room()
    room = prepare()
    while injectors.order(action, moment):
        process.goes_on()
        if action == "eject" and process.maps("memfd:allocsnap-sampler"):
            assert process.sampler_room() == room, f"moment {moment}: the process could map something amid the sampler"
        injector("eject", process.pid, status=None, TRIES="200")
        process.goes_on()
        wait_for(lambda: (process.signal_masks(), process.files()) == (masks, files),
                 f"moment {moment}: its blocked signals and its descriptors", PATIENCE_S, Law)
        check(process.library("libc.so.6") == maps, f"moment {moment}: the mappings of libc have changed", Law)
        check(process.code("libc.so.6") == code, f"moment {moment}: the code has changed", Law)
        moment += step
        room = prepare()
    assert moment > 30, moment
    return f"{(moment - 1) // step} moments"


@core
def test_killed_at_each_moment_of_injecting(bench):
    process = bench.storm("alloc")
    said = check_deaths(bench, process, "inject", EACH)
    injector("eject", process.pid)
    process.end()
    return said


@core
def test_killed_at_each_moment_of_ejecting(bench):
    process = bench.storm("alloc")
    said = check_deaths(bench, process, "eject", EACH)
    process.end()
    return said


@core
def test_child_killed_at_each_moment_of_injecting(bench):
    """The injector itself goes on: it takes back what its child has left, and says what there is."""
    process = bench.storm("alloc")
    before = process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(), process.files()
    moment, said = 1, "killed"
    while "killed" in said:
        done = subprocess.run([INJECTOR, "inject", str(process.pid), "5000"], env=os.environ | {"DIE_AT": str(moment), "CHILD": "1"},
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        said = done.stderr
        if done.returncode == 0:
            injector("eject", process.pid)
        else:
            assert "refused EAGAIN" in done.stdout, (moment, done)
            check(not process.maps("memfd:allocsnap-sampler"), f"moment {moment}: the sampler is still there", Law)
        process.goes_on()
        after = process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(), process.files()
        check(after == before, f"moment {moment}: the process is not as it was", Law)
        moment += EACH
    assert moment > 30, moment
    process.end()
    return f"{moment} moments"


def test_killed_while_threads_are_in_what_is_replaced(bench):
    """The thread that makes the injector's last call then makes it while the others run."""
    process = bench.storm("pairs")
    said = check_deaths(bench, process, "inject", 1)
    process.end()
    return said


@for_each(("inject", "eject"))
def test_killed_amid_the_functions(bench, action):
    """Some of them call the sampler: nothing is recorded, and that is said, until it is taken out."""
    process = bench.storm("alloc")
    if action == "eject":
        injector("inject", process.pid, 5000)
    moment = "a jump written" if action == "inject" else "at the end of a call"
    injector(action, process.pid, 5000, status=-signal.SIGKILL, DIE_AT=moment)
    process.goes_on()
    found = injector("find", process.pid)
    assert "active 1 unfinished 1" in found, found
    for command, stream in (("attach",), "stderr"), (("attach", "--inject"), "stderr"), (("doctor",), "stdout"):
        done = subprocess.run([ALLOCSNAP, *command, str(process.pid)], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        said = getattr(done, stream)
        assert done.returncode == 1 and f"'allocsnap eject {process.pid}' takes it out" in said, done
        assert stream == "stdout" or said.count("\n") == 1, said
    injector("eject", process.pid)
    process.goes_on()
    check_whole_way(process)
    process.end()


def test_killed_at_any_time(bench):
    """Between the moments, too: 40 times."""
    process = bench.storm("alloc")
    for i in range(40):
        with subprocess.Popen([INJECTOR, "cycles", str(process.pid), "1000"], stdout=subprocess.DEVNULL) as killed:
            time.sleep(0.05 + i * 0.0053 % 0.1)
            killed.kill()
        process.goes_on()
        if process.maps("memfd:allocsnap-sampler"):
            injector("eject", process.pid)
            process.goes_on()
    process.end()


@for_each(("calls", "float", "signal", "coroutine"))
def test_killed_while_the_program_does(bench, mode):
    """Every seventh moment."""
    process = bench.storm(mode)
    said = check_deaths(bench, process, "inject", 7)
    process.end()
    return said


# ---- storms ----

def run_storm(bench, mode, cycles, *argument):
    process = bench.storm(mode, *argument)
    maps = process.library("libc.so.6")
    said = injector("cycles", process.pid, cycles)
    process.goes_on()
    check(process.library("libc.so.6") == maps, "the mappings of libc have changed", Law)
    process.end()
    return said.strip()


@for_each(STORMS, of_core=("alloc", "thread", "calls"))
def test_storm(bench, mode):
    return run_storm(bench, mode, 20 if runs_core() else 1000)


def test_storm_of_six_thousand_threads(bench):
    return run_storm(bench, "crowd", 50, 6000)


# ---- others beside it ----

def test_probes_of_others_before(bench):
    """Uprobes lie in malloc, and stay there while the process is injected and ejected."""
    process = bench.storm("alloc")
    recorder, _ = bench.start_attach(process.pid)
    said = injector("inject", process.pid, 5000)
    assert "function malloc" in said and "probed 1" in said, said
    process.goes_on()
    stop_attach(recorder)
    process.goes_on()
    injector("eject", process.pid)
    process.end()


def test_probes_of_others_later(bench):
    """They come into the file when the pages are copies, and are still there when the pages are back."""
    process, other = bench.storm("alloc"), bench.storm("alloc")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(other.pid)
    process.goes_on()
    injector("eject", process.pid)
    process.goes_on()
    stop_attach(recorder)
    check_whole_way(process)
    process.end()
    other.end()


def test_recorder_that_is_killed(bench):
    """The kernel lowers the semaphores; what is left counts for no recording, and goes."""
    process = bench.storm("alloc")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(process.pid)
    recorder.popen.kill()
    recorder.popen.wait()
    process.goes_on()
    injector("eject", process.pid)
    process.goes_on()
    process.end()


def test_children_go_on(bench):
    """A child of a process with a sampler has it, too, with raised semaphores; both can be ejected."""
    process = bench.storm("fork")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(process.pid)
    process.goes_on()
    stop_attach(recorder)
    injector("eject", process.pid)
    process.end()
