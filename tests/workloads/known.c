// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Several threads, prime counts and sizes, every allocator function, each at a line of its own;
 * the program counts for itself and answers with its exact totals per call site.
 *
 *	go          every thread does its work once; answers with the totals
 *	free        frees all live blocks
 *	oom         answers with the totals, then touches more memory than its limit
 *	oom in realloc
 *	            the same, by a realloc that has to copy
 *	quit, or one of end_at_once()
 *
 * "known without-pvalloc" is for allocators without pvalloc: glibc's would return a block that they
 * do not know.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "account.h"
#include "workload.h"

#define WORKERS 7
#define EARLY_NR 37
#define SLOT_NR 211
#define CHURN_ROUNDS 3001
#define CHURN_SIZE 127
#define TOO_MUCH (256UL << 20)

static struct worker worker[1 + WORKERS];
static void *early[EARLY_NR];
static _Atomic(void *) slot[SLOT_NR];
static int slot_line;
static pthread_barrier_t begin, phase, end;
static bool quitting;
static bool has_pvalloc = true;

/* Volatile, or the compiler would know that these calls fail. */
static volatile size_t huge = SIZE_MAX / 4;
static volatile size_t bad_alignment = 3;

/* Each call site has a line of its own. */
#define LEAF(name, call, size)                                 \
	SITE static struct kept *leaf_##name(struct worker *w) \
	{                                                      \
		return KEEP(w, call, size);                    \
	}

LEAF(a, malloc(53), 53)

SITE static void leaf_b(struct worker *w, size_t size)
{
	KEEP(w, malloc(size), size);
}

SITE static void leaf_two_lines(struct worker *w)
{
	KEEP(w, malloc(17), 17);
	KEEP(w, malloc(19), 19);
}

LEAF(zero, malloc(0), 0)
LEAF(calloc, calloc(7, 89), 7 * 89)
LEAF(mapped, malloc(1000003), 1000003)
LEAF(to_grow, malloc(307), 307)

SITE static void leaf_grow(struct worker *w, struct kept *old, size_t size)
{
	MOVE(w, old, realloc(old->pointer, size), size);
}

LEAF(to_shrink, malloc(5003), 5003)

SITE static void leaf_shrink(struct worker *w, struct kept *old)
{
	MOVE(w, old, realloc(old->pointer, 61), 61);
}

LEAF(stays, malloc(71), 71)

SITE static void leaf_realloc_fails(struct worker *w, struct kept *old)
{
	MOVE(w, old, realloc(old->pointer, huge), huge);
	MOVE(w, old, reallocarray(old->pointer, huge, 8), 0);
}

LEAF(realloc_null, realloc(NULL, 211), 211)

SITE static void leaf_reallocarray(struct worker *w)
{
	struct kept *old = KEEP(w, reallocarray(NULL, 3, 41), 3 * 41);

	MOVE(w, old, reallocarray(old->pointer, 5, 43), 5 * 43);
}

/* glibc frees the block and returns NULL. */
SITE static void leaf_realloc_zero(struct worker *w)
{
	struct kept *old = KEEP(w, malloc(47), 47);

	if (realloc(old->pointer, 0))
		abort();
	w->totals.failed_calls++;
	removed(w, old->size);
	old->pointer = NULL;
}

SITE static void leaf_posix_memalign(struct worker *w)
{
	void *pointer = NULL;

	KEEP(w, posix_memalign(&pointer, 64, 149) ? NULL : pointer, 149);
	if (!posix_memalign(&pointer, bad_alignment, 149))
		abort();
	w->totals.failed_calls++;
}

LEAF(aligned_alloc, aligned_alloc(64, 192), 192)
LEAF(memalign, memalign(32, 97), 97)
LEAF(valloc, valloc(137), 137)
LEAF(pvalloc, pvalloc(139), 139)

SITE static void leaf_fails(struct worker *w)
{
	KEEP(w, malloc(huge), 0);
	KEEP(w, calloc(huge, 8), 0);
}

SITE static struct kept *leaf_too_much(struct worker *w)
{
	return KEEP(w, malloc(TOO_MUCH), TOO_MUCH);
}

/* All threads share the slots: mostly a block is freed by another thread than its own. */
SITE static void *leaf_churn(void)
{
	slot_line = __LINE__ + 1;
	return malloc(CHURN_SIZE);
}

static void churn(struct worker *w)
{
	for (int i = 0; i < CHURN_ROUNDS; i++) {
		void *block = leaf_churn();
		void *old;

		memset(block, w->index, CHURN_SIZE);
		entered(w, CHURN_SIZE);
		old = atomic_exchange(&slot[(i * 31 + w->index) % SLOT_NR], block);
		if (old)
			removed(w, CHURN_SIZE);
		free(old);
	}
}

#define TIMES(n) for (int i_ = 0; i_ < (n); i_++)

