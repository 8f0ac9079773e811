// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/epoch_cut.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"
#include "collect/bpf.h"
#include "collect/drain/nursery.h"

/* ---- block reader ---- */

#define BATCH 8192 /* blocks for one system call: few enough for the processor's cache */

struct reader {
	const struct blocks_map *map;
	uint64_t position; /* 0: at the start */
	uint64_t last;	   /* epoch */
	uint32_t batch;
	struct block_key *key;
	struct block *block;
	struct drained_blocks *to;
};

static int reserve_batch_memory(struct reader *reader)
{
	free(reader->key);
	free(reader->block);
	reader->key = calloc(reader->batch, sizeof(*reader->key));
	reader->block = calloc(reader->batch, sizeof(*reader->block));
	return reader->key && reader->block ? 0 : -ENOMEM;
}

static int add_blocks_read(struct reader *reader, uint32_t nr)
{
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++)
		if (reader->block[i].epoch <= reader->last)
			err = drained_blocks_add(reader->to, &reader->key[i], &reader->block[i]);
	return err;
}

/* Makes one system call. 0: call again, 1: the end, or a negative errno. */
static int read_blocks_batch(struct reader *reader)
{
	uint64_t next = 0;
	uint32_t nr = reader->batch;
	int end = reader->map->read(reader->map, reader->position ? &reader->position : NULL,
				       &next, reader->key, reader->block, &nr);
	int err;

	if (end == -EINTR)
		return 0;
	if (end == -ENOSPC) { /* a bucket has more entries than that */
		reader->batch *= 2;
		return reserve_batch_memory(reader);
	}
	if (end && end != -ENOENT)
		return end;
	if (!end && next == reader->position)
		return -EIO; /* it would never end */
	err = add_blocks_read(reader, nr);
	reader->position = next;
	return err ?: !!end;
}

int read_blocks(const struct blocks_map *map, uint64_t last, struct drained_blocks *to)
{
	struct reader reader = { .map = map, .last = last, .batch = BATCH, .to = to };
	int err = reserve_batch_memory(&reader);

	while (!err)
		err = read_blocks_batch(&reader);
	free(reader.key);
	free(reader.block);
	return err < 0 ? err : 0;
}

static int lookup_blocks_batch(const struct blocks_map *map, const uint64_t *from, uint64_t *ret_next,
			       struct block_key *key, struct block *block, uint32_t *nr)
{
	return bpf_map_lookup_batch(map->fd, (void *)from, ret_next, key, block, nr, NULL);
}

struct blocks_map blocks_map(int fd)
{
	return (struct blocks_map){ lookup_blocks_batch, fd };
}

/* ---- blocks that are in no map ---- */

static int read_pending_entries(struct cut *cut, int fd)
{
	ssize_t got = 1;

	cut->pending_nr = 0;
	while (got > 0) {
		int err = array_reserve(&cut->pending, &cut->pending_alloc, cut->pending_nr + 64);

		if (err)
			return err;
		got = read(fd, cut->pending + cut->pending_nr, 64 * sizeof(*cut->pending));
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			cut->pending_nr += got / sizeof(*cut->pending);
	}
	return got < 0 ? -errno : 0;
}

static int read_pending(struct cut *cut, const struct allocsnap_bpf *bpf)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.pending_blocks, NULL);
	int fd, err;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? fd : read_pending_entries(cut, fd);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

/* ---- one set of all blocks, each once ---- */

static uint64_t hash_of(const struct block_key *key)
{
	return hash_bytes(key, sizeof(*key), 0);
}

/* The blocks found outside the map of blocks. */
struct others {
	const struct cut *cut;
	struct idmap ids; /* into cut->pending */
};

struct other_key {
	const struct block_key *key;
	uint64_t birth_ns;
};

/*
 * Compares place and birth: while a realloc is running, the address of its block may already belong to another
 * block.
 */
static bool same_pending(uint32_t i, const void *key, const void *table)
{
	const struct pending_block *one = (const struct pending_block *)table + i;
	const struct other_key *other = key;

	return !memcmp(&one->key, other->key, sizeof(one->key)) &&
	       one->block.birth_ns == other->birth_ns;
}

