/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_CLIENT_H
#define ALLOCSNAP_SANDBOX_CLIENT_H

/*
 * Names, unwind tables and places for probes, from ELF and DWARF. A process that has nothing to
 * lose reads them: it has a user of its own, one socket, and no system call that opens, connects or
 * starts anything (seccomp.h). It gets descriptors of the files and returns text and numbers, which
 * are checked here.
 *
 * If the process crashes, or reads an object for longer or with more memory than any honest object
 * needs, the object is given up with a reason, and another process reads the other objects. If the
 * process is killed while it is idle, nothing is lost.
 */

#include <stdbool.h>
#include <stdint.h>

#include "symbols/symbols.h"

struct entry_patches;
struct file_copy;
struct functions_wanted;
struct go_program;
struct helper;
struct probe_info;
struct object_returns;
struct perf_map_names;
struct perf_map_part;
struct python_asked;
struct python_info;
struct runtime_traits;
struct unwind_table;

/* A reader's work: answers questions at this end of a socket. The reader exits when it returns. */
typedef void (*read_fn)(int fd);

/* Zero is the default. */
struct sandbox_options {
	const char *debug_root; /* the directory of separate debug files; /usr/lib/debug */
	const int *debug_dir_fd; /* further such directories, searched first; open until sandbox__close() */
	size_t debug_dir_nr;
	const struct debug_fetcher *fetcher; /* for debug files that are in no directory; NULL: none */
	uint64_t memory_bytes;	/* limit of the process; 4 GiB */
	uint64_t cpu_ns;	/* limit for all questions about one object; 30 s */
	read_fn read;		/* replaces the reader's work, for tests */
};

struct sandbox;

/*
 * Forks a process, so call this before there are threads, and before there are secrets in memory.
 * NULL and errno, with a line in *why.
 */
struct sandbox *sandbox__open(const struct sandbox_options *options, struct reason *why);
void sandbox__close(struct sandbox *sandbox); /* NULL is allowed */

/*
 * The process that starts readers. It ends early only because another process has killed it. No further reader can be
 * started then: each question that needs one fails.
 */
const struct helper *sandbox__helper(const struct sandbox *sandbox);

/*
 * Until the next call all questions together have so much processor time (UINT64_MAX: no such limit), and one ends early
 * when gives_up() returns true (NULL: none does).
 */
void sandbox__limit(struct sandbox *sandbox, uint64_t cpu_ns, bool (*gives_up)(void));

/* For symbols__new(); valid until sandbox__close(). */
const struct symbol_source *sandbox__source(struct sandbox *sandbox);

/*
 * The functions below ask a reader each time. The reader's errors are -ENOEXEC, -ENOTSUP, -E2BIG,
 * -ENODATA, -ENOENT or -EISDIR, with a line in *why; -EIO: the reader was given up, or the file
 * cannot be read. Results are well-formed, but need not be true.
 *
 * The unwind table of a file, or of the vDSO in memory; errors as from unwind_table__from_file()
 * and unwind_table__from_memory().
 */
int sandbox__unwind_table(struct sandbox *sandbox, int fd, struct unwind_table **ret,
			 struct reason *why);
int sandbox__image_table(struct sandbox *sandbox, const void *image, size_t bytes,
			struct unwind_table **ret, struct reason *why);

/* The caller frees *ret with probe_info_release(), object_returns_release(). wanted may be NULL. */
int sandbox__probe_info(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted,
		  struct probe_info *ret, struct reason *why);
int sandbox__returns(struct sandbox *sandbox, int fd, uint64_t vaddr, struct object_returns *ret,
		    struct reason *why);

/*
 * Facts that hold for every file with the same bytes. If the file defines functions, the facts are
 * read from *ret_copy, which the caller frees. *ret_copy is NULL if the file defines none, is too
 * large, or cannot be copied.
 */
int sandbox__probe_info_and_copy(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted,
			   struct probe_info *ret, struct file_copy **ret_copy,
			   struct reason *why);

/* Which entries of its allocator a jump can replace; the caller frees *ret with entry_patches_release(). */
int sandbox__entries(struct sandbox *sandbox, int fd, struct entry_patches *ret, struct reason *why);

/*
 * CPython in a file (python_info.h); -ENOENT: the file has none. asked may be NULL. The caller frees *ret with
 * python_info_release().
 */
int sandbox__python(struct sandbox *sandbox, int fd, const struct python_asked *asked, struct python_info *ret,
		   struct reason *why);

/* Where a Go program has its variables (symbols/go_program.h); -ENOENT: it is no Go program. */
int sandbox__go(struct sandbox *sandbox, int fd, struct go_program *ret, struct reason *why);

/*
 * The names of addresses in code that a process made at run time, from its perf map (symbols/perf_map.h). The addresses are
 * sorted, at most PERF_MAP_ADDRESSES_MAX. The caller frees both arrays of *ret.
 */
int sandbox__made_code(struct sandbox *sandbox, int fd, const struct perf_map_part *part, const uint64_t *address, size_t nr,
		       struct perf_map_names *ret, struct reason *why);

/* The line table of a code object, copied from a process. */
struct python_line_table {
	unsigned int kind; /* enum python_lines */
	int32_t first_line;
	const void *table;
	size_t bytes;
};

#define PYTHON_LINES_BYTES_MAX (1u << 20)
#define PYTHON_LINES_MAX (1u << 16) /* instructions */

/* The lines of instructions, as from python_line(). -E2BIG: more than the limits. */
int sandbox__python_lines(struct sandbox *sandbox, const struct python_line_table *table, const int64_t *instruction,
			 size_t nr, int32_t *ret_line, struct reason *why);

/* The sign that the object switches stacks (runtime_detect.h), in words; -ENOENT: it has no such sign. */
int sandbox__stack_switch(struct sandbox *sandbox, int fd, const char **ret_what);

/* Traits of a file (runtime_detect.h). They are for texts only; no decision depends on them. */
int sandbox__traits(struct sandbox *sandbox, int fd, struct runtime_traits *ret, struct reason *why);

#endif
