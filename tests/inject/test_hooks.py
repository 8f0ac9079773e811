# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The hooks of a sampler, in programs that look at all that a hook could change or count wrongly."""
import os

from bench import ALLOCATORS, FOLDER, PATIENCE_S, check_whole_way, injector
from harness import core, runs_core, wait_for
from harness.suite import for_each
from test_inject import exercise

CYCLES = 20 if runs_core() else 100


def start(bench, *argv, **more):
    """A program that checks itself."""
    process = bench.start(*argv, **more)
    wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
    return process


def cycle(process, interval):
    said = injector("cycles", process.pid, CYCLES, INTERVAL=str(interval))
    process.goes_on()
    return said.strip()


@core
@for_each(("registers", "registers_lto"))
def test_registers(bench, program):
    """The compiler has seen the allocator and its callers together; each block is a sample, and nearly none."""
    process = start(bench, program)
    said = [cycle(process, interval) for interval in (1, 1 << 30)]
    process.end()
    return "; ".join(said)


@for_each(("lockfree", "nested"))
def test_signal_handlers_that_jump(_, name):
    """Out of calls of the allocator: the thread's next block is a sample again."""
    exercise("jumps", behind=os.path.join(FOLDER, name + ".so"), interval=1)


# ---- an allocator above another one: each block counts once ----

SHIMS = {"header": ("shim",), "carve": ("shim_carve",), "plain": ("shim_plain",), "partial": ("shim_partial",),
         "three": ("shim", "shim_plain"), "four": ("shim", "shim_carve", "shim_plain")}


def preloaded(names):
    return ":".join(os.path.join(FOLDER, name + ".so") for name in names)


@core
@for_each(SHIMS, of_core=("header", "plain"))
def test_functions_above_others(_, shims):
    """Each call tells its own block, and no other one."""
    exercise("functions", behind=preloaded(SHIMS[shims]), interval=1)


@for_each(SHIMS)
def test_estimates_above_others(_, shims):
    return exercise("estimates", behind=preloaded(SHIMS[shims]), ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_above_jemalloc(_):
    exercise("functions", "jemalloc", behind=preloaded(("shim",)) + ":" + ALLOCATORS["jemalloc"], interval=1)


@for_each(("alloc", "thread", "fork"), of_core=("alloc",))
def test_ejection_above_others(bench, mode):
    """The samplers of both go together, while calls of one are in calls of the other."""
    process = bench.storm(mode, preload=preloaded(("shim",)))
    check_whole_way(process, "shim.so")
    said = cycle(process, 5000)
    process.end()
    return said


@for_each(("partial", "jemalloc", "tcmalloc", "mimalloc"))
def test_operators(_, allocator):
    """operator new of an allocator above another one, and of others. Two of them cannot throw."""
    more = {"NO_THROW": "1"} if allocator in ("partial", "mimalloc") else {}
    exercise("operators", program="operators", behind=ALLOCATORS.get(allocator) or preloaded(SHIMS[allocator]), interval=1, **more)


def test_operators_that_are_not_seen(_):
    """The operators of mimalloc, which is not the first allocator of the process: the sampler says so."""
    out = exercise("idle", "mimalloc")
    assert "flags 2 interval 4096\n" in out, out
