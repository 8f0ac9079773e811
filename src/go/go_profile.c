// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "go/go_profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"

#define PAGE 4096
#define PAGE_IS_THERE (UINT64_C(3) << 62) /* in memory, or swapped out */
#define BLOCK_PAGES 4			  /* so many are read at once */
#define BLOCK_BYTES (PAGE * BLOCK_PAGES)
#define BLOCKS_MAX 16384 /* 256 MiB: a million buckets of 20 frames */
#define PCS_MAX (1u << 24)
#define ZEROED_MAX (UINT64_C(1) << 30)
#define SEARCHED_MAX (8 * BLOCKS_MAX) /* 2 GiB: each word of a hostile program may lead to another block */
#define WALKS_MAX 20
#define TOP (UINT64_C(1) << 48) /* of arm64; x86-64 has half of it */

/* ---- memory, as one look sees it ---- */

struct memory_block {
	uint64_t address;
	uint32_t there; /* a bit for each page that could be read */
	uint8_t byte[BLOCK_BYTES];
};

struct view {
	const struct go_memory *memory;
	struct memory_block **block;
	size_t block_nr, block_alloc;
	struct idmap ids;
	struct memory_block *last;
};

static void view_release(struct view *view)
{
	for (size_t i = 0; i < view->block_nr; i++)
		free(view->block[i]);
	free(view->block);
	idmap_release(&view->ids);
	*view = (struct view){ .memory = view->memory };
}

/* Reads the pages of a block that are there, together where they lie together. */
static void read_memory_block(const struct go_memory *memory, struct memory_block *block)
{
	uint64_t entry[BLOCK_PAGES];

	block->there = 0;
	if (memory->pages(memory->process, block->address, entry, BLOCK_PAGES))
		return;
	for (unsigned int i = 0, end; i < BLOCK_PAGES; i = end + 1) {
		for (end = i; end < BLOCK_PAGES && entry[end] & PAGE_IS_THERE; end++)
			continue;
		if (end > i && !memory->read(memory->process, block->address + i * PAGE, block->byte + i * PAGE, (end - i) * PAGE))
			block->there |= (1u << end) - (1u << i);
	}
}

static bool is_block(uint32_t id, const void *address, const void *view)
{
	return ((const struct view *)view)->block[id]->address == *(const uint64_t *)address;
}

/* 0, -ENOMEM, or -E2BIG: too much was read already. */
static int find_memory_block(struct view *view, uint64_t address, struct memory_block **ret)
{
	uint64_t hash = hash_bytes(&address, sizeof(address), 0);
	uint32_t id = view->last && view->last->address == address ? IDMAP_NONE : idmap_find(&view->ids, hash, is_block, &address, view);
	struct memory_block *block;
	int err;

	if (id != IDMAP_NONE)
		view->last = view->block[id];
	*ret = view->last;
	if (view->last && view->last->address == address)
		return 0;
	block = view->block_nr < BLOCKS_MAX ? malloc(sizeof(*block)) : NULL;
	if (!block)
		return view->block_nr < BLOCKS_MAX ? -ENOMEM : -E2BIG;
	block->address = address;
	read_memory_block(view->memory, block);
	err = array_push(view, block, block);
	if (err) {
		free(block);
		return err;
	}
	*ret = view->last = block;
	return idmap_add(&view->ids, hash, view->block_nr - 1);
}

/* 0, -EFAULT: not all of it is there; -ENOMEM or -E2BIG. */
static int view_read(struct view *view, uint64_t address, void *to, size_t bytes)
{
	int err = address < TOP ? 0 : -EFAULT;

	for (size_t done = 0, some; !err && done < bytes; done += some) {
		size_t into = (address + done) % PAGE, page = (address + done) % BLOCK_BYTES / PAGE;
		struct memory_block *block;

		some = bytes - done < PAGE - into ? bytes - done : PAGE - into;
		err = find_memory_block(view, (address + done) & -(uint64_t)BLOCK_BYTES, &block);
		if (!err && !(block->there >> page & 1))
			err = -EFAULT;
		if (!err)
			memcpy((char *)to + done, block->byte + page * PAGE + into, some);
	}
	return err;
}

