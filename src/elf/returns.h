/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_RETURNS_H
#define ALLOCSNAP_ELF_RETURNS_H

/*
 * The places through which calls of a function return: its `ret` instructions. A probe on each of
 * them sees the same as a return probe, without touching the return address.
 *
 * The search starts at the entry and follows branches, jumps out of the function (a cold part, a
 * tail call), switch tables and the PLT. It assumes that calls return, except a call at the very
 * end of a function. One place too many does no harm: the stack pointer shows which call returns.
 * One place too few would make a call that never ends. So the search refuses a function with a jump
 * that it cannot follow: to an address from a register or from memory, unless it knows what the
 * loader writes there.
 *
 * A jump to memset, memcpy or memmove is such a place, too (glibc's calloc ends with one). These
 * functions return their first argument, and every process would hit a probe inside them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;

/* Access to the code of the object that contains the function. */
struct code_source {
	void *object;
	uint16_t elf_machine; /* e_machine */

	/* Reads up to len bytes at an address. Returns how many there are; 0: none. */
	size_t (*read)(void *object, uint64_t vaddr, void *buf, size_t len);
	/* The bounds of the function, or part of one, that contains an address; false: not known. */
	bool (*extent)(void *object, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end);
	/* The target of a jump through the slot at an address, which the loader fills. */
	enum exit_kind (*slot)(void *object, uint64_t vaddr, uint64_t *ret_vaddr);
	/* Whether the function at an address returns its first argument. */
	bool (*returns_argument)(void *object, uint64_t vaddr);
};

enum exit_kind {
	EXIT_UNKNOWN,
	EXIT_FOLLOW,	      /* the jump leads to *ret_vaddr, in the same object */
	EXIT_PROBED,	      /* the jump leads to a function that has its own probe, in any object */
	EXIT_RETURNS_ARGUMENT,
};

struct return_place {
	uint64_t vaddr;
	bool is_in_argument; /* the result is in the first argument's register, at a jump */
};

/* Zeroed: no places. */
struct returns {
	struct return_place *place; /* sorted, each once */
	size_t place_nr, place_alloc;
	/*
	 * Some calls continue in a probed function and return there, so the places of that function
	 * are needed, too.
	 */
	bool leads_to_probed;
};

/*
 * 0: *ret may be empty, if all calls return in other functions that are probed. -ENOMEM, or
 * -ENOTSUP with the obstacle in *why.
 */
int returns_find(const struct code_source *source, uint64_t entry, struct returns *ret,
		 struct reason *why);

void returns_release(struct returns *returns);

struct elf_object;

#define RETURNING_MAX 16

/* An ELF file's code. The probed functions are the rows of allocator_functions[] that return blocks. */
struct elf_code {
	struct elf_object *elf;
	uint64_t returning[RETURNING_MAX]; /* functions that return their first argument */
	size_t returning_nr;
};

/* 0, -ENOMEM, -ENOEXEC as from elf_object__find_functions(). *code must not move. */
int elf_code_open(struct elf_code *code, struct elf_object *elf, struct code_source *ret);

#endif
