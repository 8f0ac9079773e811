// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pool: an allocator of its own, with free lists, over chunks from malloc; larger objects come from
 * malloc. Four threads use it, and free each other's objects.
 *
 *	go N     each thread makes N objects of each kind, then frees and resizes some
 *	free     frees the rest
 *	quit
 *
 * Each answer has the live objects of the pool, and the blocks that the pool has from malloc: all of
 * them, and those that no function of the pool has asked for.
 */
#include <pthread.h>
#include <stdbool.h>

#include "workload.h"

#define CHUNK_BYTES 16384
#define CHUNKS_MAX 4096
#define LARGEST 2048 /* of the eight classes, from 16 bytes on */
#define THREADS 4
#define KINDS 5
#define EACH_MAX 1000
#define CONNECTION_BYTES 192

struct pool {
	pthread_mutex_t lock;
	void *free_list[8];
	char *chunk[CHUNKS_MAX];
	int chunk_class[CHUNKS_MAX];
	long chunk_nr, early_nr;
	long large_nr, large_bytes;
	long foreign_nr;
};

static struct pool pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the pool ---- */

static int class_of(size_t size)
{
	int class = 0;

	while ((size_t)16 << class < size)
		class++;
	return class;
}

/* The first object of a chunk begins where the chunk does. */
static void add_chunk(struct pool *p, int class)
{
	size_t bytes = (size_t)16 << class;
	char *chunk = malloc(CHUNK_BYTES);

	p->chunk[p->chunk_nr] = chunk;
	p->chunk_class[p->chunk_nr++] = class;
	for (size_t at = CHUNK_BYTES; at; at -= bytes) {
		*(void **)(chunk + at - bytes) = p->free_list[class];
		p->free_list[class] = chunk + at - bytes;
	}
}

/* -1: the pool has not got it. */
static int class_at(const struct pool *p, const void *object)
{
	for (long i = 0; i < p->chunk_nr; i++)
		if ((size_t)((const char *)object - p->chunk[i]) < CHUNK_BYTES)
			return p->chunk_class[i];
	return -1;
}

SITE static void *pool_alloc(struct pool *p, size_t size)
{
	void **object;
	int class;

	pthread_mutex_lock(&p->lock);
	if (size > LARGEST) {
		object = malloc(size);
		p->large_nr++;
		p->large_bytes += size;
	} else {
		class = class_of(size);
		if (!p->free_list[class])
			add_chunk(p, class);
		object = p->free_list[class];
		p->free_list[class] = *object;
	}
	pthread_mutex_unlock(&p->lock);
	return object;
}

/* Also takes back objects that are not the pool's: sized is 0 for an object that the pool never gave out. */
SITE static void give_back(struct pool *p, void *object, size_t sized)
{
	int class = class_at(p, object);

	if (class >= 0) {
		*(void **)object = p->free_list[class];
		p->free_list[class] = object;
		return;
	}
	if (sized) {
		p->large_nr--;
		p->large_bytes -= sized;
	} else {
		p->foreign_nr++;
	}
	free(object);
}

SITE static void pool_free(size_t sized, struct pool *p, void *object)
{
	if (!object)
		return;
	pthread_mutex_lock(&p->lock);
	give_back(p, object, sized);
	pthread_mutex_unlock(&p->lock);
}

SITE void *pool_calloc(size_t n, size_t size, struct pool *p)
{
	void *object = pool_alloc(p, n * size);

	memset(object, 0, n * size);
	return object;
}

SITE void *pool_realloc(struct pool *p, void *object, size_t old_size, size_t size)
{
	void *to = size ? pool_alloc(p, size) : NULL;

	if (object && to)
		memcpy(to, object, old_size < size ? old_size : size);
	pool_free(old_size, p, object);
	return to;
}

SITE int pool_get(size_t size, int fails, void **out, struct pool *p)
{
	if (fails)
		return 12;
	*out = pool_alloc(p, size);
	return 0;
}

