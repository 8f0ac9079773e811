#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""check-bpf-stack.py OBJECT: the deepest chains of calls in BPF programs, in bytes of stack.

All functions of a chain share 512 bytes, and a chain has at most 8 of them. From kernel 6.13 on each function may have
a stack of its own, so a new kernel loads what an older one refuses. Fails if a chain is above a limit, or if a program
of uprobes has no tail call (ON_STACK_OF_THREAD).
"""
import struct
import sys

STACK_BYTES, CHAIN_FUNCTIONS = 512, 8
ROUNDED_TO = 32  # each function's share; at least one such unit
FRAME_POINTER = 10
CALL, LOAD_ADDRESS, MOVE, ADD = 0x85, 0x18, 0xbf, 0x07
LOADS, STORES = (1,), (2, 3)  # classes of instructions that reach memory
SECTION, FUNCTION = 3, 2      # types of symbols
EXECUTABLE = 4
SYMTAB, REL = 2, 9            # types of sections
OF_UPROBES = "uprobe", "uretprobe"
TAIL_CALL = 12                # the kernel's function


class Object:
    """The functions of an ELF file: where each is, and what it calls."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, number, names = struct.unpack_from("<HHH", self.data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + size * i) for i in range(number)]
        table = next(section for section in self.sections if section[1] == SYMTAB)
        self.section_names = [self.text(self.sections[names][4] + section[0]) for section in self.sections]
        self.names = self.sections[table[6]][4]
        self.symbols = list(struct.iter_unpack("<IBBHQQ", self.data[table[4]:table[4] + table[5]]))
        self.functions = {(symbol[3], symbol[4]): (self.name(symbol[0]), symbol[5]) for symbol in self.symbols
                          if symbol[1] & 15 == FUNCTION}
        self.targets = {}  # (section, offset of an instruction): (section, offset) that it names
        for section in self.sections:
            if section[1] == REL and self.sections[section[7]][2] & EXECUTABLE:
                self.read_relocations(section)

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def name(self, at):
        return self.text(self.names + at)

    def read_relocations(self, section):
        for at, info in struct.iter_unpack("<QQ", self.data[section[4]:section[4] + section[5]]):
            symbol = self.symbols[info >> 32]
            if symbol[1] & 15 in (SECTION, FUNCTION):
                self.targets[section[7], at] = symbol[3], symbol[4]

    def instructions(self, place):
        """(offset, opcode, destination, source, memory offset, immediate) of each instruction of a function."""
        section, start = place
        first = self.sections[section][4]
        for at in range(start, start + self.functions[place][1], 8):
            code, registers, offset, immediate = struct.unpack_from("<BBhi", self.data, first + at)
            yield at, code, registers & 15, registers >> 4, offset, immediate

    def describe(self, place):
        """(bytes of stack of a function, places of the functions that it calls or gives the kernel to call)"""
        depth, calls, copied = 0, set(), None
        for at, code, to, source, offset, immediate in self.instructions(place):
            section, target = self.targets.get((place[0], at), (None, None))
            if code & 7 in LOADS and source == FRAME_POINTER or code & 7 in STORES and to == FRAME_POINTER:
                depth = max(depth, -offset)
            if code == ADD and to == copied:
                depth = max(depth, -immediate)
            copied = to if code == MOVE and source == FRAME_POINTER else None
            if code == CALL and source == 1:  # of one of our own functions
                calls.add((section, target + 8 * (immediate + 1)) if section is not None
                          else (place[0], at + 8 * (immediate + 1)))
            elif code == LOAD_ADDRESS and (section, (target or 0) + immediate) in self.functions:
                calls.add((section, target + immediate))
        return depth, calls

    def is_on_stack_of_cpu(self, place):
        """Whether threads that preempt each other may share its stack."""
        return self.section_names[place[0]] in OF_UPROBES and \
            not any((code, source, immediate) == (CALL, 0, TAIL_CALL) for _, code, _, source, _, immediate in self.instructions(place))


def chain_bytes(chain):
    return sum(own for own, _ in chain)


def deepest(described, place):
    """The chain from a function that takes most: [(bytes, place), …]. There is no recursion in BPF."""
    depth, calls = described[place]
    below = max((deepest(described, call) for call in calls), key=chain_bytes, default=[])
    return [(max(1, -(-depth // ROUNDED_TO)) * ROUNDED_TO, place), *below]


def main():
    program = Object(sys.argv[1])
    described = {place: program.describe(place) for place in program.functions}
    chains = sorted((deepest(described, place) for place in described), key=chain_bytes, reverse=True)
    print(f"deepest chains of BPF functions (limit {STACK_BYTES} bytes, {CHAIN_FUNCTIONS} functions)")
    failed = 0
    for at, chain in enumerate(chains):
        is_above = chain_bytes(chain) > STACK_BYTES or len(chain) > CHAIN_FUNCTIONS
        failed |= is_above
        if at < 3 or is_above:
            print(f"{chain_bytes(chain):7d}", *(f"{program.functions[place][0]}:{own}" for own, place in chain))
    for place in filter(program.is_on_stack_of_cpu, program.functions):
        print(f"{program.functions[place][0]} has no tail call: threads would share its stack")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
