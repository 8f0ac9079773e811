// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * allocators PART…: each function of an allocator, called at a line of its own, and counted by line. The parts:
 *
 *	c      what every C library has       pvalloc, reallocarray, cfree   which not all have
 *	new, new_fails  operator new and delete          x, x_of_malloc  jemalloc's *allocx
 *	tc     gperftools' tc_*               mi  mimalloc's mi_*, heap  its mi_heap_*
 *
 *	go     does each part once; another thread frees a third of the blocks
 *	free   frees all, each by one of the functions that may free it
 *	quit
 *
 * Both answer with the live blocks of each line, and the totals.
 */
#include <malloc.h>
#include <stdint.h>

#include "account.h"
#include "allocators.h"
#include "allocators_free.h"

#define TIMES(n) for (int i_ = 0; i_ < (n); i_++)

static struct worker worker[2]; /* the main thread, and one that frees */

/* Volatile, or the compiler would know that these calls fail. */
static volatile size_t huge = SIZE_MAX / 4;
static volatile size_t bad_alignment = 3;

/* How a kept block may be freed; by its place in worker->kept. */
static free_function *free_by[KEPT_MAX];

static void later(struct worker *w, struct kept *kept, free_function *how)
{
	if (kept)
		free_by[kept - w->kept] = how;
}

/* Freed in all these ways in turn. */
#define LATER(kept, ...) \
	do { \
		static free_function *const how_[] = { __VA_ARGS__ }; \
		later(w, kept, how_[i_ % (sizeof(how_) / sizeof(*how_))]); \
	} while (0)

/* ---- c ---- */

SITE static void c_malloc(struct worker *w)
{
	KEEP(w, malloc(53), 53);
	KEEP(w, malloc(0), 0);
	KEEP(w, malloc(1000003), 1000003);
	KEEP(w, malloc(huge), 0);
}

SITE static void c_calloc(struct worker *w)
{
	KEEP(w, calloc(7, 89), 7 * 89);
	KEEP(w, calloc(huge, 8), 0);
}

SITE static void c_realloc(struct worker *w)
{
	struct kept *grows = KEEP(w, malloc(307), 307);
	struct kept *shrinks = KEEP(w, malloc(5003), 5003);
	struct kept *stays = KEEP(w, malloc(71), 71);

	MOVE(w, grows, realloc(grows->pointer, 100003), 100003);
	MOVE(w, shrinks, realloc(shrinks->pointer, 61), 61);
	MOVE(w, stays, realloc(stays->pointer, huge), huge);
	KEEP(w, realloc(NULL, 211), 211);
}

/* Frees, or makes a block of no bytes. */
SITE static void c_realloc_zero(struct worker *w)
{
	struct kept *old = KEEP(w, malloc(47), 47);

	MOVE(w, old, realloc(old->pointer, 0), 0);
	if (old->pointer)
		removed(w, old->size);
	old->pointer = NULL;
}

SITE static void c_aligned(struct worker *w)
{
	void *pointer = NULL;

	KEEP(w, posix_memalign(&pointer, 64, 149) ? NULL : pointer, 149);
	KEEP(w, posix_memalign(&pointer, bad_alignment, 149) ? NULL : pointer, 149);
	KEEP(w, aligned_alloc(64, 192), 192);
	KEEP(w, memalign(32, 97), 97);
	KEEP(w, memalign(8192, 101), 101);
	KEEP(w, valloc(137), 137);
}

static void part_c(struct worker *w)
{
	TIMES(11)
		c_malloc(w);
	TIMES(7)
		c_calloc(w);
	TIMES(5)
		c_realloc(w);
	TIMES(3)
		c_realloc_zero(w);
	TIMES(2)
		c_aligned(w);
	free(NULL);
}

SITE static void part_pvalloc(struct worker *w)
{
	TIMES(3)
		KEEP(w, pvalloc(139), 139);
}

