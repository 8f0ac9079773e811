/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_OBJECT_FACTS_H
#define ALLOCSNAP_ELF_OBJECT_FACTS_H

/*
 * All that recording wants to know of an ELF file but its names and its unwind table: found by who
 * has no privileges, and plain numbers, so that it can be sent to who has some.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "elf/placement.h"

#define OBJECT_BUILD_ID_BYTES 64
#define OBJECT_FUNCTIONS_MAX 256 /* each is asked about apart; honest files have some hundred */
#define FUNCTION_NAME_MAX 256	 /* bytes, with the NUL */
#define FUNCTIONS_WANTED_MAX 128
#define INTERPRETER_MAX 256	 /* bytes, with the NUL */
#define OBJECT_RETURNS_MAX 4096 /* of one function; honest ones have a few */

/* Functions to look for besides those of allocator_functions[], each once; static ones, too. */
struct function_wanted {
	char name[FUNCTION_NAME_MAX];
	uint32_t argument_nr; /* the probe reads arguments up to this one */
};

struct functions_wanted {
	uint32_t nr;
	struct function_wanted function[FUNCTIONS_WANTED_MAX];
};

/* An allocator function that the file defines (heap.h says which local ones are), or one wanted. */
struct object_function {
	uint64_t vaddr;
	uint64_t offset;    /* in the file */
	uint32_t name;	    /* index into allocator_functions[], and then into those wanted */
	uint16_t is_ifunc;  /* the code is a resolver that returns the function: nothing to probe */
	uint16_t is_ambiguous; /* several static ones have this name: the first, without a placement */
	struct placement placement;
};

struct object_facts {
	char build_id[2 * OBJECT_BUILD_ID_BYTES + 1]; /* lower-case hex, "" if there is none */
	char interpreter[INTERPRETER_MAX]; /* the loader that it names, "" if there is none */
	uint64_t entry;	       /* the vaddr where it begins to run; 0: none */
	int32_t functions_err; /* -ENOEXEC, -E2BIG: its symbols make no sense, or too much */
	uint32_t copies_text;  /* 0: by no sign; else the row of text_copies[] + 1: code is copied while it runs */
	uint32_t function_nr;  /* sorted by name, then address */
	struct object_function *function;
};

/*
 * 0; -ENOEXEC not an ELF program or library (or a broken one), -ENOTSUP 32-bit, or for another
 * machine; what dup or fstat gave, or -ENOMEM. wanted may be NULL.
 */
int object_facts_read(int fd, const struct functions_wanted *wanted, struct object_facts *ret,
		      struct reason *why);
void object_facts_release(struct object_facts *facts);

/* For what came from another process: text is text, and the numbers lie in a file of this size. */
bool object_facts_are_sound(const struct object_facts *facts,
			    const struct functions_wanted *wanted, uint64_t file_bytes);

/* Where calls of a function return (returns.h). */
struct object_return {
	uint64_t offset;	 /* in the file */
	uint64_t is_in_argument; /* the result: in the first argument's register, at a jump */
};

struct object_returns {
	struct object_return *place;
	uint32_t place_nr;
	uint32_t leads_to_probed; /* some calls go on in a probed function and return there */
};

/* As returns_find(), and object_facts_read(). Places are ENOTSUP where they are not in the file. */
int object_returns_read(int fd, uint64_t vaddr, struct object_returns *ret, struct reason *why);
void object_returns_release(struct object_returns *returns);

bool object_returns_are_sound(const struct object_returns *returns, uint64_t file_bytes);

#endif
