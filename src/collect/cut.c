// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/cut.h"

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

/* ---- the grace period ---- */

static int make_maps(struct cut *cut)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "allocsnap_in", 4, 8, 1, NULL), outer;

	if (inner < 0)
		return inner;
	options.inner_map_fd = inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "allocsnap_out", 4, 4, 1, &options);
	if (outer < 0) {
		close(inner);
		return outer;
	}
	cut->inner_fd = inner;
	cut->outer_fd = outer;
	return 0;
}

/*
 * Returns when the programs that run now have ended. For this the kernel waits after each change of a
 * map of maps (kernel/bpf/syscall.c, maybe_wait_bpf_programs(); commit 1ae80cf31938).
 */
static int wait_for_programs(struct cut *cut)
{
	uint32_t first = 0;
	int err = cut->outer_fd ? 0 : make_maps(cut);

	return err ?: bpf_map_update_elem(cut->outer_fd, &first, &cut->inner_fd, BPF_ANY);
}

/* ---- what is in no map ---- */

static int read_all(struct cut *cut, int fd)
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
	err = fd < 0 ? fd : read_all(cut, fd);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

/* ---- one set ---- */

static uint64_t hash_of(const struct block_key *key)
{
	return hash_bytes(key, sizeof(*key), 0);
}

/* By place and birth: while a realloc is not over, its block's address may be another block's. */
static bool same_pending(uint32_t i, const void *key, const void *table)
{
	const struct pending_block *one = (const struct pending_block *)table + i, *other = key;

	return !memcmp(&one->key, &other->key, sizeof(one->key)) &&
	       one->block.birth_ns == other->block.birth_ns;
}

static bool is_among(const struct cut *cut, const struct idmap *ids,
		     const struct pending_block *block)
{
	return ids->nr && idmap_find(ids, hash_of(&block->key), same_pending, block,
				     cut->pending) != IDMAP_NONE;
}

/* All that was found elsewhere than in the map of blocks, each once, in cut->pending. */
static int gather(struct cut *cut, uint64_t last, struct idmap *ids)
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
		    is_among(cut, ids, &block))
			continue;
		cut->pending[cut->pending_nr] = block;
		err = idmap_add(ids, hash_of(&block.key), cut->pending_nr++);
	}
	return err;
}

/* Leaves out what was born after the cut, and in the map what is among the others. */
static size_t keep_of_map(const struct cut *cut, const struct drain *drain, uint64_t last,
			  const struct idmap *ids)
{
	struct block_key *key = drain->blocks.key;
	struct block *block = drain->blocks.value;
	size_t kept = 0;

	for (size_t i = 0; i < drain->blocks.nr; i++) {
		if (block[i].epoch > last ||
		    is_among(cut, ids, &(struct pending_block){ key[i], block[i] }))
			continue;
		key[kept] = key[i];
		block[kept++] = block[i];
	}
	return kept;
}

static int unite(struct cut *cut, struct drain *drain, uint64_t last)
{
	struct idmap ids = {};
	int err = gather(cut, last, &ids);

	if (!err)
		drain->blocks.nr = keep_of_map(cut, drain, last, &ids);
	for (size_t i = 0; i < cut->pending_nr && !err; i++)
		err = map_copy_add(&drain->blocks, &cut->pending[i].key, &cut->pending[i].block);
	idmap_release(&ids);
	return err;
}

/* ---- the cut ---- */

static void set(__u64 *where, uint64_t value)
{
	__atomic_store_n(where, value, __ATOMIC_SEQ_CST);
}

int cut_read_blocks(struct cut *cut, const struct allocsnap_bpf *bpf, struct drain *drain)
{
	uint64_t last = bpf->data->epoch;
	int err;

	set(&bpf->bss->cut, last);
	set(&bpf->data->epoch, last + 1);
	err = wait_for_programs(cut);
	if (!err)
		err = map_copy_read(&drain->blocks, bpf_map__fd(bpf->maps.blocks),
				    sizeof(struct block_key), sizeof(struct block));
	if (!err)
		err = read_pending(cut, bpf);
	set(&bpf->bss->cut, 0);
	if (!err)
		err = map_copy_take(&cut->handed, bpf_map__fd(bpf->maps.handed_blocks),
				    sizeof(struct handed_key), sizeof(struct handed_block));
	return err ?: unite(cut, drain, last);
}

void cut_release(struct cut *cut)
{
	if (cut->outer_fd) {
		close(cut->outer_fd);
		close(cut->inner_fd);
	}
	map_copy_release(&cut->handed);
	free(cut->pending);
	memset(cut, 0, sizeof(*cut));
}
