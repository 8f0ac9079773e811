# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The damaged files: each is yielded as (name, bytes, whether its checksums must be repaired)."""
import itertools

from snapfile import (ENTRY, HEADER, ROWS, ZSTD, Section, entry, entry_at, file_of, sample,
                      sections_of, with_entry, with_header, with_row, zstd_block, zstd_frame,
                      zstd_raw, zstd_zeros)

U32, U63, U64 = (1 << 32) - 1, 1 << 63, (1 << 64) - 1

# section, row, field, new value
BAD_ROWS = (
    ("metadata", 0, "key", 0), ("metadata", 1, "key", 1), ("metadata", 0, "key", 16),
    ("metadata", 1, "value", U32),
    ("counters", 0, "name", 0), ("counters", 1, "name", 5), ("counters", 0, "name", 16),
    ("counters", 1, "kind", 0), ("counters", 1, "kind", 3),
    ("probes", 0, "object", 3), ("probes", 0, "function", 16), ("probes", 0, "instruction", U32),
    ("string starts", 0, "", 1), ("string starts", 2, "", 0), ("string starts", 2, "", 1),
    ("string starts", 2, "", 6), ("string starts", 15, "", 1 << 62), ("string starts", 3, "", U64),
    ("strings", 0, "", 65), ("strings", 4, "", 65), ("strings", 2, "", 0),
    ("objects", 0, "path", 1), ("objects", 1, "path", 16), ("objects", 2, "build_id", 16),
    ("objects", 2, "build_id", 1),
    ("frames", 0, "lineno", 1), ("frames", 1, "filename", 16), ("frames", 1, "function", U32),
    ("frames", 2, "object", 3), ("frames", 3, "flags", 32), ("frames", 3, "flags", U63 >> 32),
    ("frames", 3, "reserved", 1),
    ("tracebacks", 0, "total_nframe", 1), ("tracebacks", 0, "nframe", 1),
    ("tracebacks", 2, "first", 2), ("tracebacks", 2, "first", 0), ("tracebacks", 2, "first", 4),
    ("tracebacks", 1, "first", 3), ("tracebacks", 2, "first", U64), ("tracebacks", 1, "first", U63),
    ("tracebacks", 2, "nframe", 1), ("tracebacks", 2, "nframe", 3), ("tracebacks", 1, "nframe", 0),
    ("tracebacks", 2, "nframe", 65536), ("tracebacks", 2, "nframe", U32),
    ("tracebacks", 1, "flags", 4), ("tracebacks", 1, "reserved", 1),
    ("traceback frames", 0, "", 4), ("traceback frames", 4, "", 0),
    ("traceback frames", 2, "", U32),
    ("trace tracebacks", 3, "", 3), ("trace tracebacks", 0, "", U32),
    ("frame first lines", 0, "", 1), ("frame first lines", 2, "", 1), ("frame first lines", 2, "", U32),
    # 0, the next below 1, infinity, no number, -1
    ("trace weights", 0, "", 0), ("trace weights", 3, "", 0x3fefffffffffffff),
    ("trace weights", 1, "", 0x7ff << 52), ("trace weights", 1, "", 0x7ff8 << 48),
    ("trace weights", 2, "", 0xbff << 52),
    ("gaps", 0, "end_ns", 5), ("gaps", 0, "start_ns", 8), ("gaps", 1, "start_ns", 6),
    ("gaps", 2, "start_ns", 8), ("gaps", 2, "end_ns", 0), ("gaps", 0, "start_ns", U64),
)

BAD_HEADERS = (
    ("magic", 0), ("version", 0), ("version", 2), ("version", U32), ("header_size", 0),
    ("header_size", 48), ("header_size", U32), ("file_size", 0), ("file_size", 8),
    ("file_size", U63), ("file_size", U64), ("section_nr", 0), ("section_nr", 18),
    ("section_nr", 20), ("section_nr", U32), ("reserved", 1),
)

