/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_WAYS_H
#define ALLOCSNAP_COLLECT_SOURCES_WAYS_H

/*
 * The ways to record a process, which of them would work for it now, and which one to take. A way is found by the checks that
 * it makes itself before it changes anything.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "inject/inject.h"

struct collector;
struct target;

/* The cheapest of those with the same answer first. */
enum way {
	WAY_OWN,    /* samples that the process takes itself, or Go's runtime in it */
	WAY_EXACT,  /* hooks in the process: every block, of a CPython's objects or of the heap */
	WAY_POOLS,  /* traps where a CPython opens and closes pools, with or without its larger objects */
	WAY_INJECT, /* samples of the heap, by a sampler that is put in */
	WAY_FAST,   /* the same, by a sampler that is preloaded when the program starts again */
	WAY_BUDGET, /* traps, as many as fit into a budget */
	WAY_TRAPS,  /* every block, by traps: works where any probe does */
	WAY_NR,
};

/* Which of them work. */
struct ways {
	bool is_python; /* what is recorded of it by traps are Python's objects */
	bool exact_is_python; /* the same by hooks */
	bool works[WAY_NR];
};

/* Looks for those that can replace traps. recorded: the process is recorded already; or NULL. Places nothing, and changes nothing. */
void ways_find(struct collector *collector, pid_t pid, const struct target *recorded, struct ways *ret);

/* The ways that cost less than traps on every block, in the order in which to try them. Returns how many. */
size_t ways_cheaper(const struct ways *ways, enum way ret[WAY_NR]);

/* The ways that cost less: "--inject=exact (every object), …", or "". */
#define WAYS_TEXT_MAX 320
const char *ways_text(char ret[WAYS_TEXT_MAX], const struct ways *ways);

/*
 * Chooses how `leaks` observes a process if the user does not: of the ways that leave the process as it is, the cheapest one that can
 * answer. core_percent: what the process used of a core at the look.
 */
enum way ways_for_leaks(const struct ways *ways, double core_percent);
#define LEAKS_BUSY_PERCENT 5.0 /* of a core: traps for each object take a Python 20 to 150 times that (docs/python.md) */

/* The next step after that: a way that was not taken because it changes the process. WAY_NR: none works. */
enum way ways_next_step(const struct ways *ways);

/* Says which one was taken, why, and the next step. "" for its own samples: the recording has a note about these. */
void ways_leaks_line(struct reason *ret, pid_t pid, const struct ways *ways, enum way way, double core_percent);

/* ---- an exact recording ---- */

struct exact_plan {
	bool is_python; /* or its heap */
	struct inject_python python;
	/* The memory of its books: a word for each 32 bytes of small blocks, an entry for a larger block, a node of the trie, the totals of a traceback, a thread. */
	uint64_t small_bytes_most; /* of the arenas of now; 0: not known */
	uint64_t large_block_bytes, node_bytes, traceback_bytes, thread_bytes_most;
};

/*
 * Plans it for the domains of the collector's options, or for malloc and python. 0, or an error as in inject.h with a line in
 * *why: it would be refused. Threads are not stopped, so an injection may still be refused because of them.
 */
int exact_plan_make(struct collector *collector, struct target *target, struct exact_plan *ret, struct reason *why);

/* A preloaded library is loaded by the dynamic linker, if the program has no more privileges than its user. */
bool can_preload(pid_t pid);

/* ---- which way, when ---- */

/* X(when, command, what): the advice of docs/overhead.md, wherever the program prints it. */
#define WAYS_ADVICE(X) \
	X("in production, always on", "run --fast, attach --inject", "samples that the process takes itself: next to no cost") \
	X("the answer in minutes", "attach --inject=exact, run --exact", "every block, recorded in the process: about twice its CPU time at most") \
	X("nothing in the process", "attach", "every block by traps, up to 20 times its CPU time, a Python 150 times") \
	X("a limit on the cost", "attach --max-overhead 10", "traps as long as they fit, then samples, then gaps")

#endif
