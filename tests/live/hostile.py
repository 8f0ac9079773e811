# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Libraries that the loader accepts, but whose other parts are false."""
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


# Functions with thousands of returns; renamed, each is an operator new that returns at all of them.
NO_CODE_ON_STACKS = '.section .note.GNU-stack, "", @progbits\n'
RETURNS = """
.text
.globl _Znwm
_Znwm: ret
""" + "".join(f"""
.globl f{i}
.type f{i}, @function
f{i}:
.rept 4000
push %rax; pop %rax; test %rdi, %rdi; je 1f; ret
1:
.endr
ret
.size f{i}, . - f{i}
""" for i in range(150))


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

    def name_functions(self, name, new):
        """Renames the functions in .dynsym for whose name `name` is true: they get another name that the file has."""
        start, size = self.header(self.by_name[".dynsym"])[OFFSET:SIZE + 1]
        names = self.header(self.by_name[".dynstr"])[OFFSET]
        place = self.text.index(b"\0" + new.encode() + b"\0", names) + 1 - names
        for at in range(start, start + size, 24):
            old = names + struct.unpack_from("<I", self.text, at)[0]
            if name(self.text[old:self.text.index(0, old)].decode()):
                struct.pack_into("<I", self.text, at, place)

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
    """Each entry of .eh_frame names itself as its CIE."""
    size = library.header(library.by_name[".eh_frame"])[SIZE]
    library.put(".eh_frame", struct.pack("<II", 4, 4) * (size // 8))


def says_it_has_all_sections(library):
    struct.pack_into("<H", library.text, 0x3c, 0xfeff)


HOSTILE = (unpacks_to_a_tebibyte, has_endless_tables, lies_behind_the_end, goes_in_circles,
           says_it_has_all_sections)


def returns_everywhere(library):
    """More than half a million returns. allocsnap looks at operator new only in a file that defines malloc, too."""
    library.name_functions(lambda name: name == "f0", "malloc")
    library.name_functions(lambda name: name[:1] == "f" and name[1:].isdigit(), "_Znwm")


TWIN = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) static void INNER(size_t n) { kept = malloc(n); }
void grab(size_t n) { INNER(n); kept = 0; }
"""


def build_twin(folder, inner):
    """Libraries of one path, build-id and layout, and another name for the function that allocates."""
    path = f"{folder}/libtwin.so"
    subprocess.run([tool("gcc"), "-g", "-O1", "-shared", "-fPIC", f"-DINNER={inner}",
                    "-Wl,--build-id=0x0123456789abcdef", "-xc", "-", "-o", path],
                   input=TWIN, text=True, check=True)
    return path


def build(folder, name, hostile=None, assembly=""):
    """The path of a library that has grab(), and this code; hostile() is done to it."""
    path = f"{folder}/lib{name}.so"
    with open(f"{folder}/{name}.s", "w", encoding="ascii") as file:
        file.write(assembly + NO_CODE_ON_STACKS)
    subprocess.run([tool("gcc"), "-g", "-O1", "-shared", "-fPIC", "-fno-omit-frame-pointer",
                    f"{folder}/{name}.s", "-xc", "-", "-o", path], input=SOURCE, text=True, check=True)
    library = Library(path)
    if hostile:
        hostile(library)
    library.save()
    return path