# of every section's entry
BAD_ENTRIES = (
    ("type", 0), ("type", 23), ("type", U32), ("encoding", 2), ("encoding", U32),
    ("offset", 0), ("offset", HEADER.size), ("offset", 1 << 40), ("offset", U63), ("offset", -8),
    ("size", 1 << 40), ("size", U63), ("size", U64), ("size", U32),
    ("count", U32), ("count", 1 << 32), ("count", U63), ("count", U64), ("count", 1 << 61),
)


def bad_rows(base):
    for name, row, field, value in BAD_ROWS:
        yield f"{name} {row} {field} {value}", with_row(base, name, row, field, value), True


def bad_headers(base):
    for field, value in BAD_HEADERS:
        yield f"header {field} {value}", with_header(base, field, value), True
    yield "header checksum", with_header(base, "checksum", 1), False


def bad_entries(base):
    for name in ROWS:
        for field, value in BAD_ENTRIES:
            yield f"entry of {name}: {field} {value}", with_entry(base, name, field, value), True
        for field in ("offset", "size", "count"):
            value = entry(base, name, field)
            for step in (-8, -1, 1, 4, 8):
                yield (f"entry of {name}: {field} {step:+}",
                       with_entry(base, name, field, value + step), True)


def overlaps(base):
    """Two sections in one place, the same one twice, and sections in another order."""
    names = list(ROWS)
    for first, second in zip(names, names[1:]):
        place = entry(base, first, "offset")
        yield f"{second} on {first}", with_entry(base, second, "offset", place), True
        at, then = entry_at(base, first), entry_at(base, second)
        twice = base[:then] + base[at:at + ENTRY.size] + base[then + ENTRY.size:]
        yield f"{first} twice", twice, True
        swapped = base[:at] + base[then:then + ENTRY.size] + base[at:then] + \
            base[then + ENTRY.size:]
        yield f"{second} before {first}", swapped, True


