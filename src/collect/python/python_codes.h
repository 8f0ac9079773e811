/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PYTHON_CODES_H
#define ALLOCSNAP_COLLECT_PYTHON_CODES_H

/*
 * The code objects of a process, as the kernel side reported them at first sight: id → file, name, lines. Everything
 * in them is untrusted: lengths are bounded, texts become UTF-8, and line tables are decoded by the sandbox.
 *
 * A program may make code objects forever. Those with the same content are stored once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/idmap.h"
#include "shared/python_calls.h"

struct allocsnap_bpf;
struct objects;
struct sandbox;
struct probes;
struct python_info;
struct reason;

#define PYTHON_CODES_MOST (1u << 20)	      /* ids of one process */
#define PYTHON_CODES_BYTES_MOST (256ULL << 20) /* of their contents */
#define PYTHON_TEXT_MOST 4096		      /* bytes of a name; the rest is cut off */
#define PYTHON_LINES_MOST (1u << 20)	      /* bytes of a line table; a longer one is not used */

/* An instruction for which a traceback has asked. */
struct python_place {
	int64_t instruction;
	int32_t line; /* 0: none, or not looked up yet */
	bool is_known;
};

struct python_code {
	uint64_t hash;
	char *filename, *name;
	int32_t first_line;
	uint8_t *lines;
	uint32_t line_bytes;
	struct python_place *place;
	size_t place_nr, place_alloc;
};

struct python_code_id {
	uint32_t id, code; /* code: index of its content */
};

/* Zeroed: none. */
struct python_codes {
	struct python_code *code;
	size_t code_nr, code_alloc;
	struct idmap contents;
	struct python_code_id *id;
	size_t id_nr, id_alloc;
	struct idmap ids;
	uint64_t bytes;
};

/* Reads memory of the process the record is from. 0 or a negative errno. */
typedef int (*python_read_fn)(void *what, uint64_t address, void *to, size_t bytes);

/*
 * Adds a code object. What the record lacks is read by `read`; the caller must check afterwards that it was still the
 * same code object: is_same(what). 0; -EINVAL, -EFAULT, -ESTALE, -E2BIG: its frames will have no name; -ENOMEM.
 */
int python_codes_add(struct python_codes *codes, const struct python_code_record *record, size_t bytes,
		     python_read_fn read, bool (*is_same)(void *what), void *what);

/* Notes that the line of an instruction is wanted. 0 or -ENOMEM. An id that is not known is left out. */
int python_codes_want(struct python_codes *codes, uint32_t id, int64_t instruction);

/* Asks the sandbox for the lines that are wanted. kind: enum python_lines. 0 or -ENOMEM. */
int python_codes_look_up(struct python_codes *codes, struct sandbox *sandbox, unsigned int kind);

/* NULL: not known. *ret_line is 0 if it was not looked up. */
const struct python_code *python_codes_find(const struct python_codes *codes, uint32_t id, int64_t instruction,
					    int32_t *ret_line);

void python_codes_release(struct python_codes *codes);

/*
 * The probes in a CPython: hundreds of places, on two or three links. They count as sites: one that frees, one that
 * allocates, and one where objects begin; the cookie of each place names the row of python_calls[] for its calls.
 */

/*
 * Probes all places, frees first; if they are probed already, nothing changes. 0, or a negative errno with a line in
 * *why: then none is probed.
 */
int python_places_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, const struct python_info *info, struct reason *why);

/* Fills in the kernel side's knowledge of a process. bias: the process's addresses minus the file's. */
void python_process_make(const struct python_info *info, uint64_t bias, struct python_process *ret);

#endif
