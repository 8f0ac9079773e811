// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/block_reader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#define BATCH 8192 /* blocks for one system call: few enough for the processor's cache */

struct reader {
	const struct block_source *source;
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
	int end = reader->source->read(reader->source, reader->position ? &reader->position : NULL,
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

int read_blocks(const struct block_source *source, uint64_t last, struct drained_blocks *to)
{
	struct reader reader = { .source = source, .last = last, .batch = BATCH, .to = to };
	int err = reserve_batch_memory(&reader);

	while (!err)
		err = read_blocks_batch(&reader);
	free(reader.key);
	free(reader.block);
	return err < 0 ? err : 0;
}

static int lookup_blocks_batch(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
			       struct block_key *key, struct block *block, uint32_t *nr)
{
	return bpf_map_lookup_batch(source->fd, (void *)from, ret_next, key, block, nr, NULL);
}

struct block_source block_source(int fd)
{
	return (struct block_source){ lookup_blocks_batch, fd };
}
