# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Snapshot files by the words of include/snapshot.h, written without allocsnap's own code.

Checksums are left zero: repair.c fills them in.
"""
import struct

HEADER = struct.Struct("<8sIIQIIQ")
ENTRY = struct.Struct("<IIQQQQ")
HEADER_FIELDS = {"magic": (0, 8), "version": (8, 4), "header_size": (12, 4), "file_size": (16, 8),
                 "section_nr": (24, 4), "reserved": (28, 4), "checksum": (32, 8)}
ENTRY_FIELDS = {"type": (0, 4), "encoding": (4, 4), "offset": (8, 8), "size": (16, 8),
                "count": (24, 8), "checksum": (32, 8)}
RAW, ZSTD = 0, 1

# name: the rows, and where their fields are. The type is the position, from 1.
ROWS = {
    "metadata": ("<II", {"key": (0, 4), "value": (4, 4)}),
    "counters": ("<IIQ", {"name": (0, 4), "kind": (4, 4), "value": (8, 8)}),
    "probes": ("<IIQII", {"object": (0, 4), "function": (4, 4), "offset": (8, 8),
                          "placement": (16, 4), "instruction": (20, 4)}),
    "string starts": ("<Q", {"": (0, 8)}),
    "strings": ("<B", {"": (0, 1)}),
    "objects": ("<II", {"path": (0, 4), "build_id": (4, 4)}),
    "frames": ("<IIIIQII", {"filename": (0, 4), "lineno": (4, 4), "function": (8, 4),
                            "object": (12, 4), "offset": (16, 8), "flags": (24, 4),
                            "reserved": (28, 4)}),
    "tracebacks": ("<QIIII", {"first": (0, 8), "nframe": (8, 4), "total_nframe": (12, 4),
                              "flags": (16, 4), "reserved": (20, 4)}),
    "traceback frames": ("<I", {"": (0, 4)}),
    "trace sizes": ("<Q", {"": (0, 8)}),
    "trace tracebacks": ("<I", {"": (0, 4)}),
    "trace domains": ("<I", {"": (0, 4)}),
    "trace births": ("<Q", {"": (0, 8)}),
    "trace addresses": ("<Q", {"": (0, 8)}),
    "trace threads": ("<I", {"": (0, 4)}),
    "probe domains": ("<I", {"": (0, 4)}),
    "trace weights": ("<d", {"": (0, 8)}),
    "frame first lines": ("<I", {"": (0, 4)}),
    "gaps": ("<QQ", {"start_ns": (0, 8), "end_ns": (8, 8)}),
}
TYPES = {name: number for number, name in enumerate(ROWS, 1)} | \
    {"probe domains": 17, "trace weights": 18, "gaps": 19,
     "frame first lines": 22}


def sample():
    """Rows for every section: three frames, two tracebacks, four traces."""
    texts = ["", "pid", "4711", "rss_files_bytes", "4096", "allocations", "lost", "malloc", "push %rbp",
             "/lib/libc.so", "0a1b", "/bin/app", "main.c", "main", "list.c", "push"]
    at = {text: number for number, text in enumerate(texts)}
    encoded = [text.encode() + b"\0" for text in texts]
    starts = [sum(map(len, encoded[:i])) for i in range(len(encoded))]
    return {
        "metadata": [(at["pid"], at["4711"]), (at["rss_files_bytes"], at["4096"])],
        "counters": [(at["allocations"], 1, 17), (at["lost"], 2, 0)],
        "probes": [(1, at["malloc"], 0x98, 3, at["push %rbp"]), (2, at["push"], 0x10, 0, 0)],
        "string starts": [(start,) for start in starts],
        "strings": [(byte,) for byte in b"".join(encoded)],
        "objects": [(0, 0), (at["/lib/libc.so"], at["0a1b"]), (at["/bin/app"], 0)],
        "frames": [(0,) * 7, (at["main.c"], 7, at["main"], 2, 0x1170, 0, 0),
                   (at["/lib/libc.so"], 0, at["malloc"], 1, 0x9a, 0, 0),
                   (at["list.c"], 3, at["push"], 2, 0x1170, 1, 0)],
        "tracebacks": [(0,) * 5, (0, 3, 3, 0, 0), (3, 2, 9, 1, 0)],
        "traceback frames": [(2,), (3,), (1,), (2,), (1,)],
        "trace sizes": [(100,), (200,), (300,), (0,)],
        "trace tracebacks": [(1,), (2,), (1,), (0,)],
        "trace domains": [(0,), (1,), (0,), (0,)],
        "trace births": [(11,), (12,), (13,), (14,)],
        "trace addresses": [(0x1000,), (0x2000,), (0x3000,), (0x4000,)],
        "trace threads": [(41,), (42,), (41,), (43,)],
        "probe domains": [(0,), (16,)],
        "trace weights": [(1.0,), (5243.38,), (1.5,), (524288.5,)],
        "frame first lines": [(0,), (5,), (0,), (2,)],
        "gaps": [(5, 7), (7, 9), (12, 13)],
    }


def pack(name, rows):
    row = struct.Struct(ROWS[name][0])
    return b"".join(row.pack(*values) for values in rows)


# ---- zstd frames, by RFC 8878, of blocks that need no coding ----------------------------------

def zstd_frame(content_size, blocks, descriptor=0xe0):
    """0xe0: one segment, eight bytes of content size, no checksum."""
    return struct.pack("<IBQ", 0xfd2fb528, descriptor, content_size) + blocks


def zstd_block(kind, size, data, last):
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data


def zstd_raw(data):
    return zstd_frame(len(data), zstd_block(0, len(data), data, 1))


def zstd_zeros(size):
    step = 128 << 10
    blocks = [zstd_block(1, min(step, size - done), b"\0", done + step >= size)
              for done in range(0, size, step)]
    return zstd_frame(size, b"".join(blocks))


# ---- files ------------------------------------------------------------------------------------

class Section:
    """A part of a file: its bytes and their entry in the section table."""

    def __init__(self, name, data, count, encoding=RAW):
        self.name = name
        self.data = data
        self.count = count
        self.encoding = encoding


def sections_of(tables, encode=None):
    """encode: what makes a zstd frame of a section's rows; None leaves them as they are."""
    made = []
    for name, rows in tables.items():
        data = pack(name, rows)
        made.append(Section(name, encode(data) if encode else data, len(rows),
                            ZSTD if encode else RAW))
    return made