SITE static void part_reallocarray(struct worker *w)
{
	TIMES(5) {
		struct kept *old = KEEP(w, reallocarray(NULL, 3, 41), 3 * 41);

		MOVE(w, old, reallocarray(old->pointer, 5, 43), 5 * 43);
		old = &w->kept[w->kept_nr - 1];
		MOVE(w, old, reallocarray(old->pointer, huge, 8), 0);
	}
}

SITE static void part_cfree(struct worker *w)
{
	TIMES(3)
		LATER(KEEP(w, malloc(59), 59), by_cfree);
}

/* ---- new ---- */

/* Sizes that fit the alignment: libstdc++ asks for more otherwise. */
SITE static void part_new(struct worker *w)
{
	TIMES(7) {
		LATER(KEEP(w, _Znwm(23), 23), NEW);
		LATER(KEEP(w, _Znam(29), 29), NEW_ARRAY);
		LATER(KEEP(w, _ZnwmRKSt9nothrow_t(31, &no_throw), 31), NEW);
		LATER(KEEP(w, _ZnamRKSt9nothrow_t(37, &no_throw), 37), NEW_ARRAY);
		LATER(KEEP(w, _ZnwmSt11align_val_t(64, 64), 64), NEW_ALIGNED);
		LATER(KEEP(w, _ZnamSt11align_val_t(128, 64), 128), NEW_ARRAY_ALIGNED);
		LATER(KEEP(w, _ZnwmSt11align_val_tRKSt9nothrow_t(192, 64, &no_throw), 192), NEW_ALIGNED);
		LATER(KEEP(w, _ZnamSt11align_val_tRKSt9nothrow_t(256, 64, &no_throw), 256),
		      NEW_ARRAY_ALIGNED);
	}
}

/* libstdc++'s throws first, and allocates the exception. */
SITE static void part_new_fails(struct worker *w)
{
	TIMES(7) {
		KEEP(w, _ZnwmRKSt9nothrow_t(huge, &no_throw), 0);
		KEEP(w, _ZnamSt11align_val_tRKSt9nothrow_t(huge, 64, &no_throw), 0);
	}
}

/* ---- x ---- */

/* It resizes where the block is, or does not: the result is the size that it has then. */
SITE static void x_in_place(struct worker *w)
{
	struct kept *stays = KEEP(w, mallocx(100, 0), 100);
	struct kept *grows = KEEP(w, mallocx(100, 0), 100);
	size_t room = sallocx(grows->pointer, 0);

	KEEP(w, xallocx(stays->pointer, 200000, 0, 0) < 200000 ? NULL : stays->pointer, 200000);
	MOVE(w, grows, xallocx(grows->pointer, room, 0, 0) == room ? grows->pointer : NULL, room);
}

SITE static void part_x(struct worker *w)
{
	TIMES(5) {
		struct kept *old = KEEP(w, mallocx(113, 0), 113);

		LATER(KEEP(w, mallocx(109, 0), 109), by_dallocx, by_sdallocx, by_free);
		KEEP(w, mallocx(127, 7), 127); /* aligned to 128 */
		MOVE(w, old, rallocx(old->pointer, 9001, 0), 9001);
		x_in_place(w);
	}
}

/* Blocks of malloc(), which jemalloc's own functions take as well. */
SITE static void part_x_of_malloc(struct worker *w)
{
	TIMES(9) {
		struct kept *old = KEEP(w, malloc(113), 113);
		size_t room = sallocx(old->pointer, 0);

		MOVE(w, old, rallocx(old->pointer, 9001, 0), 9001);
		old = KEEP(w, malloc(113), 113);
		MOVE(w, old, xallocx(old->pointer, room, 0, 0) == room ? old->pointer : NULL, room);
		old = KEEP(w, malloc(127), 127);
		MOVE(w, old, xallocx(old->pointer, 200000, 0, 0) < 200000 ? NULL : old->pointer, 200000);
		LATER(KEEP(w, malloc(109), 109), by_dallocx, by_sdallocx, by_free);
	}
}

/* ---- tc ---- */

