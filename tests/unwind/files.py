# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files whose tables are compared with libdw's: the machine's, and some made for the test."""
import glob
import os
import pathlib
import subprocess

from harness import Skip

LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
USUAL = [
    LIBRARIES + "libc.so.6", LIBRARIES + "ld-linux-x86-64.so.2", LIBRARIES + "libstdc++.so.6",
    LIBRARIES + "libcrypto.so.3", LIBRARIES + "libz.so.1", LIBRARIES + "libgcc_s.so.1",
    LIBRARIES + "libLLVM-14.so.1", LIBRARIES + "libmimalloc.so.2", "/usr/bin/python3.11",
    "/usr/bin/git", "/usr/bin/sqlite3", "/usr/bin/redis-server",
    "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
]
ARM64 = "/usr/aarch64-linux-gnu/lib/lib*.so.*"  # of the package libc6-arm64-cross
EVERYWHERE = ["/usr/bin", "/usr/sbin", "/usr/lib"]

SOURCE = """
#include <stdio.h>
#include <string.h>
static int fill(char *to, int n) { memset(to, n, 100); return to[n]; }
int twice(int n) { char buf[200]; return fill(buf, n) + puts(buf) + (n > 3 ? twice(n - 1) : 0); }
int main(int argc, char **argv) { (void)argv; return twice(argc) + twice(argc * 3); }
"""

# Name, command. Each is libdw's to judge too; no_sections has none to judge by but PT_GNU_EH_FRAME.
MADE = {
    "gcc": "gcc -O2 made.c -o made",
    "frame_pointers": "gcc -O1 -fno-omit-frame-pointer made.c -o made",
    "realigned": "gcc -O2 -mstackrealign made.c -o made",
    "debug_frame": "gcc -g -O2 -fno-asynchronous-unwind-tables made.c -o made",
    "debug_frame_compressed": "gcc -g -gz -O2 -fno-asynchronous-unwind-tables made.c -o made",
    "debug_frame_64_bit":
        "gcc -g -gdwarf64 -O2 -fno-asynchronous-unwind-tables made.c -o made",
    "lld": "clang -O2 -fuse-ld=lld made.c -o made",
    "static": "gcc -O2 -static made.c -o made",
    "static_pie": "gcc -O2 -static-pie made.c -o made",
    "arm64": "aarch64-linux-gnu-gcc -O2 made.c -o made",
    "arm64_signed": "aarch64-linux-gnu-gcc -O2 -mbranch-protection=standard made.c -o made",
    "sections_stripped": "gcc -O2 made.c -o made && strip made",
    "no_section_headers": "gcc -O2 made.c -o made && "
                          # e_shoff, then e_shentsize, e_shnum and e_shstrndx
                          "dd if=/dev/zero of=made bs=1 seek=40 count=8 conv=notrunc && "
                          "dd if=/dev/zero of=made bs=1 seek=58 count=6 conv=notrunc",
}


def make(folder, name):
    """The path of the file."""
    (pathlib.Path(folder) / "made.c").write_text(SOURCE, encoding="utf-8")
    done = subprocess.run(MADE[name], shell=True, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"it could not be built: {done.stderr.strip()[-300:]}")
    return str(pathlib.Path(folder) / "made")


def is_elf(path):
    try:
        with open(path, "rb") as file:
            return file.read(5) == b"\x7fELF\x02"
    except OSError:
        return False


def below(folders):
    """Every 64-bit ELF file there, once."""
    seen = set()
    for folder in folders:
        for where, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(where, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                status = os.stat(path)
                key = status.st_dev, status.st_ino
                if key not in seen and is_elf(path):
                    seen.add(key)
                    yield path


def usual(allocsnap):
    return [path for pattern in [*USUAL, allocsnap] for path in glob.glob(pattern) or [pattern]] + glob.glob(ARM64)
