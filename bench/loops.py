# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that wait for orders and answer how long these took, each with its profiler: so that one round asks all of
them within a second."""
import json
import os
import subprocess

import peers


class Loop:
    """One of these programs, with a C library of its own. `first`: an order after which all functions are resolved."""

    def __init__(self, places, profiler, nr, program, first):
        self.name = profiler.name
        self.library = peers.copy_libraries(places.work / f"lib{nr}") / "libc.so.6"
        order_out, self.order = os.pipe()
        self.answer, answer_in = os.pipe()
        environment = {"LD_LIBRARY_PATH": str(self.library.parent)} | profiler.environment(places)
        command = profiler.command(places)
        self.popen = subprocess.Popen([*command, places.bench / program, str(order_out), str(answer_in)],
                                      env=os.environ | environment, pass_fds=(order_out, answer_in))
        os.close(order_out)
        os.close(answer_in)
        self.attached = None
        try:
            pid = peers.program_below(self.popen, command[0]) if command else self.popen.pid
            self.ask(first)
            self.attached = profiler.attach(places, pid, self.library)
        except RuntimeError:
            self.end()
            raise

    def ask(self, order):
        os.write(self.order, f"{order}\n".encode())
        return float(os.read(self.answer, 100))

    def detach(self):
        if self.attached:
            self.attached.end()

    def end(self):
        os.close(self.order)
        self.popen.wait()
        os.close(self.answer)
        self.detach()


def end_all(loops):
    for loop in loops:
        loop.end()


def start(profilers, loops, make):
    """Adds make(profiler, number) for those that are there; returns {name: reason} of the missing ones."""
    missing = {}
    for profiler in profilers:
        if profiler.missing:
            missing[profiler.name] = profiler.missing
            continue
        try:
            loops.append(make(profiler, len(loops)))
        except RuntimeError as error:
            missing[profiler.name] = str(error)
    return missing


def depths_recorded(places, snapshot, top):
    """How deep the tracebacks are that have allocated most."""
    done = subprocess.run([places.allocsnap, "stats", snapshot, "--group-by", "traceback", "--measure", "allocated",
                           "--top", str(top), "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return [len(row["traceback"]) for row in json.loads(done.stdout)["statistics"]]
