# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The hooks of a sampler, in programs that look at all that a hook could change or count wrongly."""
import os

from bench import FOLDER, PATIENCE_S, injector
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