def padded(data):
    return data + bytes(-len(data) % 8)


def file_of(sections):
    offset = HEADER.size + ENTRY.size * len(sections)
    table, body = b"", b""
    for section in sections:
        table += ENTRY.pack(TYPES[section.name], section.encoding, offset + len(body),
                            len(section.data), section.count, 0)
        body = padded(body + section.data)
    header = HEADER.pack(b"ALOCSNAP", 1, HEADER.size, offset + len(body), len(sections), 0, 0)
    return header + table + body


def entry_at(data, name):
    """Where the section's entry begins in the section table."""
    number = struct.unpack_from("<I", data, HEADER_FIELDS["section_nr"][0])[0]
    for i in range(number):
        at = HEADER.size + i * ENTRY.size
        if struct.unpack_from("<I", data, at)[0] == TYPES[name]:
            return at
    raise KeyError(name)


def entry(data, name, field):
    at, width = ENTRY_FIELDS[field]
    at += entry_at(data, name)
    return int.from_bytes(data[at:at + width], "little")


def poke(data, at, width, value):
    value &= (1 << 8 * width) - 1
    return data[:at] + value.to_bytes(width, "little") + data[at + width:]


def with_header(data, field, value):
    return poke(data, *HEADER_FIELDS[field], value)


def with_entry(data, name, field, value):
    at, width = ENTRY_FIELDS[field]
    return poke(data, entry_at(data, name) + at, width, value)


def with_row(data, name, row, field, value):
    form, fields = ROWS[name]
    at, width = fields[field]
    return poke(data, entry(data, name, "offset") + row * struct.calcsize(form) + at, width, value)
