/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_H
#define ALLOCSNAP_PARSER_H

/*
 * Names, unwind tables and places for probes from ELF and DWARF, read by a process that has nothing to lose: a user of
 * its own, one socket, no system call that opens, connects or starts anything (confine.h). It gets
 * descriptors of the files and gives back text and numbers, which are checked here.
 *
 * Where it crashes, or reads an object for longer or with more memory than any honest one takes, that
 * object is given up with a reason, and another process goes on with the others. If it is killed
 * while it has nothing to do, that costs nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/spawner.h"
#include "symbols/source.h"

struct file_copy;
struct functions_wanted;
struct object_facts;
struct object_returns;
struct object_traits;
struct unwind_table;

/* Zero is the default. */
struct parser_options {
	const char *debug_root; /* where separate debug files are; /usr/lib/debug */
	const int *debug_dir_fd; /* more such directories, looked in before; open until parser__close() */
	size_t debug_dir_nr;
	uint64_t memory_bytes;	/* of the process; 4 GiB */
	uint64_t cpu_ns;	/* for one object, all questions together; 30 s */
	read_fn read;		/* what the process does instead of its work: for tests */
};

struct parser;

/*
 * Forks: so before there are threads, and before there is anything in memory that others should not
 * see. NULL and errno, with a line in *why.
 */
struct parser *parser__open(const struct parser_options *options, struct reason *why);
void parser__close(struct parser *parser); /* NULL is allowed */

/*
 * Readable when the process that starts readers has ended, because another process has killed it. From
 * the next reader on there is none: each question fails.
 */
int parser__end_fd(const struct parser *parser);
bool parser__has_ended(const struct parser *parser);

/* For symbols__new_from(); valid until parser__close(). */
const struct symbol_source *parser__source(struct parser *parser);

/*
 * The rest is asked for each time anew. What the reader says of a file is -ENOEXEC, -ENOTSUP, -E2BIG,
 * -ENODATA, -ENOENT or -EISDIR, with a line in *why; -EIO: reading was given up, or the file cannot
 * be read. What is returned is sound: it need not be true.
 *
 * As unwind_table__from_file(), and for the vDSO as unwind_table__from_memory().
 */
int parser__unwind_table(struct parser *parser, int fd, struct unwind_table **ret,
			 struct reason *why);
int parser__image_table(struct parser *parser, const void *image, size_t bytes,
			struct unwind_table **ret, struct reason *why);

/* The caller frees *ret with object_facts_release(), object_returns_release(). wanted may be NULL. */
int parser__facts(struct parser *parser, int fd, const struct functions_wanted *wanted,
		  struct object_facts *ret, struct reason *why);
int parser__returns(struct parser *parser, int fd, uint64_t vaddr, struct object_returns *ret,
		    struct reason *why);

/*
 * Facts that hold for every file with the same bytes: of a file that defines functions they are those of
 * *ret_copy, which the caller frees. NULL where it defines none, is too large, or cannot be copied.
 */
int parser__facts_and_copy(struct parser *parser, int fd, const struct functions_wanted *wanted,
			   struct object_facts *ret, struct file_copy **ret_copy,
			   struct reason *why);

/* What the object does that only who switches stacks does; -ENOENT: nothing. */
int parser__stack_switch(struct parser *parser, int fd, const char **ret_what);

/* object_traits.h: for words only, nothing is done because of it. */
int parser__traits(struct parser *parser, int fd, struct object_traits *ret, struct reason *why);

#endif
