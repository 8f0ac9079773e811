/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_PROBE_INFO_STORE_H
#define ALLOCSNAP_PROCESS_PROBE_INFO_STORE_H

/*
 * The facts of files, read once for all files with the same bytes: for the C library of two hundred containers,
 * one is read and 199 are compared with it.
 *
 * The comparison covers all bytes, and uses a copy of the bytes that the sandbox had. Facts of another file would
 * put breakpoints into the middle of instructions. Nothing less identifies a file: anyone can write another
 * file's build-id into a file; a file with the C library's code may have symbols that take over the sandbox, which
 * then returns what they want; and the owner of a file can replace its bytes after it was read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "elf/probe_info.h"

struct file_copy;
struct go_program;
struct sandbox;
struct python_asked;
struct python_info;

struct stored_info {
	struct probe_info probe_info;
	const struct functions_wanted *wanted; /* also looked for; NULL: none */
	struct file_copy *copy; /* NULL: the facts belong to one file only */
	struct python_info *python; /* its CPython, once it was asked for; NULL: the file has none */
	bool is_python_asked;
	struct go_program *go; /* the same for Go */
	bool is_go_asked;
	unsigned int user_nr;
};

/* Zeroed: none. */
struct probe_info_store {
	struct stored_info **kept; /* facts with a copy, as far as there is room; the least recently used first */
	size_t kept_nr, kept_alloc;
	uint64_t bytes; /* total size of the copies */
};

struct file_to_read {
	struct sandbox *sandbox;
	int fd;
	const struct functions_wanted *wanted; /* NULL: none; compared as a pointer */
};

/* The caller returns *ret with stored_info_put(). 0, or an error as of sandbox__probe_info(). */
int probe_info_store_get(struct probe_info_store *store, const struct file_to_read *file,
		    struct stored_info **ret, struct reason *why);
void stored_info_put(struct stored_info *probe_info); /* NULL is allowed */

/*
 * The CPython in a file with these probe_info, read once. asked: always the same. It belongs to the facts. 0;
 * -ENOENT: the file has no CPython; or -ENOMEM.
 */
int stored_info_python(struct stored_info *probe_info, struct sandbox *sandbox, int fd, const struct python_asked *asked,
		      const struct python_info **ret);

/* The same for a Go program. */
int stored_info_go(struct stored_info *probe_info, struct sandbox *sandbox, int fd, const struct go_program **ret);

/* May be called before or after the facts that it gave out are returned. */
void probe_info_store_release(struct probe_info_store *store);

#endif
