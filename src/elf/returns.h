/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_RETURNS_H
#define ALLOCSNAP_ELF_RETURNS_H

/*
 * The places through which calls of a function return: its `ret` instructions. A probe on each of
 * them sees what a return probe sees, without touching the return address.
 *
 * Followed from the entry: branches, jumps out of the function (a cold part, a tail call) wherever
 * they lead, switch tables, the PLT. Calls come back, but for one that ends its function: it does
 * not return. A place too many does no harm: which call returns is told by the stack pointer. One
 * too few would be a call that never ends, so what cannot be followed is refused: a jump to an
 * address from a register or from memory, unless it is known what the loader writes there.
 *
 * A jump to memset, memcpy or memmove is such a place, too (glibc's calloc ends with one): those
 * return their first argument, and a probe in them would be hit by everybody.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;

/* The code that the function is part of. */
struct code_source {
	void *object;
	uint16_t elf_machine; /* e_machine */

	/* Reads up to len bytes at an address; how many there are, 0 where there are none. */
	size_t (*read)(void *object, uint64_t vaddr, void *buf, size_t len);
	/* The function or part of one that an address belongs to; false: not known. */
	bool (*extent)(void *object, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end);
	/* Where a jump to what the loader writes to an address leads. */
	enum exit_kind (*slot)(void *object, uint64_t vaddr, uint64_t *ret_vaddr);
	/* Whether the function at an address is one that returns its first argument. */
	bool (*returns_argument)(void *object, uint64_t vaddr);
};

enum exit_kind {
	EXIT_UNKNOWN,
	EXIT_FOLLOW,	      /* to *ret_vaddr, in the same object */
	EXIT_PROBED,	      /* to a function that is probed itself, wherever it is */
	EXIT_RETURNS_ARGUMENT,
};

struct return_place {
	uint64_t vaddr;
	bool is_in_argument; /* the result: in the first argument's register, at a jump */
};

/* Zeroed: none. */
struct returns {
	struct return_place *place; /* sorted, each once */
	size_t place_nr, place_alloc;
	/* Some calls go on in a probed function and return there: it needs its own places found. */
	bool leads_to_probed;
};

/*
 * 0; there may be none, where all returns are those of other functions that are probed. -ENOMEM, or
 * -ENOTSUP with a line that says what stands in the way.
 */
int returns_find(const struct code_source *source, uint64_t entry, struct returns *ret,
		 struct reason *why);

void returns_release(struct returns *returns);

struct elf_object;

#define RETURNING_MAX 16

/* An ELF file's code; probed are those of allocator_functions[] that give out blocks. */
struct elf_code {
	struct elf_object *elf;
	uint64_t returning[RETURNING_MAX]; /* functions that return their first argument */
	size_t returning_nr;
};

/* 0, -ENOMEM, -ENOEXEC as from elf_object__find_functions(). *code must stay where it is. */
int elf_code_open(struct elf_code *code, struct elf_object *elf, struct code_source *ret);

#endif
