// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/map_reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"
#include "collect/bpf.h"
#include "collect/drain/nursery.h"

uint64_t blocks_capacity(const struct allocsnap_bpf *bpf)
{
	uint64_t mask = bpf->rodata->settings.nursery_mask;

	return bpf_map__max_entries(bpf->maps.blocks) + (mask ? mask + 1 : 0);
}

/* ---- free filter ---- */

#define ENTRIES_LEAST (1u << 16)
#define ENTRIES_MOST (1u << 22)
#define ENTRIES_FOR_BLOCK 4 /* then at most one in five frees of unknown blocks is looked up */

/* Number of blocks that fit into the physical memory, with this sampling distance or size. */
static uint64_t blocks_expected(uint64_t bytes_each, uint64_t max_blocks)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	uint64_t nr = bytes_each ? memory / bytes_each : max_blocks;

	return nr < max_blocks ? nr : max_blocks;
}

uint32_t free_filter_entries(uint64_t sample_bytes, uint64_t least_size, uint64_t max_blocks)
{
	uint64_t each = sample_bytes > least_size ? sample_bytes : least_size;
	uint64_t wanted = ENTRIES_FOR_BLOCK * blocks_expected(each, max_blocks);
	uint32_t nr = ENTRIES_LEAST;

	while (nr < wanted && nr < ENTRIES_MOST)
		nr *= 2;
	return nr;
}

int free_filter_open(struct free_filter *free_filter, const struct bpf_map *map)
{
	size_t nr = bpf_map__max_entries(map);
	void *counter;

	if (nr == 1)
		return 0;
	counter = mmap(NULL, nr * sizeof(*free_filter->counter), PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(map), 0);
	if (counter == MAP_FAILED)
		return -errno;
	*free_filter = (struct free_filter){ counter, nr - 1 };
	return 0;
}

void free_filter_close(struct free_filter *free_filter)
{
	if (free_filter->counter)
		munmap(free_filter->counter, (free_filter->mask + 1) * sizeof(*free_filter->counter));
	*free_filter = (struct free_filter){};
}

/* Call when these blocks have been deleted. */
static void free_filter_forget(const struct free_filter *free_filter, const struct block_key *key, size_t nr)
{
	for (size_t i = 0; i < nr && free_filter->counter; i++) {
		uint32_t layer = block_key_layer(&key[i]);

		if (layer != LAYER_MAPPING)
			__atomic_fetch_sub(&free_filter->counter[free_filter_slot(key[i].address, layer,
									  free_filter->mask)],
					   1, __ATOMIC_SEQ_CST);
	}
}

/* ---- map reader ---- */

/* Minimum size of the batch that one system call returns; a larger bucket makes it grow (ENOSPC). */
#define BATCH_BYTES (1 << 20)

/* State of reading one map. */
struct map_read {
	int fd;
	bool takes; /* also deletes from the map what it reads */
	struct map_copy *to;
	uint32_t batch;	   /* entries to ask for */
	uint64_t position; /* opaque: set by the kernel */
	bool started;
};

static int reserve_batch(struct map_read *read)
{
	struct map_copy *to = read->to;
	size_t want = to->nr + read->batch;
	int err = array_reserve_bytes(&to->key, &to->key_alloc, want, to->key_bytes);

	return err ?: array_reserve_bytes(&to->value, &to->value_alloc, want, to->value_bytes);
}

/* Makes one system call. 0: call again, 1: the map ends, or a negative errno. */
static int read_map_batch(struct map_read *read)
{
	typeof(bpf_map_lookup_batch) *batch = read->takes ? bpf_map_lookup_and_delete_batch :
							    bpf_map_lookup_batch;
	struct map_copy *to = read->to;
	uint32_t nr = read->batch;
	uint64_t next = 0;
	int err = reserve_batch(read);

	if (err)
		return err;
	err = batch(read->fd, read->started ? &read->position : NULL, &next,
		    (char *)to->key + to->nr * to->key_bytes,
		    (char *)to->value + to->nr * to->value_bytes, &nr, NULL);
	if (err == -ENOSPC) {
		read->batch *= 2;
		return 0;
	}
	if (err && err != -ENOENT)
		return err;
	to->nr += nr;
	read->position = next;
	read->started = true;
	return err ? 1 : 0;
}

