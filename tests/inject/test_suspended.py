# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The injector, or the process that it injects, stands still at any moment: stopped, frozen, throttled. The program goes on
when it can, and nothing is left in it."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from bench import ALLOCSNAP, INJECTOR, PATIENCE_S, injector, read_text
from harness import Law, Skip, core, runs_core, wait_for
from harness.suite import for_each
from test_victims import check_same, check_victim, take_out, EITHER

TIMES = 30 if runs_core() else 1000
HELD_UP = {"injector": 1 if runs_core() else 75, "attach": 1 if runs_core() else 5}  # so often amid the work
V1 = {"freeze": "freezer", "quota": "cpu"}


# ---- control groups ----

@contextlib.contextmanager
def group(kind):
    """A group of our own for `kind`: its folder. It is removed at the end, when nothing is in it."""
    root = pathlib.Path("/sys/fs/cgroup")
    unified = root if (root / "cgroup.controllers").exists() else root / "unified"
    parent = unified if kind == "freeze" or "cpu" in (unified / "cgroup.subtree_control").read_text() else root / V1[kind]
    folder = parent / f"allocsnap-inject.{os.getpid()}.{kind}"
    try:
        folder.mkdir()
    except OSError as error:
        raise Skip(f"no control group can be made: {error.strerror}") from None
    try:
        yield folder
    finally:
        let_go(folder)
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        wait_for(lambda: is_removed(folder), "the end of the control group")


def is_removed(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def hold_up(folder):
    if (folder / "cgroup.freeze").exists():
        (folder / "cgroup.freeze").write_text("1")
    elif (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text("1000 1000000")
    else:
        (folder / "cpu.cfs_quota_us").write_text("1000")


def let_go(folder):
    if (folder / "cgroup.freeze").exists():
        (folder / "cgroup.freeze").write_text("0")
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text("max")
    elif (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_quota_us").write_text("-1")


# ---- the process is frozen, at any time ----

@core
def test_frozen_and_thawed(bench):
    process = bench.start("victim_state", "plain", "2")
    process.find_victim()
    is_over, chance = threading.Event(), random.Random(4711)

    def freeze_and_thaw(folder):
        while not is_over.wait(chance.random() * 0.01):
            hold_up(folder)
            is_over.wait(chance.random() * 0.01)
            let_go(folder)
    with group("freeze") as folder:
        (folder / "cgroup.procs").write_text(str(process.pid))
        thread = threading.Thread(target=freeze_and_thaw, args=(folder,))
        thread.start()
        try:
            return check_victim(process, EITHER, TIMES)
        finally:
            is_over.set()
            thread.join()


@core
def test_frozen(bench):
    """It says so at once, and it is as before after the thaw."""
    process = bench.start("victim_state", "plain", "2")
    process.find_victim()
    with process.held():
        before = process.looks()
    with group("freeze") as folder:
        (folder / "cgroup.procs").write_text(str(process.pid))
        hold_up(folder)
        wait_for(lambda: "frozen 1" in (folder / "cgroup.events").read_text(), "the freeze")
        said = injector("inject", process.pid, status=1)
        let_go(folder)
        process.goes_on()
        with process.held():
            check_same(before, process.looks())
        process.end()
    assert "refused EAGAIN" in said, said
    return said.strip()


# ---- the injector is held up while it traces the process ----

def family(pid):
    """A process and all below it."""
    found = [pid]
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            for child in read_text("/proc", pid, "task", tid, "children").split():
                found += family(int(child))
    return found


def send_all(pids, signal_nr):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_nr)


@contextlib.contextmanager
def holding_by_signal(signal_nr):
    """Two functions: for a process that has begun, and to hold processes up until the end, which returns those it holds."""
    held = []

    def hold(pids):
        held.extend(pids)
        send_all(pids, signal_nr)
        return held
    try:
        yield lambda pid: None, hold
    finally:
        send_all(held, signal.SIGCONT)


@contextlib.contextmanager
def holding_by_group(kind):
    """The process is in the group early: a move takes the kernel longer than an injection."""
    def take_in(pid):
        with contextlib.suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid))

    def hold(_):
        hold_up(folder)
        return [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    with group(kind) as folder:
        yield take_in, hold


HOLDINGS = {
    "SIGSTOP": lambda: holding_by_signal(signal.SIGSTOP),
    "SIGTSTP": lambda: holding_by_signal(signal.SIGTSTP),
    "freeze": lambda: holding_by_group("freeze"),
    "quota": lambda: holding_by_group("quota"),
}
COMMANDS = {
    "injector": lambda pid, _: [INJECTOR, "cycles", str(pid), "20"],
    "attach": lambda pid, folder: [ALLOCSNAP, "attach", "--inject", "-q", "-o", folder, "-d", "1", str(pid)],
}


def tracer_of(pid):
    status = read_text("/proc", pid, "status")
    return int(status.split("TracerPid:")[1].split()[0])


def hold_up_once(process, command, holding):
    """Whether that was amid the work: the tracer is among those that are held up."""
    with contextlib.ExitStack() as stack:
        take_in, hold = stack.enter_context(holding())
        working = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        take_in(working.pid)
        while not tracer_of(process.pid) and working.poll() is None:
            time.sleep(0.0002)
        held = hold(family(working.pid))
        is_amid = tracer_of(process.pid) in held
        rounds = process.ask()[0]
        wait_for(lambda: process.ask()[0] > rounds + 2, "it goes on while the injector is held up", 10, Law)
        stack.close()
        working.wait(PATIENCE_S)
    return is_amid


@for_each([f"{command}-{how}" for command in COMMANDS for how in HOLDINGS], of_core=["injector-SIGSTOP", "injector-SIGTSTP"])
def test_injector_held_up(bench, name):
    command, how = name.split("-")
    process = bench.start("victim_state", "plain", "2")
    process.find_victim()
    with process.held():
        before = process.looks()
    argv = COMMANDS[command](process.pid, bench.folder)
    amid = tries = 0
    while amid < HELD_UP[command] and tries < 50 + 10 * HELD_UP[command]:
        amid += hold_up_once(process, argv, HOLDINGS[how])
        tries += 1
        process.goes_on()
        take_out(process)
        with process.held():
            check_same(before, process.looks())
    process.end()
    assert amid, f"in {tries} tries it was never amid its work"
    return f"amid its work in {amid} of {tries}"
