// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/block_reader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/parallel.h"

#define BATCH 8192	 /* blocks for one system call: few enough for the processor's cache */
#define BORDER_BATCH 256 /* near the middle */

struct reader {
	const struct block_source *source;
	uint64_t position, end; /* bucket numbers; UINT64_MAX: read to the end */
	uint64_t last;		/* epoch */
	uint32_t batch, border_batch;
	struct block_key *key;
	struct block *block;
	struct drained_blocks *to;
	struct blocks_read *all;
	int err;
};

static int reserve_batch_memory(struct reader *reader)
{
	free(reader->key);
	free(reader->block);
	reader->key = calloc(reader->batch, sizeof(*reader->key));
	reader->block = calloc(reader->batch, sizeof(*reader->block));
	return reader->key && reader->block ? 0 : -ENOMEM;
}

/* Batches get smaller towards the middle, so that the last one extends only a little beyond it. */
static uint32_t next_batch(const struct reader *reader)
{
	uint64_t left = reader->end - reader->position;

	if (reader->end >= reader->source->bucket_nr || left >= 2 * reader->batch)
		return reader->batch;
	return left / 2 < reader->border_batch ? reader->border_batch : left / 2;
}

/* Call when a bucket has more entries than were requested. */
static int ask_for_more(struct reader *reader, uint32_t asked)
{
	if (asked < reader->batch) {
		reader->border_batch *= 2;
		if (reader->border_batch < reader->batch)
			return 0;
	}
	reader->batch *= 2;
	return reserve_batch_memory(reader);
}

static int add_border(struct blocks_read *all, const struct block_key *key,
		      const struct block *block)
{
	struct pending_block both = { .key = *key, .block = *block };

	return array_push(all, border, both);
}

static int add_blocks_read(struct reader *reader, uint32_t nr, bool is_border)
{
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++) {
		if (reader->block[i].epoch > reader->last)
			continue;
		if (is_border)
			err = add_border(reader->all, &reader->key[i], &reader->block[i]);
		else
			err = drained_blocks_add(reader->to, &reader->key[i], &reader->block[i]);
	}
	return err;
}

/*
 * Makes one system call. 0: call again, 1: the end, or a negative errno; -ERANGE: positions are not bucket
 * numbers.
 */
static int read_blocks_batch(struct reader *reader)
{
	uint64_t bucket_nr = reader->source->bucket_nr, next = 0;
	uint32_t asked = next_batch(reader), nr = asked;
	int end = reader->source->read(reader->source, reader->position ? &reader->position : NULL,
				       &next, reader->key, reader->block, &nr);
	int err;

	if (end == -EINTR)
		return 0;
	if (end == -ENOSPC)
		return ask_for_more(reader, asked);
	if (end && end != -ENOENT)
		return end;
	if (!end && bucket_nr && (next <= reader->position || next >= bucket_nr))
		return -ERANGE;
	if (!end && next == reader->position)
		return -EIO; /* it would never end */
	err = add_blocks_read(reader, nr, reader->end < bucket_nr && (end || next > reader->end));
	reader->position = next;
	return err ?: end || next >= reader->end;
}

static void read_range(void *reader_)
{
	struct reader *reader = reader_;
	int err;

	reader->batch = BATCH;
	reader->border_batch = BORDER_BATCH;
	err = reserve_batch_memory(reader);
	while (!err)
		err = read_blocks_batch(reader);
	reader->err = err < 0 ? err : 0;
	free(reader->key);
	free(reader->block);
}

static int read_by_one(const struct block_source *source, uint64_t last, struct blocks_read *ret)
{
	struct block_source plain = *source;
	struct reader reader = {
		.source = &plain,
		.end = UINT64_MAX,
		.last = last,
		.to = &ret->part[0],
		.all = ret,
	};

	plain.bucket_nr = 0;
	read_range(&reader);
	return reader.err;
}

static int read_by_two(const struct block_source *source, uint64_t last, struct blocks_read *ret)
{
	uint64_t middle = source->bucket_nr / 2;
	struct reader reader[2];

	for (int i = 0; i < 2; i++)
		reader[i] = (struct reader){
			.source = source,
			.position = i ? middle : 0,
			.end = i ? source->bucket_nr : middle,
			.last = last,
			.to = &ret->part[i],
			.all = ret,
		};
	run_both(read_range, &reader[0], &reader[1]);
	return reader[0].err ?: reader[1].err;
}

int read_blocks(const struct block_source *source, uint64_t last, struct blocks_read *ret)
{
	int err;

	*ret = (struct blocks_read){};
	if (source->bucket_nr < 2)
		return read_by_one(source, last, ret);
	err = read_by_two(source, last, ret);
	if (err != -ERANGE)
		return err;
	blocks_read_release(ret);
	return read_by_one(source, last, ret);
}

void blocks_read_release(struct blocks_read *read)
{
	drained_blocks_release(&read->part[0]);
	drained_blocks_release(&read->part[1]);
	free(read->border);
	*read = (struct blocks_read){};
}

/* ---- maps ---- */

static int lookup_blocks_batch(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
			       struct block_key *key, struct block *block, uint32_t *nr)
{
	return bpf_map_lookup_batch(source->fd, (void *)from, ret_next, key, block, nr, NULL);
}

/* The kernel has as many buckets as entries, rounded up to a power of two. */
static uint64_t buckets_of(uint32_t max_entries)
{
	uint64_t nr = 1;

	while (nr < max_entries)
		nr *= 2;
	return nr;
}

struct block_source block_source(int fd, uint32_t max_entries)
{
	return (struct block_source){ lookup_blocks_batch, buckets_of(max_entries), fd };
}

/* ---- testing the kernel ---- */

#define TRIED 1500

static int fill_test_map(int fd)
{
	int err = 0;

	for (uint64_t i = 1; i <= TRIED && !err; i++)
		err = bpf_map_update_elem(fd, &(struct block_key){ .address = i },
					  &(struct block){ .size = i }, BPF_ANY);
	return err;
}

static void mark_part(const struct drained_blocks *part, uint8_t *is_found)
{
	const struct image_blocks *image = drained_blocks_of(part, 0);

	for (const struct block_chunk *chunk = image ? image->chunk : NULL; chunk; chunk = chunk->next)
		for (size_t i = 0; i < chunk->nr; i++)
			is_found[chunk->block[i].address % (TRIED + 1)]++;
}

/* Each entry must be in one part only, and at most once in the border. */
static bool all_is_found(const struct blocks_read *read)
{
	uint8_t in_part[TRIED + 1] = {}, in_border[TRIED + 1] = {};

	for (int i = 0; i < 2; i++)
		mark_part(&read->part[i], in_part);
	for (size_t i = 0; i < read->border_nr; i++)
		in_border[read->border[i].key.address % (TRIED + 1)]++;
	for (int i = 1; i <= TRIED; i++)
		if (in_part[i] > 1 || in_border[i] > 1 || in_part[i] + in_border[i] == 0)
			return false;
	return true;
}

bool block_source_has_positions(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "allocsnap_try", sizeof(struct block_key),
				sizeof(struct block), TRIED, &options);
	struct block_source source = block_source(fd, TRIED);
	struct blocks_read read = {};
	bool has;

	if (fd < 0)
		return false;
	has = !fill_test_map(fd) && !read_by_two(&source, 0, &read) && all_is_found(&read);
	blocks_read_release(&read);
	close(fd);
	return has;
}
