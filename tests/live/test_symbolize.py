# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap symbolize gives the names that the recording would have given at once."""
import itertools
import os
import re
import shutil
import stat
import struct

import harness
from harness import ALLOCSNAP, WORKLOADS, check, check_equal, tool
from hostile import HOSTILE, build
from test_hostile import LOADS

SIZE = 777001
FRAMES, TRACE_SIZES, TRACE_ADDRESSES, TRACE_COUNTS, FRAME_FIRST_LINES = 7, 10, 14, 21, 22


def record(bench, name, argv, *options, text="go\nquit\n", **more):
    """The last snapshot of a program that does the same each time."""
    folder = bench.path(name)
    stdout, _ = bench.run([tool("sh"), "-c", 'printf "$TEXT" | "$@"', "sh", ALLOCSNAP, "run", "-o",
                           folder, *options, "--", *argv], env={**os.environ, "TEXT": text}, **more)
    return [line for line in stdout.splitlines() if line.endswith(".snap")][-1]


def rows_of(bench, path):
    """{traceback: (count, size)}: all that statistics say of callers."""
    rows = {}
    for row in bench.stats(path, "--group-by", "traceback", "--keep-wrappers")["statistics"]:
        key = tuple(tuple(sorted(frame.items())) for frame in row["traceback"])
        rows[key] = row["count"], row["size"]
    return rows


def named_functions(bench, path):
    return [frame["function"] for row in bench.stats(path, "--group-by", "traceback",
                                                     "--keep-wrappers")["statistics"]
            for frame in row["traceback"] if not frame.get("function", "[").startswith("[")]


def check_later_is_now(bench, argv, *options, **more):
    """A snapshot of it without names, which are in the one that is its equal otherwise."""
    now = record(bench, "now", argv, *options, **more)
    later = record(bench, "later", argv, "--no-names", *options, **more)
    check_equal(named_functions(bench, later), [], "functions without names")
    shown, mode = bench.show(later), os.stat(later).st_mode
    stdout, _ = bench.allocsnap("symbolize", later)
    named, unnamed = map(int, re.search(r": (\d+) of (\d+) unnamed frames named", stdout).groups())
    check(0 < named <= unnamed, stdout)
    check_equal(rows_of(bench, later), rows_of(bench, now), "tracebacks named later")
    check_equal(os.stat(later).st_mode, mode, "mode")
    lines = first_lines_of(later)
    check_equal(lines, first_lines_of(now), "lines of declarations")
    check(not lines or any(declared for _, _, declared in lines), "no declaration is known")
    after = bench.show(later)
    for key in ("metadata", "traced_memory", "blocks", "counters", "losses", "probes"):
        check_equal(after.get(key), shown.get(key), key)
    before = open(later, "rb").read()
    check("0 of" in bench.allocsnap("symbolize", later)[0], "named twice")
    check_equal(open(later, "rb").read(), before, "a file that is named already")
    return now, later


def sections_of(path):
    """{type: (encoding, rows, bytes)} of a snapshot file: include/snapshot.h."""
    with open(path, "rb") as file:
        text = file.read()
    start, number = struct.unpack_from("<12xI8xI", text)
    rows = (struct.unpack_from("<IIQQQ", text, start + 40 * i) for i in range(number))
    return {row[0]: (row[1], row[4], text[row[2]:row[2] + row[3]]) for row in rows}


def first_lines_of(path):
    """[(offset, line, line where the function is declared)] of the frames that have lines."""
    sections = sections_of(path)
    frames = struct.iter_unpack("<4xI4xIQ8x", sections[FRAMES][2])
    first = itertools.repeat((0,))
    if FRAME_FIRST_LINES in sections:
        first = struct.iter_unpack("<I", sections[FRAME_FIRST_LINES][2])
    return sorted((offset, line, declared) for (line, _, offset), (declared,) in zip(frames, first)
                  if line)


