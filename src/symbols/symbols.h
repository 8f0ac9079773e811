/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_H
#define ALLOCSNAP_SYMBOLS_H

/*
 * Return address in an object → function, file, line and the chain of inlined calls. ELF and
 * DWARF are read by elfutils' libdw; separate debug files are found by build-id (and
 * .gnu_debuglink) below /usr/lib/debug. Nothing is fetched from the network.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols; /* the objects opened so far, each read once */
struct symbol_source;

/*
 * NULL and errno ENOMEM on failure. The first reads the files in this process, which is to have no
 * privileges; the second leaves that to another one, which must outlive it (source.h).
 */
struct symbols *symbols__new(void);
struct symbols *symbols__new_from(const struct symbol_source *source);
void symbols__free(struct symbols *symbols);

/*
 * Makes an object known. fd is open for reading on exactly the file that the process maps and
 * stays the caller's, and open as long as names are asked for; path is its name in the process, key
 * tells files of one path apart, for example by build-id: objects with the same path and key are opened once. A
 * file that cannot be parsed is an object without names, not an error. 0 and an index from 0 in *ret_object, or -ENOMEM.
 */
int symbols__object(struct symbols *symbols, const char *path, const char *key, int fd,
		    uint32_t *ret_object);

/* As above, of one that is known already; SYMBOLS_NONE: it is not. */
#define SYMBOLS_NONE UINT32_MAX
uint32_t symbols__find(const struct symbols *symbols, const char *path, const char *key);

/*
 * Forgets all objects but those where is_needed[index] is set: their names, their descriptors in the reader. Their
 * indices are used again. Names that were given out go, too.
 */
void symbols__forget(struct symbols *symbols, const bool *is_needed);

/* Another descriptor of the same file, which the caller closes after this; -1: it is not asked for new names. */
void symbols__set_file(struct symbols *symbols, uint32_t object, int fd);

/* How many are known: indices are below it. */
size_t symbols__object_nr(const struct symbols *symbols);

/* One frame; strings live as long as `symbols`. NULL and 0 where not known. */
struct symbol {
	const char *function; /* demangled */
	const char *filename; /* absolute where the debug information allows; with lineno */
	uint32_t lineno;      /* 0: no line information, and filename is NULL */
	uint32_t first_line;  /* of the file, where the function is declared; 0: not known, or not there */
};

#define SYMBOL_INLINE_MAX 32 /* frames for one address; deeper inlining is cut at the oldest */

/*
 * The frames at the call before the return address with this file offset, innermost inlined
 * function first, at least one. Results are cached by (object, offset). The number of frames,
 * or -ENOMEM.
 */
int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX]);

/*
 * Asks for many return addresses at once, so that looking them up costs nothing more. Any order,
 * doubles and known ones too. 0 or -ENOMEM.
 */
int symbols__look_ahead(struct symbols *symbols, uint32_t object, const uint64_t *return_offset,
			size_t nr);

/*
 * Why an object could not be read to the end (its file was cut short, whoever read it crashed or took
 * too long): it has no more names than were looked up before. NULL where it could.
 */
const char *symbols__unreadable(const struct symbols *symbols, uint32_t object);

/* The next such object, each told once; false: there is none. */
bool symbols__next_unreadable(struct symbols *symbols, const char **ret_path, const char **ret_why);

/* A C++, Rust or D name in readable form, or the name itself; the caller frees it. */
char *symbol_demangle(const char *name);

#endif