SITE static void part_tc(struct worker *w)
{
	void *pointer = NULL;

	TIMES(5) {
		struct kept *old = KEEP(w, tc_calloc(3, 31), 3 * 31);

		LATER(KEEP(w, tc_malloc(61), 61), by_tc_free, by_tc_cfree, by_tc_free_sized, by_free);
		LATER(KEEP(w, tc_malloc_skip_new_handler(67), 67), by_tc_free);
		MOVE(w, old, tc_realloc(old->pointer, 7001), 7001);
		KEEP(w, tc_realloc(w->kept[w->kept_nr - 1].pointer, huge), huge);
		KEEP(w, tc_memalign(64, 71), 71);
		KEEP(w, tc_posix_memalign(&pointer, 64, 73) ? NULL : pointer, 73);
		KEEP(w, tc_valloc(79), 79);
		KEEP(w, tc_pvalloc(83), 83);
		LATER(KEEP(w, tc_new(89), 89), by_tc_delete);
		KEEP(w, tc_newarray_nothrow(huge, &no_throw), 0);
		LATER(KEEP(w, tc_new_aligned(97, 64), 97), by_tc_delete_aligned);
	}
}

/* ---- mi ---- */

SITE static void mi_simple(struct worker *w)
{
	TIMES(5) {
		LATER(KEEP(w, mi_malloc(61), 61), MI);
		LATER(KEEP(w, mi_zalloc(67), 67), MI);
		LATER(KEEP(w, mi_malloc_small(71), 71), MI);
		LATER(KEEP(w, mi_zalloc_small(73), 73), MI);
		LATER(KEEP(w, mi_calloc(3, 79), 3 * 79), MI);
		LATER(KEEP(w, mi_mallocn(3, 83), 3 * 83), MI);
		LATER(KEEP(w, mi_calloc(huge, 8), 0), MI);
		LATER(KEEP(w, mi_new(89), 89), MI);
		LATER(KEEP(w, mi_new_n(3, 97), 3 * 97), MI);
		LATER(KEEP(w, mi_new_nothrow(101), 101), MI);
	}
}

SITE static void mi_aligned(struct worker *w)
{
	void *pointer = NULL;

	TIMES(5) {
		LATER(KEEP(w, mi_malloc_aligned(61, 64), 61), MI_ALIGNED);
		LATER(KEEP(w, mi_malloc_aligned(67, 8192), 67), by_mi_free);
		LATER(KEEP(w, mi_malloc_aligned_at(71, 64, 8), 71), by_mi_free);
		LATER(KEEP(w, mi_zalloc_aligned(73, 64), 73), MI_ALIGNED);
		LATER(KEEP(w, mi_calloc_aligned(3, 79, 64), 3 * 79), MI_ALIGNED);
		LATER(KEEP(w, mi_memalign(64, 83), 83), MI_ALIGNED);
		LATER(KEEP(w, mi_aligned_alloc(64, 192), 192), MI_ALIGNED);
		LATER(KEEP(w, mi_posix_memalign(&pointer, 64, 89) ? NULL : pointer, 89), MI_ALIGNED);
		LATER(KEEP(w, mi_valloc(97), 97), by_mi_free);
		LATER(KEEP(w, mi_pvalloc(101), 101), by_mi_free);
		LATER(KEEP(w, mi_new_aligned(103, 64), 103), MI_ALIGNED);
	}
}

static struct kept *newest(struct worker *w)
{
	return &w->kept[w->kept_nr - 1];
}

/* Each call takes the block of the one before. */
#define MI_MOVE(call, size) \
	do { \
		struct kept *old = newest(w); \
\
		MOVE(w, old, call, size); \
		if (newest(w) != old) \
			later(w, newest(w), by_mi_free); \
	} while (0)

