/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_CODE_H
#define ALLOCSNAP_ELF_PYTHON_CODE_H

/* The executable segment of a file: its bytes, and one instruction at a time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_object.h"
#include "elf/x86_instructions.h"

#define PYTHON_CODE_MAX (64u << 20) /* bytes */

struct python_code {
	struct elf_object *elf;
	uint64_t start;
	size_t size;
	uint8_t *byte;
	bool is_fixed; /* the file's addresses are the process's: no load bias */
	csh capstone;
	cs_insn *insn; /* the one decoded last */
};

/* 0; -ENOEXEC no such segment, -E2BIG, -ENOMEM, -ENOTSUP: another machine. After an error nothing is to be closed. */
int python_code__open(struct python_code *code, struct elf_object *elf, struct reason *why);
void python_code__close(struct python_code *code);

bool python_code__has(const struct python_code *code, uint64_t vaddr);

/* Decodes the instruction at an address. */
bool python_code__decode(struct python_code *code, uint64_t vaddr);

bool python_code__is_jump(const struct python_code *code, uint64_t *ret_target); /* jmp to a fixed place */
bool python_code__is_call(const struct python_code *code, uint64_t *ret_target); /* call of a fixed place */
bool python_code__leaves(const struct python_code *code); /* any jmp, call, ret or trap */

/* The bounds of the function, or part of one, that contains an address. */
bool python_code__extent(const struct python_code *code, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end);

/* The targets of a file's branches. Zeroed: none. */
struct python_branches {
	uint8_t *target; /* a bit for each byte of the code */
	uint64_t start;
	size_t size;
};

/* Notes the target of the instruction decoded last, if it is a branch of two bytes. 0 or -ENOMEM. */
int python_branches__note_short(struct python_branches *branches, const struct python_code *code);

/*
 * Notes the targets of everything in the code that looks like a branch with a distance of four bytes, wherever it begins.
 * 0 or -ENOMEM.
 */
int python_branches__note_long(struct python_branches *branches, const struct python_code *code);

void python_branches__release(struct python_branches *branches);

/* Whether a branch that was noted leads to one of the addresses from first to last. */
bool python_branches__lead_to(const struct python_branches *branches, uint64_t first, uint64_t last);

#endif
