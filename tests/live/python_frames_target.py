# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Python program in which C code calls Python code. It allocates in there, writes its own stack to a file, and waits."""
import json
import sys
import threading
import traceback

try:
    import sqlite3
except ImportError:
    sqlite3 = None

HELD = []
SMALL, LARGE = 397, 9000  # bytes


def dump(path):
    """The stack without this call, most recent call first."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_stack()[:-1]]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(frames[::-1], file)
    print("at", flush=True)


def mark(path):
    HELD.append((bytes(SMALL), bytes(LARGE), dump(path), sys.stdin.readline()))


def by_python(path):
    mark(path)


def by_json(path):
    def hook(pairs):
        mark(path)
        return pairs

    json.loads('[{"a": 1}]', object_hook=hook)


def by_sorted(path):
    def key_of(number):
        mark(path)
        return number

    sorted([1], key=key_of)


def by_generator(path):
    def numbers():
        mark(path)
        yield 1

    list(numbers())


def by_sqlite(path):
    def called(number):
        mark(path)
        return number

    connection = sqlite3.connect(":memory:")
    connection.create_function("called", 1, called)
    connection.execute("select called(1)").fetchall()


def by_thread(path):
    thread = threading.Thread(target=by_sorted, args=(path,))
    thread.start()
    thread.join()


def main():
    print("ready", flush=True)
    while True:
        name, _, path = sys.stdin.readline().strip().partition(" ")
        if not name:
            break
        HELD.clear()
        globals()["by_" + name](path)
        print(name, flush=True)


if __name__ == "__main__":
    main()