/* ---- a bucket ---- */

enum bucket_word { BUCKET_NEXT, BUCKET_ALLNEXT, BUCKET_TYPE, BUCKET_HASH, BUCKET_SIZE, BUCKET_FRAMES, BUCKET_WORDS };

#define TYPE_OF_MEMORY 1
#define CYCLES 4 /* active, and the futures */
#define RECORD_WORDS_MAX (CYCLES * 4)

/* A cycle has two counts; until Go 1.26 two sums of bytes follow. */
enum layout { LAYOUT_WITH_BYTES, LAYOUT_COUNTS_ONLY, LAYOUT_NR };

static const uint8_t words_of_cycle[LAYOUT_NR] = { 4, 2 };

struct raw_bucket {
	uint64_t address, word[BUCKET_WORDS], record[RECORD_WORDS_MAX];
	uint32_t record_nr; /* words that could be read */
	size_t first;	    /* of its frames */
};

static bool is_head_of_bucket(const uint64_t word[BUCKET_WORDS])
{
	return word[BUCKET_TYPE] == TYPE_OF_MEMORY && word[BUCKET_FRAMES] <= GO_FRAMES_MAX && word[BUCKET_SIZE] &&
	       word[BUCKET_SIZE] < TOP && !(word[BUCKET_ALLNEXT] % 8) && word[BUCKET_ALLNEXT] < TOP;
}

static bool are_in_code(const struct go_places *places, const uint64_t *pc, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (pc[i] < places->code || pc[i] > places->code_end + 1)
			return false;
	return true;
}

/*
 * Reads a bucket into *ret, with room for GO_FRAMES_MAX frames. The record of the shorter layout may lie at the end of what can be
 * read. 0; -ENOENT: it is no bucket; or as view_read() but -EFAULT.
 */
static int read_bucket(struct view *view, const struct go_places *places, uint64_t at, uint64_t *pc, struct raw_bucket *ret)
{
	uint64_t record;
	int err = at % 8 ? -EFAULT : view_read(view, at, ret->word, sizeof(ret->word));

	if (!err && !is_head_of_bucket(ret->word))
		err = -EFAULT;
	err = err ?: view_read(view, at + sizeof(ret->word), pc, ret->word[BUCKET_FRAMES] * sizeof(*pc));
	if (!err && !are_in_code(places, pc, ret->word[BUCKET_FRAMES]))
		err = -EFAULT;
	if (err)
		return err == -EFAULT ? -ENOENT : err;
	ret->address = at;
	record = at + sizeof(ret->word) + ret->word[BUCKET_FRAMES] * sizeof(*pc);
	for (int layout = 0; layout < LAYOUT_NR; layout++) {
		ret->record_nr = CYCLES * words_of_cycle[layout];
		err = view_read(view, record, ret->record, ret->record_nr * sizeof(*ret->record));
		if (err != -EFAULT)
			return err;
	}
	return -ENOENT;
}

/* ---- the search ---- */

/* A pointer to bytes that lie in no page is no pointer to a bucket: most are refused at the first look. */
static int search_page(struct view *view, const struct go_places *places, uint64_t start, uint64_t end, uint64_t *ret)
{
	uint64_t word[PAGE / 8], pc[GO_FRAMES_MAX];
	struct raw_bucket bucket;
	int err = view_read(view, start, word, end - start);

	if (err)
		return err == -EFAULT ? -ENOENT : err;
	for (size_t i = 0; i < (end - start) / 8; i++) {
		if (word[i] % 8 || word[i] < PAGE || word[i] >= TOP)
			continue;
		err = read_bucket(view, places, word[i], pc, &bucket);
		*ret = start + i * 8;
		if (err != -ENOENT && (err || bucket.word[BUCKET_FRAMES])) /* without frames it says too little of itself */
			return err;
	}
	return -ENOENT;
}

