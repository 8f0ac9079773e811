/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_FAKE_ALLOCATORS_H
#define TESTS_UNIT_FAKE_ALLOCATORS_H

/* A part of fake_python.c: its allocators. The address that was freed last is given out first. */

#define SLAB_BYTES (UINT64_C(16) << 20)
#define SLAB_PAGE 4096
#define SLAB_CLASSES (BOOKS_SMALL_MAX / 16 + 1)

static char *slab;
static uint64_t slab_used;
static uint8_t slab_class[SLAB_BYTES / SLAB_PAGE];
static uint64_t slab_free[SLAB_CLASSES]; /* each has the address of the next one */

static bool is_of_slab(const void *block)
{
	return (uint64_t)((const char *)block - slab) < SLAB_BYTES;
}

static void fill_class(uint32_t class)
{
	char *page = slab + slab_used;

	cr_assert(slab_used < SLAB_BYTES);
	slab_class[slab_used / SLAB_PAGE] = class;
	slab_used += SLAB_PAGE;
	for (uint32_t at = 0; at + 16 * class <= SLAB_PAGE; at += 16 * class) {
		put_word((uint64_t)page + at, slab_free[class]);
		slab_free[class] = (uint64_t)page + at;
	}
}

/* As pymalloc, it takes larger ones from the table of the raw domain. */
static void *object_malloc(void *ctx, size_t size)
{
	uint32_t class = (size + 15) / 16 ?: 1;
	uint64_t block;

	if (size > BOOKS_SMALL_MAX)
		return hook_raw_malloc(ctx, size);
	if (!slab_free[class])
		fill_class(class);
	block = slab_free[class];
	slab_free[class] = *(uint64_t *)block;
	return (void *)block;
}

static void *object_calloc(void *ctx, size_t nr, size_t size)
{
	void *block = object_malloc(ctx, nr * size);

	return memset(block, 0, nr * size);
}

static void object_free(void *ctx, void *block)
{
	uint32_t class;

	if (!block || !is_of_slab(block))
		return hook_raw_free(ctx, block);
	class = slab_class[((char *)block - slab) / SLAB_PAGE];
	put_word((uint64_t)block, slab_free[class]);
	slab_free[class] = (uint64_t)block;
}

static void *object_realloc(void *ctx, void *was, size_t size)
{
	uint32_t class;
	void *block;

	if (realloc_fails)
		return NULL;
	if (!was)
		return object_malloc(ctx, size);
	if (!is_of_slab(was))
		return hook_raw_realloc(ctx, was, size);
	class = slab_class[((char *)was - slab) / SLAB_PAGE];
	if (class == (size + 15) / 16)
		return was;
	block = object_malloc(ctx, size);
	object_free(ctx, was);
	return block;
}

static void *raw_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return malloc(size);
}

static void *raw_calloc(void *ctx, size_t nr, size_t size)
{
	(void)ctx;
	return calloc(nr, size);
}

static void *raw_realloc(void *ctx, void *was, size_t size)
{
	(void)ctx;
	return realloc_fails ? NULL : realloc(was, size ?: 1);
}

static void raw_free(void *ctx, void *block)
{
	(void)ctx;
	free(block);
}

#endif
