# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Blocks of a CPython 3.9 to 3.14, by address: blocks of a snapshot file, and blocks in the tables of tracemalloc of a
process that stands still. Both are {address: (bytes, ((file, line)…), frames in all)}."""
import collections
import functools
import os
import re
import struct
import subprocess

from harness import tool, wait_for

# ---- a snapshot ----

HEADER = struct.Struct("<8sIIQIIQ")
SECTION = struct.Struct("<IIQQQQ")
# Numbers of sections, and the form of their rows (include/snapshot.h).
STARTS, STRINGS, OBJECTS, FRAMES, TRACEBACKS, TRACEBACK_FRAMES, SIZES, OF_TRACE = 4, 5, 6, 7, 8, 9, 10, 11
ADDRESSES, WEIGHTS = 14, 18
FORMS = {STARTS: "<Q", STRINGS: "<B", OBJECTS: "<II", FRAMES: "<IIIIQII", TRACEBACKS: "<QIIII", TRACEBACK_FRAMES: "<I",
         SIZES: "<Q", OF_TRACE: "<I", ADDRESSES: "<Q", WEIGHTS: "<d"}


def sections(data):
    found = {number: [] for number in FORMS}
    _, _, header_bytes, _, number_of, _, _ = HEADER.unpack_from(data)
    for i in range(number_of):
        number, encoding, offset, size, _, _ = SECTION.unpack_from(data, header_bytes + i * SECTION.size)
        if number == STRINGS:
            found[number] = data[offset:offset + size]
        elif number in FORMS:
            assert not encoding, "a compressed section"
            found[number] = list(struct.iter_unpack(FORMS[number], data[offset:offset + size]))
    return found


def tables_of(path):
    """The sections, and the text of a string."""
    with open(path, "rb") as file:
        found = sections(file.read())

    def text(number):
        start, = found[STARTS][number]
        return found[STRINGS][start:found[STRINGS].index(b"\0", start)].decode()

    return found, text


def of_snapshot(path):
    found, text = tables_of(path)
    frames = [(text(row[0]), row[1]) for row in found[FRAMES]]
    tracebacks = [(tuple(frames[at] for at, in found[TRACEBACK_FRAMES][first:first + nr]), total)
                  for first, nr, total, _, _ in found[TRACEBACKS]]
    return {address: (size, *tracebacks[of]) for (address,), (size,), (of,) in
            zip(found[ADDRESSES], found[SIZES], found[OF_TRACE])}


def weights_of_snapshot(path):
    """{address: weight} of a snapshot with weights."""
    with open(path, "rb") as file:
        found = sections(file.read())
    return {address: weight for (address,), (weight,) in zip(found[ADDRESSES], found[WEIGHTS])}


# ---- tracemalloc ----

Tables = collections.namedtuple("Tables", "blocks places own")  # own: addresses of memory that tracemalloc has for itself


class Memory:
    """The memory of a process."""

    def __init__(self, pid):
        self.file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self.mappings = []
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            for line in maps:
                fields = line.split(maxsplit=5)
                start, end = (int(text, 16) for text in fields[0].split("-"))
                self.mappings.append((start, end, fields[1], fields[5].strip() if len(fields) > 5 else ""))
        self.python, self.minor = self.find_python()

    def find_python(self):
        """The file of the interpreter, which is a library if there is one, and the 9 of 3.9."""
        found = {}
        for _, _, _, name in self.mappings:
            matched = re.fullmatch(r"(lib)?python3\.(\d+)\S*", os.path.basename(name))
            if matched:
                found[bool(matched[1])] = name, int(matched[2])
        return found.get(True) or found[False]

    def address_of(self, name):
        """The address of an exported symbol of the interpreter."""
        address, start = symbol(self.python, name), next(row[0] for row in self.mappings if row[3] == self.python)
        return address if address >= start else address + start  # it may lie anywhere

    def close(self):
        os.close(self.file)

    def read(self, address, size):
        data = os.pread(self.file, size, address)
        assert len(data) == size, hex(address)
        return data

    def words(self, address, number):
        return struct.unpack(f"<{number}Q", self.read(address, 8 * number))

    def type_of_collected(self, block):
        """The name of the type of an object that the garbage collector knows, in its block."""
        name, = self.words(self.words(block + 16 + 8, 1)[0] + 24, 1)
        return self.read(name, 64).partition(b"\0")[0].decode()

    def heap_words(self, start, end):
        """Words there that may be addresses of the heap."""
        heaps = [(first, last) for first, last, rights, name in self.mappings if "w" in rights and name in ("", "[heap]")]
        data = self.read(start, end - start)
        for word, in struct.iter_unpack("<Q", data[:len(data) & -8]):
            if not word % 16 and any(first <= word < last for first, last in heaps):
                yield word


@functools.lru_cache
def symbol(path, name):
    for line in subprocess.run([tool("nm"), "-D", path], check=True, capture_output=True, text=True).stdout.splitlines():
        if line.split()[-1].partition("@")[0] == name:
            return int(line.split()[0], 16)
    raise KeyError(name)


Table = collections.namedtuple("Table", "address hash functions pairs")


def table_at(memory, address, functions=None):
    """A _Py_hashtable_t with its pairs (key, value), or None."""
    try:
        number, bucket_nr, buckets, _, hash_function, _, _, _, malloc, free = memory.words(address, 10)
        if not 16 <= bucket_nr <= 1 << 28 or bucket_nr & (bucket_nr - 1) or number > 1 << 28:
            return None
        if functions and (malloc, free) != functions:
            return None
        pairs = []
        for entry in memory.words(buckets, bucket_nr):
            while entry:
                entry, _, key, value = memory.words(entry, 4)
                pairs.append((key, value))
                if len(pairs) > number:
                    return None
    except (AssertionError, OSError):
        return None
    return Table(address, hash_function, (malloc, free), pairs) if len(pairs) == number else None


def find_tables(memory):
    """The table of blocks, and all of the same kind."""
    hash_pointer = memory.address_of("_Py_hashtable_hash_ptr")
    own = [(start, end) for i, (start, end, rights, name) in enumerate(memory.mappings)
           if "w" in rights and memory.python in (name, name or memory.mappings[i - 1][3])]
    words = {word for start, end in own for word in memory.heap_words(start, end)}
    blocks = [word for word in words if hash_pointer in heap_row(memory, word)]
    tables = [table for table in (table_at(memory, word) for word in blocks) if table and table.hash == hash_pointer]
    assert len(tables) == 1, tables
    others = [table_at(memory, word, tables[0].functions) for word in words - {tables[0].address}
              if tables[0].functions[0] in heap_row(memory, word)]
    return tables[0], [table for table in others if table]


def heap_row(memory, address):
    try:
        return memory.words(address, 10)
    except (AssertionError, OSError):
        return ()


def python_text(memory, address):
    length, = memory.words(address + 16, 1)
    state, = struct.unpack("<I", memory.read(address + 32, 4))
    assert state >> 2 & 7 == 1 and state >> 6 & 1, "a file name that is not ASCII"
    return memory.read(address + (40 if memory.minor >= 12 else 48), length).decode()


def of_tracemalloc(pid):
    memory = Memory(pid)
    texts, tracebacks = {}, {}

    def traceback(address):
        if address not in tracebacks:
            nframe, total = struct.unpack("<8xHH", memory.read(address, 12))
            rows = list(struct.iter_unpack("<QI", memory.read(address + 12, 12 * nframe)))
            for name, _ in rows:
                if name not in texts:
                    texts[name] = python_text(memory, name)
            tracebacks[address] = tuple((texts[name], line) for name, line in rows), total
        return tracebacks[address]

    table, others = find_tables(memory)
    blocks, places, own = {}, {}, set()
    for address, trace in table.pairs:
        size, of = memory.words(trace, 2)
        blocks[address] = (size, *traceback(of))
        places[address] = trace
        own |= {trace, of}
    for other in others:
        own |= {word for pair in other.pairs for word in pair}
    memory.close()
    return Tables(blocks, places, own)


def wait_until_idle(target):
    """Until the program waits for its next order."""
    def is_idle():
        with open(f"/proc/{target.pid}/syscall", encoding="utf-8") as file:
            return file.read().startswith("0 0x0 ")
    wait_for(is_idle, "reading of its standard input")


# ---- comparison ----

Difference = collections.namedtuple("Difference", "both sizes tracebacks only_ours only_theirs")


def compare(ours, theirs, before):
    """before: tracemalloc's tables at a time when we had no blocks; those that are still there are not ours. Blocks are
    known by their address; only_ours is without tracemalloc's own memory."""
    both = ours.keys() & theirs.blocks.keys()
    older = {address for address, place in before.places.items()
             if theirs.places.get(address) == place and address not in ours}
    return Difference(
        both,
        {address: (ours[address], theirs.blocks[address]) for address in both if ours[address][0] != theirs.blocks[address][0]},
        {address: (ours[address], theirs.blocks[address]) for address in both if ours[address][1:] != theirs.blocks[address][1:]},
        {address: ours[address] for address in ours.keys() - both - theirs.own},
        {address: theirs.blocks[address] for address in theirs.blocks.keys() - both - older})