static bool is_new(const void *others_, const struct block_key *key, uint64_t birth_ns)
{
	const struct others *others = others_;
	const struct other_key other = { key, birth_ns };

	return idmap_find(&others->ids, hash_of(key), same_pending, &other, others->cut->pending) ==
	       IDMAP_NONE;
}

/* Gathers all blocks found outside the map, each once, in cut->pending. */
static int gather_others(struct cut *cut, uint64_t last, struct others *others)
{
	const struct handed_key *key = cut->handed.key;
	const struct handed_block *handed = cut->handed.value;
	size_t read_nr = cut->pending_nr;
	int err = array_reserve(&cut->pending, &cut->pending_alloc, read_nr + cut->handed.nr);

	cut->pending_nr = 0;
	for (size_t i = 0; i < read_nr + cut->handed.nr && !err; i++) {
		bool is_read = i < read_nr;
		struct pending_block block = is_read ? cut->pending[i] :
			(struct pending_block){ key[i - read_nr].key, handed[i - read_nr].block };

		if ((!is_read && handed[i - read_nr].left <= last) || block.block.epoch > last ||
		    !is_new(others, &block.key, block.block.birth_ns))
			continue;
		cut->pending[cut->pending_nr] = block;
		err = idmap_add(&others->ids, hash_of(&block.key), cut->pending_nr++);
	}
	return err;
}

static int unite_blocks(struct cut *cut, struct drained_blocks *blocks, uint64_t last)
{
	struct others others = { .cut = cut };
	int err = gather_others(cut, last, &others);

	if (!err && others.ids.nr)
		drained_blocks_filter(blocks, is_new, &others);
	for (size_t i = 0; i < cut->pending_nr && !err; i++)
		err = drained_blocks_add(blocks, &cut->pending[i].key, &cut->pending[i].block);
	idmap_release(&others.ids);
	return err;
}

/* ---- the cut ---- */

static void store_shared(__u64 *where, uint64_t value)
{
	__atomic_store_n(where, value, __ATOMIC_SEQ_CST);
}

int cut_read_blocks(struct cut *cut, const struct allocsnap_bpf *bpf, const struct nursery *nursery,
		    struct drain *drain)
{
	const struct blocks_map map = blocks_map(bpf_map__fd(bpf->maps.blocks));
	uint64_t last = bpf->data->epoch;
	int err;

	drained_blocks_release(&drain->blocks);
	store_shared(&bpf->bss->cut, last);
	store_shared(&bpf->data->epoch, last + 1);
	err = grace_wait(&cut->grace);
	if (!err) /* before the map is read, because blocks move from the nursery to the map */
		err = nursery_read(nursery, last, &drain->blocks);
	err = err ?: read_blocks(&map, last, &drain->blocks) ?: read_pending(cut, bpf);
	store_shared(&bpf->bss->cut, 0);
	err = err ?: map_copy_take(&cut->handed, bpf_map__fd(bpf->maps.handed_blocks),
				   sizeof(struct handed_key), sizeof(struct handed_block));
	err = err ?: unite_blocks(cut, &drain->blocks, last);
	return err;
}

static void grace_release(struct grace *grace)
{
	if (grace->outer_fd) {
		close(grace->outer_fd);
		close(grace->inner_fd);
	}
	*grace = (struct grace){};
}

void cut_release(struct cut *cut)
{
	grace_release(&cut->grace);
	map_copy_release(&cut->handed);
	free(cut->pending);
	memset(cut, 0, sizeof(*cut));
}

/* ---- grace ---- */

int grace_make(struct grace *grace)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	int inner, outer;

	if (grace->outer_fd)
		return 0;
	inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "allocsnap_in", 4, 8, 1, NULL);
	if (inner < 0)
		return inner;
	options.inner_map_fd = inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "allocsnap_out", 4, 4, 1, &options);
	if (outer < 0) {
		close(inner);
		return outer;
	}
	*grace = (struct grace){ inner, outer };
	return 0;
}

/*
 * After each change of a map of maps the kernel waits until the running programs have ended
 * (kernel/bpf/syscall.c, maybe_wait_bpf_programs(); commit 1ae80cf31938).
 */
int grace_wait(struct grace *grace)
{
	uint32_t first = 0;
	int err = grace_make(grace);

	return err ?: bpf_map_update_elem(grace->outer_fd, &first, &grace->inner_fd, BPF_ANY);
}

