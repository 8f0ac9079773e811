#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of a pair of malloc and free below liballocsnap-sampler.so, and with an injected sampler (as root), while no
program listens to their probes.

    sampler.py LIBRARY BENCH INJECTOR   BENCH: the folder with cost_target; INJECTOR: tests/inject/injector.c
Each way has a process of its own, and a round asks all of them. "plain again" is "plain" once more: what the machine
does to a ratio. The processes have a C library of their own: probes on the machine's do not reach them.
Environment: BENCH_ROUNDS (61).
"""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 61
PAIRS = 2000000
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}
FOLDER = pathlib.Path("/usr/lib/x86_64-linux-gnu")


class Loop:
    def __init__(self, bench, own_library, preloaded):
        order_out, self.order = os.pipe()
        self.answer, answer_in = os.pipe()
        environment = os.environ | {"LD_LIBRARY_PATH": str(own_library), "LD_PRELOAD": ":".join(preloaded)}
        self.popen = subprocess.Popen([bench / "cost_target", str(order_out), str(answer_in)], env=environment,
                                      pass_fds=(order_out, answer_in))
        os.close(order_out)
        os.close(answer_in)

    def measure(self, _nr=0, pairs=PAIRS):
        os.write(self.order, f"1 1 {pairs}\n".encode())
        return float(os.read(self.answer, 100))

    def inject(self, injector):
        subprocess.run([injector, "inject", str(self.popen.pid), str(512 << 10)], env=os.environ | {"TRIES": "200"}, check=True,
                       stdout=subprocess.DEVNULL)

    def end(self):
        os.close(self.order)
        self.popen.wait()
        os.close(self.answer)


def main():
    rounds.end_in_order()
    library, bench = sys.argv[1], pathlib.Path(sys.argv[2])
    own_library = peers.copy_libraries(bench / "sampler.d")
    samples, loops, wanted = rounds.Samples(), {}, rounds.rounds_wanted(ROUNDS)
    for allocator, file in ALLOCATORS.items():
        behind = [str(FOLDER / file)] if file else []
        if file and not (FOLDER / file).exists():
            print(f"{allocator}: missing")
            continue
        loops[f"{allocator}, plain"] = Loop(bench, own_library, behind)
        loops[f"{allocator}, plain again"] = Loop(bench, own_library, behind)
        loops[f"{allocator}, preloaded"] = Loop(bench, own_library, [library, *behind])
        if not os.geteuid():
            loops[f"{allocator}, injected"] = Loop(bench, own_library, behind)
    try:
        for name, loop in loops.items():
            loop.measure(pairs=1000)
            if name.endswith("injected"):
                loop.inject(sys.argv[3])
        rounds.in_turns(samples, {name: loop.measure for name, loop in loops.items()}, wanted)
    finally:
        for loop in loops.values():
            loop.end()
    print(f"A pair of malloc and free of 64 bytes: ns of its thread's processor time, medians of {wanted} rounds; more: "
          f"median and quartiles of the rounds' own differences to plain. {rounds.load()}\n")
    for name in loops:
        middle, low, high = samples.differences(name, name.split(",")[0] + ", plain")
        print(f"{name:<24}{samples.median(name):>8.2f}   more {middle:+.2f} ({low:+.2f} to {high:+.2f})")
    rounds.save(bench / "sampler.json", {"ns": samples.of})


if __name__ == "__main__":
    main()