/* Reads a variable before the memory that it leads to, as the program may have made that meanwhile: each page has its own view. */
static int search_range(const struct go_memory *memory, const struct go_places *places, uint64_t start, uint64_t end, uint64_t *ret)
{
	size_t read_nr = 0;
	int err = -ENOENT;

	if (start % 8 || end < start || end - start > ZEROED_MAX)
		return -ENOENT;
	for (uint64_t at = start, next; at < end && err == -ENOENT; at = next) {
		struct view view = { .memory = memory };

		next = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end & -UINT64_C(8);
		if (next <= at)
			break;
		err = search_page(&view, places, at, next, ret);
		read_nr += view.block_nr;
		view_release(&view);
		if (err == -ENOENT && read_nr >= SEARCHED_MAX)
			err = -E2BIG;
	}
	return err;
}

int go_profile_find(const struct go_memory *memory, const struct go_places *places, uint64_t *ret_mbuckets)
{
	int err = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places->zeroed) && err == -ENOENT; i++)
		err = search_range(memory, places, places->zeroed[i].start, places->zeroed[i].end, ret_mbuckets);
	return err;
}

/* ---- a walk ---- */

struct walk {
	struct raw_bucket *raw;
	size_t raw_nr, raw_alloc;
	uint64_t *pc;
	size_t pc_nr, pc_alloc;
};

static void walk_release(struct walk *walk)
{
	free(walk->raw);
	free(walk->pc);
	*walk = (struct walk){};
}

/* -EPROTO: it leads to something else. Brent: `seen` moves on at powers of two, so that a circle meets it. */
static int walk_buckets(struct view *view, const struct go_places *places, uint64_t mbuckets, struct walk *ret)
{
	uint64_t at, seen = 0;
	int err = view_read(view, mbuckets, &at, sizeof(at));

	while (!err && at) {
		struct raw_bucket raw;

		if (at == seen || ret->raw_nr == GO_BUCKETS_MAX || ret->pc_nr > PCS_MAX)
			return -EPROTO;
		if (!(ret->raw_nr & (ret->raw_nr - 1)))
			seen = at;
		err = array_reserve(&ret->pc, &ret->pc_alloc, ret->pc_nr + GO_FRAMES_MAX);
		err = err ?: read_bucket(view, places, at, ret->pc + ret->pc_nr, &raw);
		if (err)
			break;
		raw.first = ret->pc_nr;
		ret->pc_nr += raw.word[BUCKET_FRAMES];
		at = raw.word[BUCKET_ALLNEXT];
		err = array_push(ret, raw, raw);
	}
	return err == -ENOENT || err == -E2BIG ? -EPROTO : err;
}

/* ---- which layout it is ---- */

static struct go_counts cycle_of(const struct raw_bucket *raw, enum layout layout, unsigned int cycle)
{
	const uint64_t *word = raw->record + cycle * words_of_cycle[layout];

	return (struct go_counts){ word[0], word[1] };
}

static struct go_counts sum_of_cycles(const struct raw_bucket *raw, enum layout layout)
{
	struct go_counts sum = {};

	for (unsigned int i = 0; i < CYCLES; i++) {
		struct go_counts cycle = cycle_of(raw, layout, i);

		sum.allocations += cycle.allocations;
		sum.frees += cycle.frees;
	}
	return sum;
}

/* No block is freed that was not allocated. A count of 2^48 is none. */
static bool are_counts(const struct raw_bucket *raw, enum layout layout)
{
	struct go_counts active = cycle_of(raw, layout, 0), now = sum_of_cycles(raw, layout);

	for (unsigned int i = 0; i < CYCLES; i++)
		if (cycle_of(raw, layout, i).allocations >= TOP || cycle_of(raw, layout, i).frees >= TOP)
			return false;
	return active.frees <= active.allocations && now.frees <= now.allocations;
}

