/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_PRIVATE_H
#define ALLOCSNAP_ELF_PYTHON_PRIVATE_H

/* Shared by the files that fill a struct python_info. */

#include "elf/python/python_code.h"
#include "elf/python/python_info.h"

/* The struct argument_source of an argument that a call does not have. */
#define NO_ARGUMENT { .kind = ARGUMENT_CONSTANT, .bytes = 8, .scale = 1, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER }

/* Exported symbols, of functions and data. */
enum python_symbol {
	SYMBOL_RUNTIME, /* _PyRuntime */
	SYMBOL_VERSION,
	SYMBOL_GET_VERSION,
	SYMBOL_RAW_MALLOC,
	SYMBOL_MEM_MALLOC,
	SYMBOL_OBJECT_MALLOC,
	SYMBOL_TRACK,
	SYMBOL_UNTRACK,
	SYMBOL_TYPE_TYPE,
	SYMBOL_NEW_REFERENCE, /* _Py_NewReference() */
	SYMBOL_CODE_TYPE,     /* PyCode_Type */
	SYMBOL_GET_TRACER, /* PyRefTracer_GetTracer(), from 3.13 on */
	SYMBOL_DEBUG_BUILD, /* only --with-pydebug exports it */
	SYMBOL_NR,
};

struct python_search {
	struct elf_object *elf;
	struct python_code code;
	uint64_t symbol[SYMBOL_NR]; /* vaddr; 0: the file does not have the symbol */
	uint64_t symbol_bytes[SYMBOL_NR];
	struct python_info *info;
	const struct python_asked *asked; /* NULL: nothing special */
	size_t site_alloc;
};

/* Sets the fault, and returns false. The first one stays. */
__attribute__((format(printf, 2, 3)))
bool python_info__refuse(struct python_info *info, const char *fmt, ...);

/* Looks up the symbols. 0; -ENOENT: no CPython; errors of elf_object__find_functions(). */
int python_find_symbols(struct python_search *search);

/* Fills the version and offsets (python_offsets.c), tables (python_table.c); false: a fault is set. */
bool python_find_version(struct python_search *search);
bool python_check_offsets(struct python_search *search);
bool python_find_tables(struct python_search *search);

/* pymalloc's variables (python_table.c). They stay unknown if the code is not as it should be. */
void python_find_pools(struct python_search *search);

/* Whether calls of a domain are to be seen: not those for blocks in pools, if the pools are seen. */
bool python_wants_call(const struct python_search *search, enum python_domain domain);

/* Adds a place, unless it is for blocks in pools. */
int python_add_site(struct python_search *search, const struct python_site *site);

/* The copied bodies: info->inlined_nr, unknown_nr (python_inlined.c). */
int python_find_inlined(struct python_search *search);

/* The places where objects begin: info->creation_nr, creation_unknown_nr (python_creations.c). */
int python_find_creations(struct python_search *search);

/* Where pools are opened and closed (python_growth.c). Sets a fault if that is not found. */
int python_find_growth(struct python_search *search);

/* The function that ends code objects; 0: a fault is set. */
uint64_t python_code_end(const struct python_search *search);

/* Whether an operand of the instruction decoded last is a variable at a fixed address. */
bool python_is_variable(const struct python_code *code, const cs_x86_op *op, unsigned int bytes, uint64_t *ret);

#endif
