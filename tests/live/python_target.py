# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Python program that a test steers by lines, and that can ask its own tracemalloc."""
import gc
import json
import os
import sys
import tracemalloc

import python_shapes
import python_work


def traces():
    """As in the snapshot's JSON: [domain, size, [[file, line]…], total]."""
    return [[domain, size, frames, total] for domain, size, frames, total in
            ((trace[0], trace[1], [list(frame) for frame in trace[2]], trace[3])
             for trace in tracemalloc.take_snapshot().traces._traces)]


HELD = []


def empty_free_lists():
    """Later objects are made of new memory. tracemalloc forgets the older blocks."""
    tracemalloc.clear_traces()
    HELD.append([[(i,) * size for i in range(2100)] for size in range(1, 21)])
    HELD.append([[float(i), [i], {i: i}, {}, slice(i), (i for i in ())] for i in range(300)])


def fork(paths):
    """A child obeys orders from the first path, and answers to the second one."""
    if os.fork():
        return
    orders, answers = paths.split()
    with open(orders, encoding="utf-8") as lines:
        os.dup2(os.open(answers, os.O_WRONLY), 1)
        obey(lines)
    os._exit(0)


def obey(lines):
    print("ready", flush=True)
    for line in lines:
        order, _, argument = line.strip().partition(" ")
        if order == "start":
            tracemalloc.start(int(argument))
        elif order == "stop":
            tracemalloc.stop()
        elif order == "collect":
            gc.collect()
        elif order == "empty":
            empty_free_lists()
        elif order == "keep":
            HELD.append(python_work.texts(int(argument)))
        elif order == "drop":
            HELD.clear()
        elif order == "work":
            python_work.work(argument)
        elif order == "shape":
            python_shapes.work(argument)
        elif order == "fork":
            fork(argument)
        elif order == "dump":
            with open(argument, "w", encoding="utf-8") as file:
                json.dump(traces(), file)
        print(order, flush=True)


if __name__ == "__main__":
    obey(sys.stdin)