/* The sums of bytes are the counts times the size, as all blocks of a bucket have one size. */
static bool are_bytes(const struct raw_bucket *raw)
{
	for (unsigned int i = 0; i < CYCLES; i++) {
		const uint64_t *word = raw->record + i * words_of_cycle[LAYOUT_WITH_BYTES];

		if (word[2] != word[0] * raw->word[BUCKET_SIZE] || word[3] != word[1] * raw->word[BUCKET_SIZE])
			return false;
	}
	return true;
}

static bool fits(const struct raw_bucket *raw, enum layout layout)
{
	return raw->record_nr >= CYCLES * words_of_cycle[layout] && are_counts(raw, layout) &&
	       (layout == LAYOUT_COUNTS_ONLY || are_bytes(raw));
}

static uint64_t end_of_bucket(const struct raw_bucket *raw, enum layout layout)
{
	return raw->address + (BUCKET_WORDS + raw->word[BUCKET_FRAMES] + CYCLES * words_of_cycle[layout]) * 8;
}

/* The runtime lays buckets one behind the other: none reaches into the next, and some touch it. walk: by address. */
static bool have_room(const struct walk *walk, enum layout layout, bool *ret_touch)
{
	for (size_t i = 0; i + 1 < walk->raw_nr; i++) {
		uint64_t end = end_of_bucket(&walk->raw[i], layout);

		if (end > walk->raw[i + 1].address)
			return false;
		*ret_touch |= end == walk->raw[i + 1].address;
	}
	return true;
}

/* Whether it may be one with sums of bytes, of which a count is written, and its sum not yet. */
static bool may_be_amid_a_change(const struct raw_bucket *raw)
{
	uint64_t size = raw->word[BUCKET_SIZE];

	for (unsigned int i = 0; i < CYCLES; i++) {
		const uint64_t *word = raw->record + i * words_of_cycle[LAYOUT_WITH_BYTES];

		if (word[0] * size - word[2] > size || word[1] * size - word[3] > size)
			return false;
	}
	return raw->record_nr >= CYCLES * words_of_cycle[LAYOUT_WITH_BYTES];
}

#define TORN_SHARE 32 /* one bucket in so many may be amid a change */
#define TOUCH_LEAST 8 /* of fewer buckets no two may touch */

/*
 * The layout whose records agree with themselves, and with the distances between buckets. Sums of bytes agree only where there
 * are some. A record without them says less of itself: so most must contradict the sums, and buckets must touch. -EPROTO: none
 * fits; -EAGAIN: a single bucket may be of either.
 */
static int find_layout(const struct walk *walk)
{
	size_t unlike_bytes = array_count(walk->raw_nr, i, !fits(&walk->raw[i], LAYOUT_WITH_BYTES));
	size_t unlike_counts = array_count(walk->raw_nr, i, !fits(&walk->raw[i], LAYOUT_COUNTS_ONLY));
	size_t torn = walk->raw_nr / TORN_SHARE;
	bool touch = walk->raw_nr < TOUCH_LEAST;

	if (unlike_bytes <= torn && have_room(walk, LAYOUT_WITH_BYTES, &touch))
		return LAYOUT_WITH_BYTES;
	if (2 * unlike_bytes > walk->raw_nr && unlike_counts <= torn && have_room(walk, LAYOUT_COUNTS_ONLY, &touch) && touch)
		return walk->raw_nr == 1 && may_be_amid_a_change(walk->raw) ? -EAGAIN : LAYOUT_COUNTS_ONLY;
	return -EPROTO;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct raw_bucket *)a)->address, y = ((const struct raw_bucket *)b)->address;

	return (x > y) - (x < y);
}

/* ---- two walks that agree ---- */