def absences():
    """Required sections, and row 0 of those that have one."""
    for name in ("string starts", "strings", "objects", "frames", "tracebacks"):
        tables = sample()
        del tables[name]
        yield f"no {name}", file_of(sections_of(tables)), True
        tables = sample()
        tables[name] = []
        yield f"empty {name}", file_of(sections_of(tables)), True
    for name in ("trace sizes", "trace tracebacks", "traceback frames"):
        tables = sample()
        del tables[name]
        yield f"no {name}", file_of(sections_of(tables)), True
    for name in list(ROWS)[9:]:
        if name == "gaps":
            continue  # fewer are valid
        tables = sample()
        tables[name] = tables[name][:len(tables[name]) // 2]
        yield f"short {name}", file_of(sections_of(tables)), True
        tables[name] = tables[name] * 4
        yield f"long {name}", file_of(sections_of(tables)), True
    yield "a header alone", file_of([]), True


def steps(limit, base):
    """Lengths: all near a boundary, every seventh elsewhere."""
    edges = {0, 8, HEADER.size, entry_at(base, list(ROWS)[-1]) + ENTRY.size}
    for name in ROWS:
        start = entry(base, name, "offset")
        edges |= {start, start + entry(base, name, "size")}
    near = {edge + step for edge in edges for step in (-1, 0, 1)}
    return sorted(length for length in near | set(range(0, limit, 7)) if 0 <= length < limit)


def lengths(base):
    for length in steps(len(base), base):
        yield f"{length} of {len(base)} bytes", base[:length], False
        if length >= HEADER.size:
            yield (f"{length} of {len(base)} bytes, which it says",
                   with_header(base[:length], "file_size", length), True)
    for more in (1, 7, 8, 4096):
        yield f"{more} bytes more", base + bytes(more), False
        longer = with_header(base + b"\1" * more, "file_size", len(base) + more)
        yield f"{more} bytes more, which it says", longer, True
    longer = with_header(base + bytes(8192), "file_size", len(base) + 8192)
    yield "8192 bytes of nothing more, which it says", longer, True


def flips(base):
    masks = (0x01, 0x80, 0xff, 0x20)
    for at in range(len(base)):
        flipped = base[at] ^ masks[at % len(masks)]
        yield f"byte {at}", base[:at] + bytes([flipped]) + base[at + 1:], False


def one_section(name, data, count):
    """The sample with one section as this zstd frame."""
    sections = sections_of(sample())
    place = [section.name for section in sections].index(name)
    sections[place] = Section(name, data, count, ZSTD)
    return file_of(sections)


def columns(data, count):
    """The sample with its two trace columns as these zstd frames."""
    tables = {name: made for name, made in sample().items() if not name.startswith("trace ")}
    sections = sections_of(tables)
    for name in ("trace sizes", "trace tracebacks"):
        sections.append(Section(name, data[name], count, ZSTD))
    return file_of(sections)


def bomb(frames, count):
    return columns({"trace sizes": frames(8 * count), "trace tracebacks": frames(4 * count)},
                   count)


def bad_frames():
    """Zstd frames that are not the 32 bytes of the four trace sizes."""
    data = bytes(range(32))
    good = zstd_raw(data)
    half = zstd_block(0, 16, data[:16], 0)
    yield "nothing", b""
    yield "its magic alone", good[:4]
    yield "a cut frame", good[:-1]
    yield "two frames", good + good
    yield "a byte after the frame", good + b"\0"
    yield "a skippable frame before", b"\x50\x2a\x4d\x18\4\0\0\0abcd" + good
    yield "a skippable frame alone", b"\x50\x2a\x4d\x18\4\0\0\0abcd"
    yield "a skippable frame after", good + b"\x50\x2a\x4d\x18\4\0\0\0abcd"
    yield "an empty frame after", good + zstd_raw(b"")
    yield "no zstd", bytes(48)
    yield "less than it says", zstd_frame(32, half + zstd_block(0, 8, data[16:24], 1))
    yield "more than it says", zstd_frame(32, half + zstd_block(1, 1 << 17, b"\0", 1))
    yield "no last block", zstd_frame(32, zstd_block(0, 32, data, 0))
    yield "a reserved block", zstd_frame(32, zstd_block(3, 32, data, 1))
    yield "a block of no code", zstd_frame(32, zstd_block(2, 32, b"\xff" * 32, 1))
    yield "other rows than counted", zstd_raw(data[:24])
    yield "a size of 2^64 - 1", zstd_frame(U64, zstd_block(0, 32, data, 1))
    yield "a size of 2^64 - 2", zstd_frame(U64 - 1, zstd_block(0, 32, data, 1))
    yield "a size of 1 TiB", zstd_frame(1 << 40, zstd_block(0, 32, data, 1))
    yield "no size", b"\x28\xb5\x2f\xfd\0\x50" + zstd_block(0, 32, data, 1)
    yield "a reserved bit", zstd_frame(32, zstd_block(0, 32, data, 1), 0xe8)
    yield "a checksum that is not there", zstd_frame(32, zstd_block(0, 32, data, 1), 0xe4)
    yield "a dictionary", b"\x28\xb5\x2f\xfd\x21\7\x20" + zstd_block(0, 32, data, 1)
    yield "a window of 2^41", b"\x28\xb5\x2f\xfd\xc0\xf8" + (32).to_bytes(8, "little") + \
        zstd_block(0, 32, data, 1)


def bad_zstd():
    for name, data in bad_frames():
        yield f"zstd: {name}", one_section("trace sizes", data, 4), True
    last = zstd_block(0, 4, b"\0" * 4, 1)
    yield "zstd: 2^40 bytes promised", bomb(lambda size: zstd_frame(size, last), 1 << 37), True
    yield "zstd: 2^62 bytes promised", bomb(lambda size: zstd_frame(size, last), 1 << 59), True
    yield "zstd: counts that wrap", bomb(lambda size: zstd_frame(size % 2**64, last), 1 << 61), True
    yield "zstd: 3 GiB of zeros", bomb(zstd_zeros, 1 << 28), True
    strings = zstd_zeros(1 << 31)
    yield "zstd: 2 GiB of strings", one_section("strings", strings, 1 << 31), True
    yield "zstd: 2 GiB of metadata", one_section("metadata", strings, 1 << 28), True


# ---- JSON, which only convert reads -----------------------------------------------------------

def tuples(traces="[0, 1, [[\"a.py\", 2]], 1]", limit="1"):
    return f'{{"traceback_limit": {limit}, "traces": [{traces}]}}'


def trace_texts():
    """Traces that are invalid."""
    frame = '[["a.py", 2]]'
    for domain in ("-1", "4294967296", "1.5", "null", '"0"', "1e400", "9" * 400):
        yield f"[{domain}, 1, {frame}, 1]"
    for size in ("-1", "9223372036854775808", "true", "{}", "1" + "0" * 5000):
        yield f"[0, {size}, {frame}, 1]"
    for total in ("-1", "4294967296", "[]", '"1"'):
        yield f"[0, 1, {frame}, {total}]"
    for frames in ("{}", "null", '["a.py", 2]', "[[]]", '[["a.py"]]', '[["a.py", 2, 3]]',
                   "[[2, 2]]", '[["a.py", "2"]]', '[["a.py", -1]]', '[["a.py", 4294967296]]',
                   '[["a\\u0000.py", 2]]', "[" + "[" * 5000):
        yield f"[0, 1, {frames}, 1]"
    yield from ("[]", "[0]", "[0, 1]", "0", '"x"', "{}", "null", f"[0, 1, {frame}, 1, 1, 1]",
                *(f"[0, 1, {frame}, 1, {weight}]" for weight in ("0", "0.99", "-1", "null", '"1"', "1e400")))
    frames = ", ".join(['["a.py", 2]'] * 65536)
    yield f"[0, 1, [{frames}], 65536]"


def bad_json():
    for number, text in enumerate(trace_texts()):
        yield f"json: trace {number}: {text[:40]}", tuples(text).encode(), False
        yield f"json: second trace {number}: {text[:40]}", \
            tuples(f'[0, 1, [["a.py", 2]]], {text}').encode(), False
    for limit in ("-1", "0.5", '"1"', "[]", "9" * 30):
        yield f"json: limit {limit}", tuples(limit=limit).encode(), False
    whole = tuples().encode()
    for length in range(len(whole)):
        yield f"json: {length} bytes of it", whole[:length], False
    for more in (b"x", b"{}", b"\0", b"\xff"):
        yield f"json: {more!r} behind", whole + more, False
    for token in (b"0", b"1", b"2", b"]", b":", b","):
        yield f"json: a NUL behind {token!r}", whole.replace(token, token + b"\0", 1), False
    for name, text in (("no members", "{}"), ("no traces", '{"traceback_limit": 1}'),
                       ("an object", '{"traces": {}}'),
                       ("twice", tuples()[:-1] + ', "traces": []}'),
                       ("deep", '{"a": ' * 5000), ("deep lists", '{"a": ' + "[" * 100000)):
        yield f"json: {name}", text.encode(), False


def all_files():
    """All damages that a few hundred lines can do to one small file, raw and compressed."""
    raw, compressed = (file_of(sections_of(sample(), encode)) for encode in (None, zstd_raw))
    for make in (bad_rows, bad_headers, bad_entries, overlaps, lengths, flips):
        yield from make(raw)
    yield from absences()
    for make, step in ((bad_headers, 1), (bad_entries, 3), (lengths, 2), (flips, 2)):
        for name, data, repaired in itertools.islice(make(compressed), 0, None, step):
            yield f"compressed: {name}", data, repaired
    yield from bad_zstd()


def good_files():
    """Files that must be read: without them a refusal proves nothing."""
    yield "raw", file_of(sections_of(sample()))
    yield "compressed", file_of(sections_of(sample(), zstd_raw))
    yield "a megabyte of zeros", bomb(zstd_zeros, 1 << 17)
