// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A ring of places. Each new file in turn has the next place, and any free thread fills it. Threads pause while they
 * are a whole ring ahead of the consumer, or while the results take too much memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/reason.h"
#include "fleet/index_private.h"

#define PLACES 64
#define THREADS_MAX 64
/* limit of the results that wait; a file's unpacked size would not measure its result */
#define WAITING_BYTES_MAX (256 << 20)

struct place {
	struct found found;
	size_t bytes;
	bool is_filled;
	int err;
};

struct index_threads {
	const struct indexed_files *files;
	struct library *library;
	pthread_mutex_t lock;
	pthread_cond_t filled, taken;
	size_t at;	 /* in files: where the search for the next new file begins */
	size_t begun;	 /* new files whose reading has begun */
	size_t given;	 /* results that index_threads__next() gave; the last one is in use */
	size_t bytes;	 /* of all results that are filled or in use */
	bool must_end;
	struct place place[PLACES];
	pthread_t thread[THREADS_MAX];
	unsigned int thread_nr;
};

/* The consumer sleeps until several results are ready: waking it takes as long as a tenth of a file. */
static void wake_taker(struct index_threads *threads)
{
	if (threads->given && threads->place[(threads->given - 1) % PLACES].is_filled)
		pthread_cond_signal(&threads->filled);
}

/* The file that the consumer waits for may always begin, whatever memory is in use. */
static bool ring_has_room(const struct index_threads *threads)
{
	return threads->begun + 1 < threads->given + PLACES &&
	       (threads->bytes <= WAITING_BYTES_MAX || threads->begun <= threads->given);
}

/* Waits for room. Returns false if there are no more files. */
static bool consume_next_file(struct index_threads *threads, size_t *ret_file, struct place **ret_place)
{
	const struct indexed_files *files = threads->files;

	while (!threads->must_end && !ring_has_room(threads)) {
		wake_taker(threads);
		pthread_cond_wait(&threads->taken, &threads->lock);
	}
	while (threads->at < files->file_nr && files->file[threads->at].state != FILE_NEW)
		threads->at++;
	if (threads->must_end || threads->at == files->file_nr)
		return false;
	*ret_file = threads->at++;
	*ret_place = &threads->place[threads->begun++ % PLACES];
	return true;
}

static void *run_reader(void *threads_)
{
	struct index_threads *threads = threads_;
	struct index_reading reading = { .library = threads->library };
	struct place *place;
	size_t file;

	pthread_mutex_lock(&threads->lock);
	while (consume_next_file(threads, &file, &place)) {
		int err;

		pthread_mutex_unlock(&threads->lock);
		err = index_read(&reading, file_path(threads->files, file), &place->found);
		pthread_mutex_lock(&threads->lock);
		place->err = err;
		place->is_filled = true;
		place->bytes = found_memory_bytes(&place->found);
		threads->bytes += place->bytes;
		if (threads->begun >= threads->given + PLACES / 2)
			wake_taker(threads);
	}
	wake_taker(threads);
	pthread_mutex_unlock(&threads->lock);
	index_reading_release(&reading);
	return NULL;
}

int index_threads__new(const struct indexed_files *files, struct library *library,
		       struct index_threads **ret, struct reason *why)
{
	struct index_threads *threads = calloc(1, sizeof(*threads));
	int err = threads ? 0 : ENOMEM;

	if (threads) {
		threads->files = files;
		threads->library = library;
		pthread_mutex_init(&threads->lock, NULL);
		pthread_cond_init(&threads->filled, NULL);
		pthread_cond_init(&threads->taken, NULL);
	}
	for (unsigned int i = processor_nr(); i && !err && threads->thread_nr < THREADS_MAX; i--) {
		err = pthread_create(&threads->thread[threads->thread_nr], NULL, run_reader, threads);
		threads->thread_nr += !err;
	}
	if (!threads || !threads->thread_nr) {
		index_threads__free(threads);
		return reason_set(why, -err, "no threads: %s", strerror(err));
	}
	*ret = threads;
	return 0;
}

/* Clears the last result, which is no longer in use. The next result in its place reuses its memory. */
static void recycle_last_place(struct index_threads *threads)
{
	struct place *place = &threads->place[(threads->given - 1) % PLACES];

	found_clear(&place->found);
	threads->bytes -= place->bytes;
}

int index_threads__next(struct index_threads *threads, struct found **ret)
{
	struct place *place = &threads->place[threads->given % PLACES];
	int err;

	pthread_mutex_lock(&threads->lock);
	if (threads->given)
		recycle_last_place(threads);
	threads->given++;
	pthread_cond_broadcast(&threads->taken);
	while (!place->is_filled)
		pthread_cond_wait(&threads->filled, &threads->lock);
	place->is_filled = false;
	err = place->err;
	pthread_mutex_unlock(&threads->lock);
	*ret = &place->found;
	return err;
}

void index_threads__free(struct index_threads *threads)
{
	if (!threads)
		return;
	pthread_mutex_lock(&threads->lock);
	threads->must_end = true;
	pthread_cond_broadcast(&threads->taken);
	pthread_mutex_unlock(&threads->lock);
	for (unsigned int i = 0; i < threads->thread_nr; i++)
		pthread_join(threads->thread[i], NULL);
	for (size_t i = 0; i < PLACES; i++)
		found_release(&threads->place[i].found);
	pthread_cond_destroy(&threads->filled);
	pthread_cond_destroy(&threads->taken);
	pthread_mutex_destroy(&threads->lock);
	free(threads);
}
