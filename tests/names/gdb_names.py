# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs in gdb: for each address in the file $ADDRESSES a line "FUNCTIONS TAB FILE TAB LINE", the innermost function first."""
import os

import gdb  # pylint: disable=import-error


def functions_at(address):
    """The function of each block around an address; the minimal symbol if no block has one."""
    found, block = [], gdb.block_for_pc(address)
    while block and not block.is_global and not block.is_static:
        if block.function:
            found.append(block.function.name)
        block = block.superblock
    if not found:
        text = gdb.execute(f"info symbol {address}", to_string=True)
        found = ["" if text.startswith("No symbol") else text.split(" in section ")[0].rsplit(" + ", 1)[0]]
    return found


with open(os.environ["ADDRESSES"], encoding="ascii") as addresses:
    for line in addresses:
        place = gdb.find_pc_line(int(line, 16))
        print("\x1f".join(functions_at(int(line, 16))), place.symtab.filename if place.symtab else "", place.line, sep="\t")
