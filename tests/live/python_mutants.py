# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mistakes in how CPython is recorded: two tests must notice each (tests/mutants)."""

# name: (file, old text, new text)
MUTANTS = {
    "an offset is shifted": (
        "src/elf/python/python_offsets.c", ".code_mask = -1ull, .tstate_frame = 56, .cframe_frame = 8,",
        ".code_mask = -1ull, .tstate_frame = 64, .cframe_frame = 8,"),
    "an offset of lines is shifted": (
        "src/elf/python/python_offsets.c", ".code_instructions = 184", ".code_instructions = 186"),
    "the flag is not asked": (
        "bpf/python/python_calls.bpf.h", "(!python_calls[row].asks_zf || ZERO_FLAG(ctx))", "true"),
    "a place in eight is left out": (
        "src/collect/python/python_codes.c", "if (shape_of_operation(info->site[i].operation) == shape)",
        "if (shape_of_operation(info->site[i].operation) == shape && (info->site[i].is_entry || i % 8))"),
    "size and pointer are swapped": (  # a calloc's count and size may be, without harm
        "bpf/python/python_calls.bpf.h",
        "argument_value(ctx, &call->size, &ret->size) || argument_value(ctx, &call->pointer, &ret->pointer)",
        "argument_value(ctx, &call->pointer, &ret->size) || argument_value(ctx, &call->size, &ret->pointer)"),
    "code that was freed keeps its number": (
        "bpf/python/frames.bpf.h", "\terr = bpf_map_delete_elem(&python_codes, &key);", "\terr = -1;"),
    "debug hooks ask for no more": (
        "bpf/python/python_calls.bpf.h", "__u64 bytes = size + python->hook_bytes, address;", "__u64 bytes = size, address;"),
}
