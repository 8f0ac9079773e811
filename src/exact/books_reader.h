/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_READER_H
#define ALLOCSNAP_EXACT_BOOKS_READER_H

/*
 * Reads the books of a process (books.h) while it runs, or after it has ended. The process may have written anything there:
 * each number is checked, and what makes no sense is left out.
 *
 *	books_cut()		from here on a block that is freed is handed over; no thread is stopped
 *	books_read_blocks()	the blocks that were live then, each once; ends the cut
 *	books_read_stacks(), books_read_codes(), books_read_numbers()
 *
 * Functions of type int return 0 or a negative errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exact/books.h"

struct books;

/* Takes over the descriptor, which is sealed against other sizes. -EINVAL: these are no books, or of another version or kind. */
int books_open(int fd, enum books_kind kind, uint64_t now_ns, struct books **ret);
void books_close(struct books *books); /* may be NULL */

/*
 * Begins an epoch: the blocks of now are the ones that were entered before. -EAGAIN: a thread has been in a call of its
 * allocator for too long, so that it is not known whether it has seen that. In a process that has ended, no thread is
 * waited for. When there are no more epochs, each two become one: births are less exact then. -ENOSPC: slots have had other
 * threads in too many of them.
 */
int books_cut(struct books *books, uint64_t now_ns, bool has_ended);

/* Begins an epoch for the births of blocks alone. -ENOSPC: only a cut makes room for more. */
int books_tick(struct books *books, uint64_t now_ns);

/* When the epoch of now, or of that time, began, ns. 0: before the first one. */
uint64_t books_epoch_began(const struct books *books);
uint64_t books_epoch_of(const struct books *books, uint64_t time_ns);

/* Whether the kernel makes the barrier that a cut needs: not with nohz_full (kernel/sched/membarrier.c). */
bool books_can_cut(void);

struct books_block {
	uint64_t address, size;
	uint64_t birth_ns; /* when the epoch of its birth began */
	uint32_t node;	   /* of its traceback, as in struct books_stack; BOOKS_NO_NODE: there was no room for it */
	uint32_t tid;	   /* as the C library has it; 0: not known */
};

typedef int (*books_block_fn)(void *what, const struct books_block *block);
int books_read_blocks(struct books *books, books_block_fn fn, void *what);

/*
 * frame[]: the innermost first; kept_nr: as many as `most`, of frame_nr in all. Python's: code id << 32 | instruction. Malloc's: an address,
 * with BOOKS_PC_GUESSED and BOOKS_PC_EXACT.
 */
struct books_stack {
	uint32_t id; /* its node; different ones may have the same frames */
	uint32_t frame_nr, kept_nr;
	const uint64_t *frame;
	uint64_t end; /* malloc's: BOOKS_END_WORD(); 0: the process has written none */
	struct books_totals totals;
};

typedef int (*books_stack_fn)(void *what, const struct books_stack *stack);
int books_read_stacks(struct books *books, uint32_t most, books_stack_fn fn, void *what);

/* file, name, lines lie behind it, with the lengths that it says. Those that were not read before. */
typedef int (*books_code_fn)(void *what, const struct books_code *code);
int books_read_codes(struct books *books, books_code_fn fn, void *what);

/* Sums over all threads, since the beginning. */
struct books_numbers {
	uint64_t allocations, frees, unknown_frees, steps;
	uint64_t cost_ns; /* about: what the hooks took of the threads' time, but for the way into them */
	uint64_t lost[BOOKS_LOSS_NR];
	uint64_t unreturned_nr; /* calls in which the process has ended */
	uint64_t late_nr; /* cuts at which a thread did not leave its call in time */
	uint64_t file_bytes; /* what the books take of memory */
	uint32_t thread_nr, node_nr, code_nr;
};

void books_read_numbers(struct books *books, struct books_numbers *ret);

/*
 * Frees the slots of threads for which is_there() is false twice, and which had their slots at the call before: so it is enough to
 * know which threads ran at any time since then.
 */
void books_free_threads(struct books *books, bool (*is_there)(void *what, uint32_t tid), void *what);

/* The hooks only pass on from here on. */
void books_turn_off(struct books *books);

#endif
