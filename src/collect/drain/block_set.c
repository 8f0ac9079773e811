// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/block_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define ROOM_LEAST 62 /* blocks in the smallest chunk: 2,512 bytes */
#define CHUNK_MOST ((4u << 20) - 64) /* bytes */

static size_t chunk_bytes(size_t room)
{
	return sizeof(struct block_chunk) + room * sizeof(struct drained_block);
}

static bool same_image(uint32_t id, const void *key, const void *blocks)
{
	return ((const struct drained_blocks *)blocks)->image[id].image == *(const uint64_t *)key;
}

static uint32_t find_image(const struct drained_blocks *blocks, uint64_t image)
{
	return idmap_find(&blocks->ids, hash_bytes(&image, sizeof(image), 0), same_image, &image,
			  blocks);
}

const struct image_blocks *drained_blocks_of(const struct drained_blocks *blocks, uint64_t image)
{
	uint32_t id = find_image(blocks, image);

	return id == IDMAP_NONE ? NULL : &blocks->image[id];
}

static int add_image(struct drained_blocks *blocks, uint64_t image)
{
	struct image_blocks added = { .image = image };
	int err = array_push(blocks, image, added);

	if (err)
		return err;
	err = idmap_add(&blocks->ids, hash_bytes(&image, sizeof(image), 0), blocks->image_nr - 1);
	if (err)
		blocks->image_nr--;
	return err;
}

/* Finds or adds an image. NULL: out of memory. */
static struct image_blocks *image_of(struct drained_blocks *blocks, uint64_t image)
{
	uint32_t id;

	if (blocks->latest < blocks->image_nr && blocks->image[blocks->latest].image == image)
		return &blocks->image[blocks->latest];
	id = find_image(blocks, image);
	if (id == IDMAP_NONE) {
		if (add_image(blocks, image))
			return NULL;
		id = blocks->image_nr - 1;
	}
	blocks->latest = id;
	return &blocks->image[id];
}

/* A new chunk is as large as all earlier ones together, so that at least half of the allocated memory is used. */
static int add_chunk(struct image_blocks *image)
{
	size_t most = (CHUNK_MOST - sizeof(struct block_chunk)) / sizeof(struct drained_block);
	size_t room = image->nr < ROOM_LEAST ? ROOM_LEAST : image->nr;
	struct block_chunk *chunk;

	room = room > most ? most : room;
	chunk = huge_pages_new(chunk_bytes(room));
	if (!chunk)
		return -ENOMEM;
	chunk->room = room;
	chunk->weight = NULL;
	chunk->next = image->chunk;
	image->chunk = chunk;
	return 0;
}

/* Few processes report weights: only their chunks have room for weights. */
static int set_weight(struct block_chunk *chunk, size_t at, uint64_t weight)
{
	if (!weight && !chunk->weight)
		return 0;
	if (!chunk->weight)
		chunk->weight = calloc(chunk->room, sizeof(*chunk->weight));
	if (!chunk->weight)
		return -ENOMEM;
	chunk->weight[at] = weight;
	return 0;
}

int drained_blocks_add(struct drained_blocks *blocks, const struct block_key *key,
		       const struct block *block)
{
	struct image_blocks *image = image_of(blocks, block_key_image(key));

	if (!image)
		return -ENOMEM;
	if ((!image->chunk || image->chunk->nr == image->chunk->room) && add_chunk(image))
		return -ENOMEM;
	if (set_weight(image->chunk, image->chunk->nr, block->weight))
		return -ENOMEM;
	image->nr++;
	image->chunk->block[image->chunk->nr++] = (struct drained_block){
		.address = key->address,
		.size = block->size,
		.traceback = block->traceback,
		.birth_ns = block->birth_ns,
		.thread = block->thread,
		.rate = block->rate,
		.domain = block->domain,
		.layer = block_key_layer(key),
	};
	return 0;
}

struct block_key drained_block_key(const struct image_blocks *image,
				   const struct drained_block *block)
{
	return block_key_of(block->address, image->image, block->layer);
}

static void filter_image(struct image_blocks *image, drained_blocks_keep_fn keep, const void *what)
{
	for (struct block_chunk *chunk = image->chunk; chunk; chunk = chunk->next) {
		size_t kept = 0;

		for (size_t i = 0; i < chunk->nr; i++) {
			struct block_key key = drained_block_key(image, &chunk->block[i]);

			if (!keep(what, &key, chunk->block[i].birth_ns))
				continue;
			if (chunk->weight)
				chunk->weight[kept] = chunk->weight[i];
			chunk->block[kept++] = chunk->block[i];
		}
		image->nr -= chunk->nr - kept;
		chunk->nr = kept;
	}
}

void drained_blocks_filter(struct drained_blocks *blocks, drained_blocks_keep_fn keep,
			   const void *what)
{
	for (size_t i = 0; i < blocks->image_nr; i++)
		filter_image(&blocks->image[i], keep, what);
}

void drained_blocks_release(struct drained_blocks *blocks)
{
	for (size_t i = 0; i < blocks->image_nr; i++)
		while (blocks->image[i].chunk) {
			struct block_chunk *chunk = blocks->image[i].chunk;

			blocks->image[i].chunk = chunk->next;
			free(chunk->weight);
			huge_pages_free(chunk, chunk_bytes(chunk->room));
		}
	free(blocks->image);
	idmap_release(&blocks->ids);
	memset(blocks, 0, sizeof(*blocks));
}
