/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_SYMBOLS_H
#define ALLOCSNAP_SYMBOLS_SYMBOLS_H

/*
 * Return address in an object → function, file, line and the chain of inlined calls. elfutils'
 * libdw reads ELF and DWARF, go_table.h the table of Go's runtime. Separate debug files are found by build-id (and .gnu_debuglink) below
 * /usr/lib/debug. Nothing is fetched from the network.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct symbol_source;

/* The next look-ups show this progress, as of `done` addresses that were looked up before. NULL: none. */
struct progress;

struct symbols; /* the objects opened so far, each read once */

/* NULL and errno ENOMEM on failure. The source reads the files, and must outlive the symbols. */
struct symbols *symbols__new(const struct symbol_source *source);
void symbols__free(struct symbols *symbols);

/*
 * Adds an object. fd is open for reading on exactly the file that the process maps. The caller
 * keeps fd, and must keep it open as long as it looks up names. path is the file's name in the
 * process. key distinguishes files of one path, for example by build-id: an object with the same
 * path and key is opened once. A file that cannot be parsed is an object without names, not an
 * error. 0 and an index from 0 in *ret_object, or -ENOMEM.
 */
int symbols__object(struct symbols *symbols, const char *path, const char *key, int fd,
		    uint32_t *ret_object);

/* Finds an object that was added before; SYMBOLS_NONE: it was not. */
#define SYMBOLS_NONE UINT32_MAX
uint32_t symbols__find(const struct symbols *symbols, const char *path, const char *key);

/*
 * Forgets all objects except those with is_needed[index]: their names, and their descriptors in the
 * reader. Their indices are used again. Names returned for them become invalid.
 */
void symbols__forget(struct symbols *symbols, const bool *is_needed);

/*
 * Replaces the descriptor by another one of the same file, which stays the caller's; -1: no new
 * names are looked up.
 */
void symbols__set_file(struct symbols *symbols, uint32_t object, int fd);

/* A limit of the objects' indices: all are below it. */
size_t symbols__object_nr(const struct symbols *symbols);

/* One frame; its strings are valid until other addresses of the object are looked up. NULL and 0: not known. */
struct symbol {
	const char *function; /* demangled */
	const char *filename; /* absolute if the debug information allows it; set together with lineno */
	uint32_t lineno;      /* 0: no line information, and filename is NULL */
	uint32_t first_line;  /* where the file declares the function; 0: not known, or not in this file */
};

#define SYMBOL_INLINE_MAX 32 /* frames for one address; of a longer chain the outermost are cut off */

/*
 * The frames at the call before the return address with this file offset: the innermost inlined
 * function first, at least one. Results are cached by (object, offset). Returns the number of
 * frames, or -ENOMEM.
 */
int symbols__lookup(struct symbols *symbols, uint32_t object, uint64_t return_offset,
		    struct symbol ret_frame[SYMBOL_INLINE_MAX]);

/*
 * Looks up many return addresses at once; later lookups then only use the cache. The addresses may
 * come in any order, with duplicates and known ones. 0 or -ENOMEM.
 */
int symbols__look_ahead(struct symbols *symbols, uint32_t object, const uint64_t *return_offset,
			size_t nr);
void symbols__set_progress(struct symbols *symbols, const struct progress *progress, uint64_t done);

/*
 * Why an object could not be read completely (its file was truncated, or its reader crashed or took
 * too long). It then has only the names that were looked up before. NULL: there was no error.
 */
const char *symbols__unreadable(const struct symbols *symbols, uint32_t object);

/* The next such object. Each is reported once; false: no further object. */
bool symbols__next_unreadable(struct symbols *symbols, const char **ret_path, const char **ret_why);

/* A C++, Rust or D name in readable form, or the name itself; the caller frees it. */
char *symbol_demangle(const char *name);

/*
 * A source reads the files for a struct symbols: in this process (direct.h), or in a process
 * without privileges (sandbox/client.h). Its results need not be true, only well-formed: function
 * and filename are text or NULL, filename and line number are both set or both unset, and without
 * them there is no first line.
 */

struct source_object {
	uint32_t id; /* from 0, without gaps */
	int fd;
	const char *path; /* as the process that maps it sees it */
};

/* Receives the frames of question i: 1 to SYMBOL_INLINE_MAX. A result other than 0 ends the look-up. */
typedef int (*take_frames_fn)(void *taker, size_t i, const struct symbol *frame, int frame_nr);

struct symbol_source {
	/*
	 * The frames at the calls before these return addresses, in order. 0; -EIO and a line in
	 * *why: the file cannot be read, and the remaining questions get no answer; -ENOMEM; or the
	 * result of `take`.
	 */
	int (*look_up)(void *self, const struct source_object *object,
		       const uint64_t *return_offset, size_t nr, take_frames_fn take, void *taker,
		       struct reason *why);
	/*
	 * Drops the source's state of the object with this id, including its descriptor; another
	 * object may then get the id. NULL: not needed.
	 */
	void (*forget)(void *self, uint32_t id);
	void *self;
};

#endif