static void work_realloc(struct worker *w)
{
	TIMES(17)
		leaf_grow(w, leaf_to_grow(w), 100003);
	TIMES(2)
		leaf_grow(w, &w->kept[w->kept_nr - 1], 400009); /* by mremap(2) */
	TIMES(11)
		leaf_shrink(w, leaf_to_shrink(w));
	TIMES(5)
		leaf_realloc_fails(w, leaf_stays(w));
	TIMES(13)
		leaf_realloc_null(w);
	TIMES(29)
		leaf_reallocarray(w);
	TIMES(19)
		leaf_realloc_zero(w);
}

static void work_aligned(struct worker *w)
{
	TIMES(3)
		leaf_posix_memalign(w);
	TIMES(5)
		leaf_aligned_alloc(w);
	TIMES(7)
		leaf_memalign(w);
	TIMES(2)
		leaf_valloc(w);
	if (has_pvalloc)
		leaf_pvalloc(w);
}

static void work(struct worker *w)
{
	struct worker *next = &worker[1 + w->index % WORKERS];

	TIMES(101)
		leaf_a(w);
	TIMES(31)
		leaf_b(w, 1009 + i_);
	TIMES(3)
		leaf_two_lines(w);
	TIMES(3)
		leaf_zero(w);
	TIMES(23)
		leaf_calloc(w);
	leaf_mapped(w);
	TIMES(2)
		leaf_fails(w);
	work_realloc(w);
	work_aligned(w);
	free(NULL);
	pthread_barrier_wait(&phase);
	for (int i = 0; i < next->kept_nr; i += 3)
		drop(w, &next->kept[i]);
	churn(w);
}

static void *run(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		pthread_barrier_wait(&begin);
		if (quitting)
			return NULL;
		work(w);
		pthread_barrier_wait(&end);
	}
}

/* Blocks older than the recording. */
SITE static void make_early(void)
{
	for (int i = 0; i < EARLY_NR; i++)
		early[i] = malloc(67);
}

SITE static void leaf_late_realloc(struct worker *w)
{
	KEEP(w, realloc(early[0], 73), 73);
}

static void end_early(struct worker *w)
{
	if (!early[0])
		return;
	leaf_late_realloc(w);
	for (int i = 1; i < EARLY_NR; i++)
		free(early[i]);
	early[0] = NULL;
	w->totals.unknown_frees += EARLY_NR;
}

static void free_all(void)
{
	for (int i = 0; i <= WORKERS; i++) {
		for (int k = 0; k < worker[i].kept_nr; k++)
			drop(&worker[0], &worker[i].kept[k]);
		worker[i].kept_nr = 0;
	}
	for (int i = 0; i < SLOT_NR; i++) {
		void *block = atomic_exchange(&slot[i], NULL);

		if (block)
			removed(&worker[0], CHURN_SIZE);
		free(block);
	}
}

/* The program's own counts. */
static void report(void)
{
	static struct live live[ACCOUNT_LINES];
	struct totals sum = {};

	memset(live, 0, sizeof(live));
	add_up(worker, WORKERS + 1, live, &sum);
	for (int i = 0; i < SLOT_NR; i++)
		live[slot_line].count += !!slot[i];
	live[slot_line].size = live[slot_line].count * CHURN_SIZE;
	function_of_line[slot_line] = "leaf_churn";
	answer_account(live, &sum);
}

static void go(void)
{
	end_early(&worker[0]);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
}

static void run_out_of_memory(bool in_realloc)
{
	struct kept *kept;

	mallopt(M_MMAP_MAX, 0); /* or realloc moves blocks without touching them */
	kept = leaf_too_much(&worker[0]);
	leaf_too_much(&worker[0]); /* is in its way */
	report();
	if (in_realloc)
		leaf_grow(&worker[0], kept, 2 * TOO_MUCH);
	else
		memset(kept->pointer, 1, TOO_MUCH);
}

static void obey(void)
{
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return;
		end_at_once(command);
		if (!strncmp(command, "oom", 3))
			run_out_of_memory(command[3]);
		if (!strcmp(command, "go"))
			go();
		if (!strcmp(command, "free"))
			free_all();
		report();
	}
}

int main(int argc, char **argv)
{
	has_pvalloc = argc == 1 || strcmp(argv[1], "without-pvalloc");
	make_early();
	pthread_barrier_init(&begin, NULL, WORKERS + 1);
	pthread_barrier_init(&phase, NULL, WORKERS);
	pthread_barrier_init(&end, NULL, WORKERS + 1);
	for (int i = 1; i <= WORKERS; i++) {
		worker[i].index = i;
		pthread_create(&worker[i].thread, NULL, run, &worker[i]);
	}
	ready();
	obey();
	quitting = true;
	pthread_barrier_wait(&begin);
	for (int i = 1; i <= WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	return 0;
}