@harness.core
@harness.smoke
def test_symbolize_names_cxx_functions(bench):
    """operator new and its caller have names; wrappers are skipped as in other snapshots."""
    now, later = check_later_is_now(bench, [os.path.join(WORKLOADS, "cxx")])
    check("operator new(unsigned long)" in named_functions(bench, later), "operator new is named")
    check_equal(bench.stats(later)["statistics"], bench.stats(now)["statistics"],
                "rows without wrappers")


def test_symbolize_keeps_files_compact(bench):
    """Rows with a count keep it, and compressed sections stay compressed."""
    path = record(bench, "out", [os.path.join(WORKLOADS, "known")], "--compact", "--no-names")
    plain = bench.path("plain.snap")
    bench.allocsnap("convert", path, "-o", plain)
    for file, is_packed in ((path, True), (plain, False)):
        before = sections_of(file)
        bench.allocsnap("symbolize", file)
        after = sections_of(file)
        check(named_functions(bench, file), f"{file}: no names")
        check_equal(sorted(after), sorted([*before, FRAME_FIRST_LINES]), f"sections of {file}")
        for kind in (TRACE_SIZES, TRACE_COUNTS):
            check_equal(after[kind][1], before[kind][1], f"rows of {file}")
        check(TRACE_ADDRESSES not in after, "addresses of a compact file")
        check_equal(any(encoding for encoding, *_ in after.values()), is_packed, "is compressed")


def test_symbolize_names_python_functions(bench):
    """Debian's python3, stripped; its tracebacks go through many libraries."""
    check_later_is_now(bench, ["/usr/bin/python3", "-ISc", "x = [bytearray(1000) for _ in range(99)]"], "--domain", "malloc")


SOURCE = """
#include <stdlib.h>
static inline __attribute__((always_inline)) char *shelf(size_t n) { return malloc(n); }
static __attribute__((noinline)) char *stock(size_t n) { char *p = shelf(n); *p = 1; return p; }
int main(void) { for (int i = 0; i < 7; i++) stock(777001)[1] = i; return 0; }
"""


def compile_shop(bench, shop):
    bench.run([tool("gcc"), "-g", "-O2", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", shop,
               shop + ".c"])


def build_shop(bench):
    """A stripped program, and where its debug file is."""
    shop, debug = bench.path("shop"), bench.path("debug")
    with open(shop + ".c", "w") as file:
        file.write(SOURCE)
    compile_shop(bench, shop)
    notes = bench.run([tool("readelf"), "-n", shop])[0]
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    folder = os.path.join(debug, ".build-id", build_id[:2])
    os.makedirs(folder)
    bench.run([tool("objcopy"), "--only-keep-debug", shop,
               os.path.join(folder, build_id[2:] + ".debug")])
    bench.run([tool("strip"), shop])
    return shop, debug, build_id


def callers(bench, path):
    """The functions of the program itself, oldest first."""
    row, = bench.stats(path, "--group-by", "traceback", "--min-size", str(SIZE))["statistics"]
    return [frame.get("function") for frame in reversed(row["traceback"])
            if "shop" in os.path.basename(frame["filename"])]


def check_same(bench, old, new):
    """A snapshot and its symbolized copy: no row has a difference."""
    for key in ("lineno", "filename", "traceback", "function", "object"):
        diff = bench.diff(old, new, "--group-by", key)
        check(diff["total"]["size"], f"no blocks by {key}")
        check_equal([row for row in diff["statistics"] if row["size_diff"] or row["count_diff"]], [],
                    f"differences by {key}")
        check_equal(diff["warnings"], [], "warnings")


