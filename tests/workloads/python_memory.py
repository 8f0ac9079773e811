# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the size that tracemalloc counts, after each command: {"ready": PID}, then {"done": {"size": bytes}} for
"begin", "still", "build", "clear" and "leave": words of one length, since the word is in its memory, too."""
import gc
import os
import tracemalloc

kept = [None] * 8
digits = {number: str(number).encode() for number in range(10)}


def work():
    """Objects, large blocks, lists that grow, and temporary ones."""
    kept[0] = [(i, [i] * 10) for i in range(1000)]
    kept[1] = {i: str(i) for i in range(3000)}
    kept[2] = [bytes(n) for n in range(0, 3000, 37)]
    kept[3] = grown = []
    for i in range(3000):
        grown.append(i * 1000)
    kept[4] = bytearray(100003)
    kept[5] = "x".join(str(i) for i in range(2000))
    return [object() for _ in range(3000)] and None


def free():
    for i in range(0, len(kept), 2):
        kept[i] = None


ORDERS = {"begin": lambda: tracemalloc.start(1), "still": lambda: None, "build": work, "clear": free,
          "leave": lambda: None}


def main():
    gc.disable()
    os.write(1, b'{"ready": %d}\n' % os.getpid())
    order = None
    while order != "leave":
        order = os.read(0, 64).decode().strip()
        ORDERS[order]()
        tracemalloc.get_traced_memory()  # its tuple stays, for the next one
        os.write(1, b'{"done": {"size": %d}}\n' % tracemalloc.get_traced_memory()[0])


main()
