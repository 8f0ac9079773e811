# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lines of each instruction of the standard library, as the CPython that runs this knows them. tests/unit/elf/python_info.c reads it.

	python_lines_truth.py N     each Nth module of it"""
import dis
import os
import sys
import types

# lnotab until 3.9: instructions are counted in bytes; later in units of two
KIND = 0 if sys.version_info < (3, 10) else 1 if sys.version_info < (3, 11) else 2
UNIT = 1 if KIND == 0 else 2


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def ranges(code):
    """(first instruction, behind the last one, line)"""
    if KIND == 0:
        starts = list(dis.findlinestarts(code))
        ends = [start for start, _ in starts[1:]] + [len(code.co_code)]
        return [(start, end, line) for (start, line), end in zip(starts, ends)]
    return list(code.co_lines())


def sources():
    folder = os.path.dirname(os.__file__)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    # sitecustomize.py may be a link to a file that is not there
    return [path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)]


def main():
    for path in sources()[::int(sys.argv[1])]:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        for one in codes_of(code):
            table = one.co_lnotab if KIND == 0 else one.co_linetable
            print("code", KIND, one.co_firstlineno, table.hex())
            for start, end, line in ranges(one):
                print(start // UNIT, end // UNIT, -1 if line is None else line)


main()