SITE void *connection_new(void)
{
	return pool_alloc(&pool, CONNECTION_BYTES);
}

/* ---- users of the pool ---- */

static struct object {
	void *at;
	size_t size;
} objects[THREADS][KINDS][EACH_MAX];

static size_t size_for(int thread, int kind, long i)
{
	return kind == 4 ? CONNECTION_BYTES : (size_t)(thread * 7 + kind * 131 + i * 37) % 2500 + 1;
}

static void make(int thread, long i)
{
	struct object *object[KINDS];

	for (int kind = 0; kind < KINDS; kind++) {
		object[kind] = &objects[thread][kind][i];
		object[kind]->size = size_for(thread, kind, i);
	}
	object[0]->at = pool_alloc(&pool, object[0]->size);
	object[1]->size *= 2;
	object[1]->at = pool_calloc(2, object[1]->size / 2, &pool);
	object[2]->at = pool_realloc(&pool, NULL, 0, object[2]->size);
	pool_get(object[3]->size, 1, &object[3]->at, &pool); /* fails */
	pool_get(object[3]->size, 0, &object[3]->at, &pool);
	object[4]->at = connection_new();
}

static void drop(struct object *object)
{
	pool_free(object->size, &pool, object->at);
	*object = (struct object){};
}

static void resize(struct object *object, size_t size)
{
	object->at = pool_realloc(&pool, object->at, object->size, size);
	object->size = size;
}

/* Some of the next thread's; one of five stays, or is resized by its own. */
static void change(int thread, long i)
{
	for (int kind = 0; kind < KINDS; kind++) {
		if (i % 5 < 2)
			drop(&objects[(thread + 1) % THREADS][kind][i]);
		else if (i % 5 == 2)
			resize(&objects[thread][kind][i], (size_t)(i * 53 + kind) % 3000 + 1);
		else if (i % 5 == 3)
			resize(&objects[thread][kind][i], 0);
	}
	if (i % 5 == 4)
		pool_free(0, &pool, malloc(40));
}

static pthread_barrier_t barrier;
static long each;
static bool is_freeing;

static void work(int thread)
{
	for (long i = 0; i < each && !is_freeing; i++)
		make(thread, i);
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < each && !is_freeing; i++)
		change(thread, i);
	for (long i = 0; i < EACH_MAX && is_freeing; i++)
		for (int kind = 0; kind < KINDS; kind++)
			drop(&objects[(thread + 1) % THREADS][kind][i]);
	pthread_barrier_wait(&barrier);
}

static void *thread_main(void *thread)
{
	for (;;) {
		pthread_barrier_wait(&barrier);
		work((long)thread);
	}
	return NULL;
}

static void all_work(void)
{
	pthread_barrier_wait(&barrier);
	work(0);
}

static void report(void)
{
	long nr = 0, bytes = 0;

	for (int thread = 0; thread < THREADS; thread++)
		for (int kind = 0; kind < KINDS; kind++)
			for (long i = 0; i < EACH_MAX; i++) {
				nr += !!objects[thread][kind][i].at;
				bytes += objects[thread][kind][i].size;
			}
	answer("{\"done\": {\"objects\": [%ld, %ld], \"malloc\": [%ld, %ld], \"outside\": [%ld, %ld], "
	       "\"foreign\": %ld}}", nr, bytes, pool.chunk_nr + pool.large_nr,
	       pool.chunk_nr * CHUNK_BYTES + pool.large_bytes, pool.early_nr,
	       pool.early_nr * CHUNK_BYTES, pool.foreign_nr);
}

int main(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (long i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, thread_main, (void *)i);
	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		is_freeing = !strcmp(command, "free");
		if (sscanf(command, "go %ld", &each) == 1) {
			add_chunk(&pool, 0); /* its caller is not probed */
			pool.early_nr++;
		}
		all_work();
		report();
	}
}
