/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_H
#define ALLOCSNAP_SYMBOLS_H

/*
 * Return address in an object → function, file, line and the chain of inlined calls. ELF and
 * DWARF are read by elfutils' libdw; separate debug files are found by build-id (and
 * .gnu_debuglink) below /usr/lib/debug. Nothing is fetched from the network.
 */

#include <stddef.h>
#include <stdint.h>

struct symbols; /* the objects opened so far, each read once */

struct symbols *symbols__new(void); /* NULL and errno ENOMEM on failure */
void symbols__free(struct symbols *symbols);

/*
 * Makes an object known. fd is open for reading on exactly the file that the process maps and
 * stays the caller's; path is its name in the process, build_id its id in hex ("" if none):
 * objects with the same path and build-id are opened once. A file that cannot be parsed is an
 * object without names, not an error. 0 and an index from 0 in *ret_object, or -ENOMEM.
 */
int symbols__object(struct symbols *symbols, const char *path, const char *build_id, int fd,
		    uint32_t *ret_object);

/* One frame; strings live as long as `symbols`. NULL and 0 where not known. */
struct symbol {
	const char *function; /* demangled */
	const char *filename; /* absolute where the debug information allows; with lineno */
	uint32_t lineno;      /* 0: no line information, and filename is NULL */
};

#define SYMBOL_INLINE_MAX 32 /* frames for one address; deeper inlining is cut at the oldest */

/*
 * The frames at the call before the return address with this file offset, innermost inlined
 * function first, at least one. Results are cached by (object, offset). The number of frames,
 * or -ENOMEM.
 */
int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX]);

/* Objects whose file was cut short while it was being read: they have no more names. */
uint64_t symbols__cut_short_nr(const struct symbols *symbols);

/* A C++, Rust or D name in readable form, or the name itself; the caller frees it. */
char *symbol_demangle(const char *name);

#endif
