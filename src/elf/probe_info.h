/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PROBE_INFO_H
#define ALLOCSNAP_ELF_PROBE_INFO_H

/*
 * Everything that recording needs to know about an ELF file, except its names and its unwind table.
 * A process without privileges finds it out. It is plain numbers, so that they can be sent to a
 * process with privileges.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "elf/elf_object.h"
#include "elf/placement.h"
#include "elf/sampler_places.h"

#define OBJECT_BUILD_ID_BYTES 64
#define OBJECT_FUNCTIONS_MAX 256 /* each costs a question; honest files have some hundred */
#define FUNCTION_NAME_MAX 256	 /* bytes, with the NUL */
#define FUNCTIONS_WANTED_MAX 128
#define HEAP_PREFIXES_MAX 4	 /* renamed heaps of a file */
#define INTERPRETER_MAX 256	 /* bytes, with the NUL */
#define OBJECT_RETURNS_MAX 4096 /* of one function; honest functions have a few */

/* Functions to find besides the rows of allocator_functions[], static ones, too; or USDT probes. Each row once. */
struct function_wanted {
	char name[FUNCTION_NAME_MAX];
	uint32_t argument_nr; /* the probe reads arguments up to this position */
	uint32_t is_usdt;     /* the name is PROVIDER:NAME */
	uint32_t position[USDT_ARGUMENTS]; /* of a USDT probe, as in struct usdt_wanted */
	uint64_t constant[USDT_ARGUMENTS];
};

struct functions_wanted {
	uint32_t nr;
	struct function_wanted function[FUNCTIONS_WANTED_MAX];
};

/* An allocator function that the file defines (allocators.h decides about local ones), or a wanted one. */
struct object_function {
	uint64_t vaddr;
	uint64_t offset;    /* in the file */
	uint32_t name;	    /* index into allocator_functions[], followed by those wanted */
	uint8_t is_ifunc;   /* the code is a resolver that returns the function's address: do not probe it */
	uint8_t renamed; /* 1 + index: its name has heap_prefix[index] in place of the table's prefix; 0: not */
	uint16_t is_ambiguous; /* several static functions have this name: this is the first, without a placement */
	struct placement placement;
};

struct probe_info {
	char build_id[2 * OBJECT_BUILD_ID_BYTES + 1]; /* lower-case hex, "" if the file has none */
	char interpreter[INTERPRETER_MAX]; /* the loader that it names, "" if it names none */
	char heap_prefix[HEAP_PREFIXES_MAX][ELF_PREFIX_MAX]; /* of renamed functions (known_functions.h); "" from the first unused */
	uint64_t entry;	       /* the vaddr where it begins to run; 0: none */
	int32_t functions_err; /* -ENOEXEC, -E2BIG: its symbol tables are malformed, or too large */
	uint32_t nameless_heap; /* domain of an allocator whose texts it has, without any of its functions; 0: none */
	uint32_t copies_text;  /* row of text_copies[] + 1 that says that code is copied at run time; 0: no such sign */
	uint32_t function_nr;  /* sorted by name, then address */
	uint64_t heaps;	       /* of RUNTIME_HEAP_BITS (runtime_detect.h) */
	uint32_t has_more_heaps; /* known_functions.h */
	uint32_t calls_exec;   /* a program that names a function by which it becomes another one */
	uint32_t is_loader;    /* a dynamic linker, which can be started as a program, too */
	uint32_t has_sampler;  /* it has probes of a sampler, perhaps unusable ones */
	struct object_function *function;
	uint32_t has_usdt;     /* it has wanted USDT probes, perhaps unusable ones */
	struct usdt_places *sampler; /* NULL unless has_sampler */
	struct usdt_places *usdt; /* NULL unless has_usdt; place.wanted is a row of functions_wanted */
};

/*
 * 0; -ENOEXEC the file is no ELF program or library (or a broken one), -ENOTSUP 32-bit, or for
 * another machine; -ENOMEM, or the error of dup or fstat. wanted may be NULL.
 */
int probe_info_read(int fd, const struct functions_wanted *wanted, struct probe_info *ret,
		      struct reason *why);
void probe_info_release(struct probe_info *probe_info);

/* Whether probes may be placed in the file. */
bool probe_info_has_places(const struct probe_info *probe_info);

/* Checks facts that another process sent: texts end, and numbers are valid for a file of this size. */
bool probe_info_are_sound(const struct probe_info *probe_info,
			    const struct functions_wanted *wanted, uint64_t file_bytes);

/* The places where calls of a function return (returns.h). */
struct object_return {
	uint64_t offset;	 /* in the file */
	uint64_t is_in_argument; /* the result is in the first argument's register, at a jump */
};

struct object_returns {
	struct object_return *place;
	uint32_t place_nr;
	uint32_t leads_to_probed; /* some calls continue in a probed function and return there */
};

/*
 * Errors as from returns_find() and probe_info_read(). -ENOTSUP, too, if a place is not in the
 * file.
 */
int object_returns_read(int fd, uint64_t vaddr, struct object_returns *ret, struct reason *why);
void object_returns_release(struct object_returns *returns);

bool object_returns_are_sound(const struct object_returns *returns, uint64_t file_bytes);

#endif
