# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Libraries that can be loaded, and whose other parts are lies."""
import struct
import subprocess

from harness import tool

SOURCE = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) void grab(size_t n) { kept = malloc(n); }
"""
SECTION = "<IIQQQQIIQQ"  # Elf64_Shdr
NAME, TYPE, FLAGS, ADDR, OFFSET, SIZE, LINK, INFO, ALIGN, ENTRY = range(10)
ENDLESS = 1 << 40
SHF_COMPRESSED = 1 << 11


class Library:
    """The bytes of a file, and its section headers by name."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.text = bytearray(file.read())
        self.start, = struct.unpack_from("<Q", self.text, 0x28)
        _, number, names = struct.unpack_from("<HHH", self.text, 0x3a)
        self.places = [self.start + i * struct.calcsize(SECTION) for i in range(number)]
        names = self.header(self.places[names])[OFFSET]
        self.by_name = {}
        for place in self.places:
            at = names + self.header(place)[NAME]
            self.by_name[self.text[at:self.text.index(0, at)].decode()] = place

    def header(self, place):
        return list(struct.unpack_from(SECTION, self.text, place))

    def change(self, name, field, value):
        header = self.header(self.by_name[name])
        header[field] = value
        struct.pack_into(SECTION, self.text, self.by_name[name], *header)

    def put(self, name, text):
        """At the section's begin."""
        at = self.header(self.by_name[name])[OFFSET]
        self.text[at:at + len(text)] = text

    def save(self):
        with open(self.path, "wb") as file:
            file.write(self.text)


def unpacks_to_a_tebibyte(library):
    for name in library.by_name:
        if name.startswith(".debug_"):
            header = library.header(library.by_name[name])
            library.change(name, FLAGS, header[FLAGS] | SHF_COMPRESSED)
            library.put(name, struct.pack("<IIQQ", 1, 0, ENDLESS, 1))


def has_endless_tables(library):
    for name in (".symtab", ".dynsym", ".strtab", ".rela.dyn"):
        library.change(name, SIZE, ENDLESS)


def lies_behind_the_end(library):
    for name in (".symtab", ".eh_frame", ".eh_frame_hdr", ".debug_info", ".debug_line"):
        library.change(name, OFFSET, ENDLESS)


def goes_in_circles(library):
    """Each entry of .eh_frame says that it belongs to itself."""
    size = library.header(library.by_name[".eh_frame"])[SIZE]
    library.put(".eh_frame", struct.pack("<II", 4, 4) * (size // 8))


def says_it_has_all_sections(library):
    struct.pack_into("<H", library.text, 0x3c, 0xfeff)


HOSTILE = (unpacks_to_a_tebibyte, has_endless_tables, lies_behind_the_end, goes_in_circles,
           says_it_has_all_sections)


def build(folder, name, hostile=None):
    """The path of a library that has grab(); hostile() is done to it."""
    path = f"{folder}/lib{name}.so"
    subprocess.run([tool("gcc"), "-g", "-O1", "-shared", "-fPIC", "-fno-omit-frame-pointer",
                    "-xc", "-", "-o", path], input=SOURCE, text=True, check=True)
    library = Library(path)
    if hostile:
        hostile(library)
    library.save()
    return path