static const struct raw_bucket *find_raw(const struct walk *walk, uint64_t address)
{
	const struct raw_bucket key = { .address = address };

	return walk->raw_nr ? bsearch(&key, walk->raw, walk->raw_nr, sizeof(key), by_address) : NULL;
}

/* Whether no collection has moved samples to `active` between the walks. */
static bool agree(const struct walk *before, const struct walk *now, enum layout layout)
{
	size_t bytes = words_of_cycle[layout] * sizeof(uint64_t);

	for (size_t i = 0; i < now->raw_nr; i++) {
		const struct raw_bucket *raw = &now->raw[i], *old = find_raw(before, raw->address);

		if (old && memcmp(raw->record, old->record, bytes))
			return false;
	}
	return true;
}

static int walk_once(const struct go_memory *memory, const struct go_places *places, uint64_t mbuckets, struct walk *walk, int *ret_layout)
{
	struct view view = { .memory = memory };
	int err;

	walk->raw_nr = walk->pc_nr = 0;
	err = walk_buckets(&view, places, mbuckets, walk);
	view_release(&view);
	if (err)
		return err;
	if (walk->raw_nr)
		qsort(walk->raw, walk->raw_nr, sizeof(*walk->raw), by_address);
	*ret_layout = find_layout(walk);
	return *ret_layout < 0 ? *ret_layout : 0;
}

/* A bucket amid a change, of which more was freed than allocated, has what it would have a moment later. */
static struct go_counts settle(struct go_counts counts)
{
	if (counts.allocations < counts.frees)
		counts.allocations = counts.frees;
	return counts;
}

static int keep_walk(const struct walk *walk, enum layout layout, struct go_profile *profile)
{
	if (array_reserve(&profile->bucket, &profile->bucket_alloc, walk->raw_nr) ||
	    array_reserve(&profile->pc, &profile->pc_alloc, walk->pc_nr))
		return -ENOMEM;
	for (size_t i = 0; i < walk->raw_nr; i++) {
		const struct raw_bucket *raw = &walk->raw[i];

		profile->bucket[i] = (struct go_bucket){
			.address = raw->address,
			.size = raw->word[BUCKET_SIZE],
			.first = raw->first,
			.nframe = raw->word[BUCKET_FRAMES],
			.active = settle(cycle_of(raw, layout, 0)),
			.now = settle(sum_of_cycles(raw, layout)),
		};
	}
	profile->bucket_nr = walk->raw_nr;
	if (walk->pc_nr)
		memcpy(profile->pc, walk->pc, walk->pc_nr * sizeof(*walk->pc));
	profile->pc_nr = walk->pc_nr;
	return 0;
}

int go_profile_read(const struct go_memory *memory, const struct go_places *places, uint64_t mbuckets, struct go_profile *profile,
		    struct reason *why)
{
	struct walk before = {}, now = {}, swapped;
	int layout = -1, earlier = -1, err = 0;
	uint32_t nr = 0;

	/* A walk amid a change may fit no layout, as one that makes no sense. */
	for (; (!err || err == -EPROTO || err == -EAGAIN) && nr < WALKS_MAX; nr++) {
		err = walk_once(memory, places, mbuckets, &now, &layout);
		if (!err && layout == earlier && agree(&before, &now, layout))
			break;
		earlier = err ? -1 : layout;
		swapped = before;
		before = now;
		now = swapped;
	}
	if (err == -EPROTO)
		reason_set(why, err, "its heap profile makes no sense, or has a layout that is not known");
	else if ((!err || err == -EAGAIN) && nr == WALKS_MAX)
		err = reason_set(why, -EAGAIN, "its heap profile changed each time that it was read");
	err = err ?: keep_walk(&now, layout, profile);
	if (!err)
		profile->walk_nr = nr + 1;
	walk_release(&before);
	walk_release(&now);
	return err;
}

void go_profile_release(struct go_profile *profile)
{
	free(profile->bucket);
	free(profile->pc);
	*profile = (struct go_profile){};
}
