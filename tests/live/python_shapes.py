# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Work of many shapes for a recorded CPython. What stays is in KEPT; much of it is made of memory in free lists."""
import asyncio
import hashlib
import json
import lzma
import re
import threading
import zlib

KEPT = []


class Node:
    __slots__ = ("left", "right")

    def __init__(self, number):
        self.left = [number, float(number)]
        self.right = {"number": number << 40}


class Thing:
    def __init__(self, number):
        self.name = "thing %d" % number
        self.others = (number << 40, [number] * (number % 7))

    def method(self):
        return self.name


def free_lists():
    """Floats, tuples, lists, dicts, slices, bound methods, generators, contexts: dropped, and made anew."""
    for size in range(1, 25):
        dropped = [float(i) for i in range(150)], [(i,) * size for i in range(100)], [[i] for i in range(120)], \
            [{i: i} for i in range(120)], [slice(i) for i in range(3)]
        del dropped
        KEPT.append([size * 0.5 + i for i in range(40)])
        KEPT.append([tuple(range(size)) for _ in range(10)])
        KEPT.append([[i, i] for i in range(30)])
        KEPT.append([{"i": i} for i in range(30)])
        KEPT.append([Thing(size).method for _ in range(10)])
        KEPT.append(slice(size, 1000 * size))


def counted(number):
    for i in range(number):
        yield {"i": i, "text": str(i) * (i % 5)}


def both_ways(number):
    got = []
    for i in range(number):
        got.append((yield i * 1.5))
    return got


def delegating(number):
    return [(yield from both_ways(number))]


def generators():
    KEPT.append(list(counted(200)))
    waiting = [counted(9) for _ in range(30)]
    for generator in waiting:
        KEPT.append(next(generator))
    KEPT.append(waiting)
    KEPT.append([x * x for x in range(10 ** 6, 10 ** 6 + 200)])
    KEPT.append(tuple(x * 0.5 for x in range(200)))
    generator = delegating(50)
    KEPT.append(next(generator))
    try:
        while True:
            KEPT.append(generator.send([1.25]))
    except StopIteration as end:
        KEPT.append(end.value)


async def answer(number):
    await asyncio.sleep(0)
    return ["answer %d" % number, number * 0.25]


async def agree():
    async def numbers():
        for i in range(20):
            await asyncio.sleep(0)
            yield i << 50

    KEPT.append([number async for number in numbers()])
    KEPT.append(await asyncio.gather(*(answer(i) for i in range(50))))


def coroutines():
    asyncio.run(agree())


def deeper(number):
    held = [number * 1.5]
    if number:
        return deeper(number - 1), held
    return Node(7), held


def recursion():
    """Deeper than a traceback has frames, and than the interpreter keeps frames in one piece."""
    for depth in (1, 20, 24, 25, 26, 400, 700):
        KEPT.append(deeper(depth))


def reallocated():
    """Every way from one size to another: within a class, to a smaller one, across 512 bytes, to and from nothing."""
    for old in (1, 15, 16, 17, 64, 500, 511, 512, 513, 600, 4000, 200000):
        for new in (0, 1, 16, 17, 48, 49, 400, 511, 512, 513, 700, 5000, 300000):
            array = bytearray(old)
            array += b"x" * max(0, new - old)
            del array[new:]
            KEPT.append(array)
            items = [None] * (new % 100)
            items.extend(range(old % 50))
            del items[new % 40:]
            KEPT.append(items)
    text = ""
    for i in range(300):
        text += chr(0x100 + i) * 3
    KEPT.append(text)
    data = b""
    for i in range(300):
        data += b"%d" % i
    KEPT.append(data)
    KEPT.append(tuple(iter(counted(60))))


def executed():
    for i in range(20):
        name = "<made %d>" % i
        KEPT.append(name)  # tracemalloc keeps it, too
        code = compile("def made(x):\n  y = [x] * 50\n  return [y, 'q' * %d, (lambda z: {z: y})(x)]\nKEPT.append(made(%d.5))"
                       % (i % 9, i), name, "exec")
        space = {"KEPT": KEPT}
        exec(code, space)
        if i % 2:
            space.clear()


def parsed():
    KEPT.append(json.loads(json.dumps([{"a": list(range(i % 20)), "b": "é" * i, "d": 1.5 * i} for i in range(100)])))
    KEPT.append([match.groups() for match in re.finditer(r"(\w+)-(\d+)", " ".join("k%d-%d" % (i, i) for i in range(200)))])
    KEPT.append(sorted({i * 7919 % 1009: None for i in range(600)}))
    KEPT.append([Node(i) for i in range(300)])
    KEPT.append([Thing(i) for i in range(200)])


def failing():
    for i in range(50):
        try:
            deeper(i)[9]
        except IndexError as error:
            KEPT.append(error)
            error.__traceback__ = None
    del KEPT[:len(KEPT) // 3]


def without_gil():
    """Libraries that take blocks of the raw domain while other threads have the GIL; some of their objects stay."""
    text = b"".join(b"%d," % (i * i) for i in range(20000))

    def compress(number):
        for i in range(10):
            packers = zlib.compressobj(1 + i % 9), lzma.LZMACompressor(preset=number % 3)
            KEPT.append([packer.compress(text) + packer.flush() for packer in packers])
            KEPT.append((hashlib.sha256(text).digest(), lzma.decompress(lzma.compress(text, preset=0))[:number], zlib.compressobj()))

    in_threads(compress)


def in_threads(work, nr=4):
    started = [threading.Thread(target=work, args=(number,)) for number in range(nr)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


SHAPES = (free_lists, generators, coroutines, recursion, reallocated, executed, parsed, failing)


def everything():
    for shape in SHAPES:
        shape()


def threads():
    """Blocks pass from one thread to another, and are freed there."""
    started = [threading.Thread(target=lambda: [shape() for shape in SHAPES if shape is not coroutines])
               for _ in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    everything()


def work(name):
    globals()[name]()