static int read_whole_map(struct map_copy *to, int fd, bool takes, size_t key_bytes, size_t value_bytes)
{
	struct map_read read = {
		.fd = fd,
		.takes = takes,
		.to = to,
		.batch = BATCH_BYTES / (key_bytes + value_bytes),
	};
	int err;

	to->nr = 0;
	to->key_bytes = key_bytes;
	to->value_bytes = value_bytes;
	do {
		err = read_map_batch(&read);
	} while (!err || err == -EINTR);
	return err > 0 ? 0 : err;
}

int map_copy_read(struct map_copy *to, int fd, size_t key_bytes, size_t value_bytes)
{
	return read_whole_map(to, fd, false, key_bytes, value_bytes);
}

int map_copy_take(struct map_copy *to, int fd, size_t key_bytes, size_t value_bytes)
{
	return read_whole_map(to, fd, true, key_bytes, value_bytes);
}

int map_copy_add(struct map_copy *copy, const void *key, const void *value)
{
	int err = array_reserve_bytes(&copy->key, &copy->key_alloc, copy->nr + 1, copy->key_bytes);

	err = err ?: array_reserve_bytes(&copy->value, &copy->value_alloc, copy->nr + 1, copy->value_bytes);
	if (err)
		return err;
	memcpy((char *)copy->key + copy->nr * copy->key_bytes, key, copy->key_bytes);
	memcpy((char *)copy->value + copy->nr * copy->value_bytes, value, copy->value_bytes);
	copy->nr++;
	return 0;
}

int drain_read_tracebacks(struct drain *drain, int tracebacks_fd, size_t traceback_bytes)
{
	int err = map_copy_read(&drain->tracebacks, tracebacks_fd, sizeof(uint64_t), traceback_bytes);

	drain->kernel_nr = drain->tracebacks.nr;
	return err;
}

static bool has_ended(const void *ended_, uint64_t image)
{
	const struct ended *ended = ended_;

	return image < ended->next && !bsearch(&image, ended->image, ended->image_nr,
					       sizeof(image), array_by_number);
}

/* Deletes the words on the path to the start of a mapping (bpf/account/starts.bpf.h); its image has ended. */
static void forget_start(int starts_fd, const struct block_key *block)
{
	uint64_t page = block->address >> 12;

	for (uint64_t level = 0; level < START_LEVELS; level++) {
		struct start_key key = { block_key_image(block),
					 page / 64 | level << START_LEVEL_SHIFT };

		bpf_map_delete_elem(starts_fd, &key);
		page /= 64;
	}
}

/*
 * bpf_map_delete_batch() stops at a missing key, for example of a block that was handed over: the loop skips that
 * key.
 */
static int delete_all(int fd, const struct nursery *nursery, const struct free_filter *free_filter,
		      const struct block_key *key, size_t nr)
{
	size_t done = 0;

	while (done < nr) {
		uint32_t deleted = nr - done;
		int err = bpf_map_delete_batch(fd, key + done, &deleted, NULL);

		if (err && err != -ENOENT)
			return err;
		free_filter_forget(free_filter, key + done, deleted);
		nursery_forget(nursery, key + done, deleted);
		done += deleted + !!err;
	}
	return 0;
}

static int delete_chunk(const struct image_blocks *image, const struct block_chunk *chunk,
			const struct allocsnap_bpf *bpf, const struct nursery *nursery,
			const struct free_filter *free_filter)
{
	struct block_key *key = calloc(chunk->nr + 1, sizeof(*key));
	int err = key ? 0 : -ENOMEM;

	for (size_t i = 0; i < chunk->nr && !err; i++)
		key[i] = drained_block_key(image, &chunk->block[i]);
	err = err ?: delete_all(bpf_map__fd(bpf->maps.blocks), nursery, free_filter, key,
				chunk->nr);
	for (size_t i = 0; i < chunk->nr && key; i++)
		if (block_key_layer(&key[i]) == LAYER_MAPPING)
			forget_start(bpf_map__fd(bpf->maps.mapping_starts), &key[i]);
	free(key);
	return err;
}