SITE static void mi_moves(struct worker *w)
{
	TIMES(3) {
		KEEP(w, mi_malloc(307), 307);
		MI_MOVE(mi_realloc(old->pointer, 5003), 5003);
		MI_MOVE(mi_rezalloc(old->pointer, 61), 61);
		MI_MOVE(mi_expand(old->pointer, 62), 62);
		MI_MOVE(mi_expand(old->pointer, 100003), 100003);
		MI_MOVE(mi_reallocn(old->pointer, 3, 101), 3 * 101);
		MI_MOVE(mi_reallocarray(old->pointer, 3, 103), 3 * 103);
		MI_MOVE(mi_recalloc(old->pointer, 3, 107), 3 * 107);
		MI_MOVE(mi_realloc_aligned(old->pointer, 701, 64), 701);
		MI_MOVE(mi_new_realloc(old->pointer, 709), 709);
		MI_MOVE(mi_new_reallocn(old->pointer, 3, 719), 3 * 719);
		MI_MOVE(mi_reallocf(old->pointer, 727), 727);
		MI_MOVE(mi_realloc(old->pointer, huge), 0);
	}
}

/* If it fails, the block is gone. */
SITE static void mi_reallocf_fails(struct worker *w)
{
	struct kept *old = KEEP(w, mi_malloc(73), 73);

	MOVE(w, old, mi_reallocf(old->pointer, huge), 0);
	removed(w, old->size);
	old->pointer = NULL;
}

static void part_mi(struct worker *w)
{
	mi_simple(w);
	mi_aligned(w);
	mi_moves(w);
	mi_reallocf_fails(w);
}

static struct mi_heap *heap; /* a block, too; it is older than the first count */

SITE static void part_heap(struct worker *w)
{
	TIMES(5) {
		LATER(KEEP(w, mi_heap_malloc(heap, 61), 61), MI);
		LATER(KEEP(w, mi_heap_zalloc(heap, 67), 67), MI);
		LATER(KEEP(w, mi_heap_calloc(heap, 3, 71), 3 * 71), MI);
		LATER(KEEP(w, mi_heap_mallocn(heap, 3, 73), 3 * 73), MI);
		LATER(KEEP(w, mi_heap_malloc_aligned(heap, 79, 64), 79), MI_ALIGNED);
		MI_MOVE(mi_heap_realloc(heap, old->pointer, 709), 709);
		MI_MOVE(mi_heap_reallocn(heap, old->pointer, 3, 719), 3 * 719);
	}
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	void (*run)(struct worker *w);
} part[] = {
	{ "c", part_c }, { "pvalloc", part_pvalloc }, { "reallocarray", part_reallocarray },
	{ "cfree", part_cfree }, { "new", part_new }, { "new_fails", part_new_fails },
	{ "x", part_x }, { "x_of_malloc", part_x_of_malloc },
	{ "tc", part_tc }, { "mi", part_mi }, { "heap", part_heap },
};

/* The way to free it depends on its place; the places take turns. */
static void free_some(struct worker *by, int step)
{
	struct worker *w = &worker[0];

	for (int i = 0; i < w->kept_nr; i += step) {
		if (!w->kept[i].pointer)
			continue;
		removed(by, w->kept[i].size);
		(free_by[i] ?: by_free)(&w->kept[i]);
		w->kept[i].pointer = NULL;
	}
}

static void go(char **name)
{
	for (; *name; name++)
		for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
			if (!strcmp(part[i].name, *name))
				part[i].run(&worker[0]);
}

static void free_all(void)
{
	free_some(&worker[0], 1);
	worker[0].kept_nr = 0;
	memset(free_by, 0, sizeof(free_by));
}

static pthread_barrier_t begin, end;

/* It exists from the beginning: starting it is the C library's task. */
static void *other_thread(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		free_some(arg, 3);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(int, char **argv)
{
	heap = mi_heap_new ? mi_heap_new() : NULL;
	pthread_barrier_init(&begin, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	pthread_create(&worker[1].thread, NULL, other_thread, &worker[1]);
	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (!strcmp(command, "go")) {
			go(argv + 1);
			pthread_barrier_wait(&begin);
			pthread_barrier_wait(&end);
		}
		if (!strcmp(command, "free"))
			free_all();
		report_account(worker, 2);
	}
}
