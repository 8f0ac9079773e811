#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""go_profile_seeds.py DIR: heap profiles of both layouts, as inputs of go_profile.c."""
import os
import struct
import sys

BASE, CODE = 0x100000, 0x400000


def profile(has_bytes, is_restless, loops):
    """Ten buckets one behind the other; the word at BASE + 8 leads to the last."""
    memory = bytearray(struct.pack("<QQ", 0x5500 + is_restless, 0) + bytes(112))
    previous = 0
    for i in range(10):
        at, size, frames = BASE + len(memory), 64 << i % 3, 1 + i % 4
        memory += struct.pack("<6Q", 0, previous, 1, 7, size, frames)
        memory += b"".join(struct.pack("<Q", CODE + 16 * k) for k in range(frames))
        for allocations, frees in ((i + 2, i), (1, 0), (0, 0), (3, 1)):
            memory += struct.pack("<2Q", allocations, frees)
            if has_bytes:
                memory += struct.pack("<2Q", allocations * size, frees * size)
        previous = at
    memory[8:16] = struct.pack("<Q", previous)
    if loops:
        memory[128 + 8:128 + 16] = struct.pack("<Q", previous)
    return bytes(memory)


os.makedirs(sys.argv[1], exist_ok=True)
for number in range(8):
    with open(f"{sys.argv[1]}/seed-{number}", "wb") as seed:
        seed.write(profile(number & 1, number >> 1 & 1, number >> 2 & 1))