def test_symbolize_reads_debug_files_of_a_directory(bench):
    """The debug file of a stripped program is in no known place; static and inlined functions."""
    shop, debug, _ = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    bench.allocsnap("symbolize", path)
    check_equal(callers(bench, path)[-1], None, "a static function without a debug file")
    copy = bench.path("copy.snap")
    bench.allocsnap("symbolize", path, "-o", copy, "--debug-dir", debug)
    check_equal(callers(bench, copy)[-3:], ["main", "stock", "shelf"], "with one")
    check_equal(callers(bench, path)[-1], None, "the file that was read")
    check_same(bench, path, copy)
    check_same(bench, copy, path)


def test_symbolize_refuses_a_replaced_program(bench):
    """A file whose build-id has changed gives no names; the file below --root with the right build-id does."""
    shop, debug, build_id = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    os.makedirs(bench.path("root") + os.path.dirname(shop))
    shutil.copy(shop, bench.path("root") + shop)
    with open(shop + ".c", "a") as file:
        file.write("int more(void) { return 1; }\n")
    os.unlink(shop)
    compile_shop(bench, shop)
    _, stderr = bench.allocsnap("symbolize", path, "--debug-dir", debug)
    lines = [line for line in stderr.splitlines() if shop in line and "no names" in line]
    check_equal(len(lines), 1, f"lines about it in {stderr!r}")
    check(build_id in lines[0] and "now" in lines[0], lines[0])
    check_equal(set(callers(bench, path)), {None}, "functions of the replaced program")
    bench.allocsnap("symbolize", path, "--debug-dir", debug, "--root", bench.path("root"))
    check_equal(callers(bench, path)[-3:], ["main", "stock", "shelf"], "from the root")


@harness.core
def test_symbolize_survives_hostile_libraries(bench):
    """Some libraries are made to break their reader: the honest ones are named all the same."""
    paths = [build(bench.folder, hostile.__name__, hostile) for hostile in HOSTILE]
    paths.append(build(bench.folder, "honest"))
    path = record(bench, "out", [tool("python3"), "-c", LOADS], "--no-names", "--domain", "malloc", seconds=60,
                  text="".join(f"{path} {SIZE + i}\\n" for i, path in enumerate(paths)))
    bench.run([ALLOCSNAP, "symbolize", path], seconds=150)
    for i, library in enumerate(paths):
        rows = bench.stats(path, "--min-size", str(SIZE + i), "--max-size", str(SIZE + i))
        frame = rows["statistics"][0]["traceback"][0]
        if i == len(paths) - 1:
            check_equal(frame.get("function"), "grab", "of the honest library")
        check(os.path.basename(library)[:6] in str(frame), f"{library}: {frame}")


def test_symbolize_follows_no_links_of_other_users(bench):
    """Root follows no link of another user; the snapshot behind the link does not change."""
    shop, debug, _ = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    before, link = open(path, "rb").read(), bench.path("link.snap")
    os.symlink(path, link)
    os.lchown(link, 1, 1)
    _, stderr = bench.allocsnap("symbolize", link, "--debug-dir", debug, status=1)
    check("cannot write" in stderr, stderr)
    check_equal(open(path, "rb").read(), before, "the file that it leads to")
    os.lchown(link, 0, 0)
    bench.allocsnap("symbolize", link, "--debug-dir", debug)
    check(os.path.islink(link), "the link is one no more")
    check_equal(callers(bench, path)[-1], "shelf", "through a link of root")


def test_symbolize_keeps_mode_owner_and_time(bench):
    """Mode, owner and time stay; a file that is no snapshot fails, and the others are named."""
    shop, debug, _ = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    os.chmod(path, 0o640)
    os.chown(path, 1, 2)
    os.utime(path, ns=(1, 123456789))
    bad = bench.path("bad.snap")
    with open(bad, "w") as file:
        file.write("no snapshot")
    bench.allocsnap("symbolize", bad, path, "--debug-dir", debug, status=1)
    found = os.stat(path)
    check_equal((stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid), (0o640, 1, 2),
                "mode and owner")
    check_equal(found.st_mtime_ns, 123456789, "time")
    check_equal(callers(bench, path)[-1], "shelf", "the other file")
