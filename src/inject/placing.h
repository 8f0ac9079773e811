/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_PLACING_H
#define ALLOCSNAP_INJECT_PLACING_H

/*
 * Maps a sampler, or hooks with their books, into a stopped process, and makes an allocator call it. Each step can be taken
 * back while the threads are stopped.
 *
 * If the injector is killed amid a remote call, the calling thread makes it while all the others run. So no remote call
 * changes code: the copies that are mapped over the allocator's pages have the same bytes. The jumps, and the pointers to
 * hooks, are written by this process itself, in one word each. The thread then closes the files, and until pages are
 * exchanged or pointers written it also unmaps what was mapped (remote_caller_undo()).
 *
 * A sampler and hooks of malloc exchange pages and write jumps, hooks of Python write words: each has nothing of the other
 * (struct injected_table).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/injected_file.h"

struct remote_caller;

/* Filled step by step: where it is in the process. */
struct placed {
	uint64_t start, end, dev, inode; /* of the sealed file */
	uint64_t books_start, books_dev, books_inode;
};

struct placing {
	enum inject_kind kind;
	const struct injected_file *file;
	const char *path; /* of what will call it, for texts */
	struct injected_image image;
	long code_fd, books_fd; /* in the process; negative: none */
	bool has_books; /* the first one of hooks has them for all */
	bool is_mapped, are_books_apart;
	uint32_t exchanged_nr; /* pages */
	uint32_t written_nr;   /* words */
	struct placed placed;
};

/* Makes the memory files in the process, and maps them. Nothing calls them, and no code of the process changes. */
int place(struct placing *placing, struct remote_caller *caller, pid_t pid, struct reason *why);

/*
 * Before pages are exchanged or words written: if the injector is killed from the next remote call on, all that these nr have
 * mapped stays, with the allocators' pages. 0 or -EIO
 */
int keep_mapped(struct placing *placing, uint32_t nr, struct remote_caller *caller);

/* Maps the copies over the allocator's pages. Each page is exchanged at once: there is never a hole. */
int exchange_pages(struct placing *placing, struct remote_caller *caller, struct reason *why);

/* No thread may be amid the bytes that the jumps replace. */
int write_jumps(const struct placing *placing, const struct remote_caller *caller, struct reason *why);

/* Before the first jump or word: hooks enter blocks from now on, but not in forked children. */
int switch_hooks_on(const struct placing *placing, struct remote_caller *caller, struct reason *why);

/* Puts the pointers to hooks into the tables. */
int write_words(struct placing *placing, struct remote_caller *caller, struct reason *why);

/* One of them, by a stopped thread. 0 or -errno */
int put_word(pid_t tid, uint64_t address, uint64_t word);

/* After an error: puts the pointers back that were there. False: not all. */
bool unwrite_words(struct placing *placing, const struct remote_caller *caller);

/* After an error: gives the allocator its own pages back. False: it could not have all of them. */
bool unexchange_pages(struct placing *placing, struct remote_caller *caller);

/*
 * Gives the allocator its own page back. Where that was parked, nothing else may be mapped: all of the sampler's room is
 * unmapped at once. 0 or -errno
 */
int give_page_back(struct remote_caller *caller, uint64_t address, uint64_t parked);

/*
 * Closes the files in the process. After an error it also unmaps the samplers, if the allocators have all their own pages.
 * False: something is left.
 */
bool end_placing(struct placing *placing, uint32_t nr, struct remote_caller *caller, bool unmaps);

#endif
