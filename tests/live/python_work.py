# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The work of the recorded Python programs. Only blocks with a frame in this file are compared."""
import gc
import threading
from ctypes import c_size_t, c_uint, pythonapi

KEPT = []


class Slotted:
    __slots__ = ("one", "two")

    def __init__(self, number):
        self.one = "one %d" % number
        self.two = number << 40


def texts(number):
    return ["text %d" % i * 3 for i in range(number)]


def grown(number):
    """Reallocated again and again: small, then large; and some shrink."""
    array = bytearray()
    for i in range(number):
        array += b"x" * 7
    short = bytearray(1000 + number)
    del short[number % 90 + 10:]
    return array, short


def numbers():
    for i in range(1000):
        yield i << 40


def deep(number):
    return deep(number - 1) if number else [Slotted(i) for i in range(3)]


def executed(number):
    space = {"KEPT": KEPT}
    exec(compile("def made():\n\n  return 'made %d' % NUMBER * 20\nKEPT.append(made())".replace("NUMBER", str(number)),
                 "<made>", "exec"), space)
    space.clear()  # the function in it refers to it


def closure(number):
    text = "closed %d" % number

    def inner():
        return text + "!"
    return inner


def plain(rounds):
    """Nothing that stays is of a type with a free list."""
    for i in range(rounds):
        KEPT.extend(texts(20))
        KEPT.extend(grown(i * 3))
        KEPT.extend(deep(i))
        executed(i)
        KEPT.append(closure(i)())
        KEPT.append(frozenset(texts(i)))
        KEPT.append(bytes(i * 100))
    KEPT.extend(numbers())


def tracked(number):
    """Blocks of a library, which reports them as numpy does: some are reported again, some are gone."""
    track, untrack = pythonapi.PyTraceMalloc_Track, pythonapi.PyTraceMalloc_Untrack
    track.argtypes, untrack.argtypes = (c_uint, c_size_t, c_size_t), (c_uint, c_size_t)
    for i in range(number):
        track(7, 0x100000 + 64 * i, 1000 + i)
        if i % 3 == 0:
            track(7, 0x100000 + 64 * i, i)
        if i % 5 == 0:
            untrack(7, 0x100000 + 64 * i)


def in_threads(rounds):
    threads = [threading.Thread(target=plain, args=(rounds,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def work(name):
    """At its end objects that wait in free lists are freed: tracemalloc has them with another traceback than we."""
    if name == "threads":
        in_threads(3)
    elif name == "few":
        plain(2)
    elif name == "tracked":
        tracked(1000)
    else:
        plain(10)
    gc.collect()