int drain_sweep(const struct drain *drain, const struct allocsnap_bpf *bpf,
		const struct nursery *nursery, const struct free_filter *free_filter,
		const struct ended *ended)
{
	int err = 0;

	nursery_sweep(nursery, has_ended, ended);

	for (size_t i = 0; i < drain->blocks.image_nr && !err; i++) {
		const struct image_blocks *of = &drain->blocks.image[i];

		if (!has_ended(ended, of->image))
			continue;
		for (const struct block_chunk *chunk = of->chunk; chunk && !err; chunk = chunk->next)
			err = delete_chunk(of, chunk, bpf, nursery, free_filter);
	}
	return err;
}

int drain_sweep_dropped(int dropped_fd, const struct free_filter *free_filter, const struct ended *ended)
{
	struct map_copy notes = {};
	int err = map_copy_read(&notes, dropped_fd, sizeof(struct block_key), sizeof(uint64_t));
	struct block_key *key = notes.key;
	size_t nr = 0;

	for (size_t i = 0; i < notes.nr; i++)
		if (has_ended(ended, block_key_image(&key[i])))
			key[nr++] = key[i];
	err = err ?: delete_all(dropped_fd, &(struct nursery){}, free_filter, key, nr);
	map_copy_release(&notes);
	return err;
}

static bool same_id(uint32_t i, const void *key, const void *table)
{
	return drain_traceback_id(table, i) == *(const uint64_t *)key;
}

static void mark_chunk(const struct drain *drain, const struct block_chunk *chunk,
		       const struct idmap *ids, bool *is_used)
{
	for (size_t i = 0; i < chunk->nr; i++) {
		uint64_t id = chunk->block[i].traceback;
		uint32_t found = idmap_find(ids, hash_number(id), same_id, &id, drain);

		if (found != IDMAP_NONE)
			is_used[found] = true;
	}
}

/* Sets is_used[i] if a block uses traceback i. */
static int mark_used(const struct drain *drain, bool *is_used)
{
	struct idmap ids = {};
	int err = 0;

	for (size_t i = 0; i < drain->tracebacks.nr && !err; i++)
		err = idmap_add(&ids, hash_number(drain_traceback_id(drain, i)), i);
	for (size_t i = 0; i < drain->blocks.image_nr && !err; i++)
		for (const struct block_chunk *chunk = drain->blocks.image[i].chunk; chunk;
		     chunk = chunk->next)
			mark_chunk(drain, chunk, &ids, is_used);
	idmap_release(&ids);
	return err;
}

/* Deletes one traceback at a time, so that the deleted value is the one that is retired. */
static int delete_and_retire_traceback(int fd, uint64_t id, struct traceback *scratch, drain_retire_fn retire,
				       void *what)
{
	int err = bpf_map_lookup_and_delete_elem(fd, &id, scratch);

	if (err)
		return err == -ENOENT ? 0 : err;
	return retire(what, id, scratch);
}

int drain_trim_tracebacks(const struct drain *drain, int tracebacks_fd, drain_retire_fn retire,
			  void *what)
{
	bool *is_used = calloc(drain->tracebacks.nr + 1, sizeof(*is_used));
	struct traceback scratch;
	int err = is_used ? mark_used(drain, is_used) : -ENOMEM;

	for (size_t i = 0; i < drain->kernel_nr && !err; i++)
		if (!is_used[i])
			err = delete_and_retire_traceback(tracebacks_fd, drain_traceback_id(drain, i), &scratch,
							  retire, what);
	free(is_used);
	return err;
}

int drain_forget_tracebacks(int tracebacks_fd, const uint64_t *id, size_t nr, uint64_t *ret_deleted)
{
	size_t done = 0;

	*ret_deleted = 0;
	while (done < nr) {
		uint32_t deleted = nr - done;
		int err = bpf_map_delete_batch(tracebacks_fd, id + done, &deleted, NULL);

		if (err && err != -ENOENT)
			return err;
		*ret_deleted += deleted;
		done += deleted + !!err; /* the kernel stops at a missing id */
	}
	return 0;
}

void map_copy_release(struct map_copy *copy)
{
	free(copy->key);
	free(copy->value);
	memset(copy, 0, sizeof(*copy));
}

void drain_release(struct drain *drain)
{
	drained_blocks_release(&drain->blocks);
	map_copy_release(&drain->tracebacks);
}
