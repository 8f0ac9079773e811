// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tracebacks in the books, and the totals of each. */
#include "exact/books_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct trie {
	struct books_node *node;
	uint64_t nr; /* numbers below this one are there */
	struct books_totals *totals;
	uint64_t totals_nr;
	uint64_t *frame;
	uint32_t most;
};

_Static_assert(BOOKS_RAW_WORD & BOOKS_END, "no frame, either");

/* Parents have smaller numbers. */
static uint32_t frames_of_node(const struct trie *trie, uint32_t node, uint64_t *ret_end)
{
	uint32_t nr = 0;

	while (node && nr < BOOKS_DEEPEST) {
		const struct books_node *at = &trie->node[node];

		if (at->word & BOOKS_END)
			*ret_end = at->word;
		else if (nr++ < trie->most)
			trie->frame[nr - 1] = at->word;
		node = at->parent < node ? at->parent : 0;
	}
	return nr;
}

static int read_nodes(void *trie_, const void *nodes, uint64_t first, uint64_t nr)
{
	struct trie *trie = trie_;

	memcpy(&trie->node[first], nodes, nr * sizeof(*trie->node));
	return 0;
}

static int read_totals(void *trie_, const void *totals, uint64_t first, uint64_t nr)
{
	struct trie *trie = trie_;

	memcpy(&trie->totals[first], totals, nr * sizeof(*trie->totals));
	return 0;
}

/* [0], which is all 0, if it has none. */
static struct books_totals *totals_of_node(const struct trie *trie, uint32_t node)
{
	return &trie->totals[trie->node[node].totals < trie->totals_nr ? trie->node[node].totals : 0];
}

/* A count that its thread has not added to the node yet. */
struct slot_count {
	uint64_t at; /* in the file */
	struct books_count count;
};

struct slot_counts {
	struct slot_count *count;
	size_t count_nr, count_alloc;
};

/* A free slot keeps its counts, too: the thread that takes it next adds to them. */
static int read_slot_counts(const struct books *books, struct slot_counts *ret)
{
	uint64_t at = BOOKS_AT_THREADS, data_end;
	struct slot_count one;
	int err = 0;

	while (!err && books->kind == BOOKS_OF_MALLOC && next_books_data(books, &at, BOOKS_AT_DIRECTORY, &data_end)) {
		uint32_t slot = (at - BOOKS_AT_THREADS) / BOOKS_THREAD_BYTES;
		struct books_count count[BOOKS_COUNTS];

		one.at = books_thread_at(slot) + offsetof(struct books_thread, native.count);
		err = read_books_at(books, one.at, count, sizeof(count));
		for (int i = 0; i < BOOKS_COUNTS && !err; i++, one.at += sizeof(*count)) {
			one.count = count[i];
			if (count[i].allocations | count[i].temporary)
				err = array_push(ret, count, one);
		}
		at = books_thread_at(slot + 1);
	}
	return err;
}

/*
 * A thread that runs may have added it to its node before or after that was read. So it counts as far as it was there both
 * before and after: then hardly anything counts twice.
 */
static int add_count(const struct books *books, const struct slot_count *before, struct trie *trie)
{
	struct books_count count;
	int err = read_books_at(books, before->at, &count, sizeof(count));
	struct books_totals *totals;

	if (err || count.node != before->count.node || count.node >= trie->nr)
		return err;
	if (count.allocations + count.temporary > before->count.allocations + before->count.temporary)
		count = before->count;
	totals = totals_of_node(trie, count.node);
	if (totals == trie->totals) { /* there is room for one of each count */
		trie->node[count.node].totals = trie->totals_nr++;
		totals = totals_of_node(trie, count.node);
	}
	totals->allocations += count.allocations;
	totals->allocated_bytes += count.allocated_bytes;
	totals->temporary += count.temporary;
	totals->temporary_bytes += count.temporary_bytes;
	return 0;
}

/* Takes memory for the nodes that are there, whatever their number says. 0 or -ENOMEM, or an error of the file. */
static int read_trie(const struct books *books, uint32_t most, struct trie *ret)
{
	struct slot_counts counts = {};
	int err = read_slot_counts(books, &counts);

	*ret = (struct trie){ .nr = books_number(&books->head->node_nr, BOOKS_NO_NODE - 1) + UINT64_C(1), .most = most };
	ret->node = calloc(ret->nr, sizeof(*ret->node));
	ret->frame = calloc(most + 1, sizeof(*ret->frame));
	if (!ret->node || !ret->frame)
		err = -ENOMEM;
	err = err ?: read_books_elements(books, BOOKS_AT_NODES, 0, ret->nr, sizeof(*ret->node), read_nodes, ret);
	ret->totals_nr = books_number(&books->head->totals_nr, BOOKS_NODES_MAX - 1) + UINT64_C(1); /* after the nodes */
	ret->totals = calloc(ret->totals_nr + counts.count_nr, sizeof(*ret->totals));
	if (!ret->totals)
		err = -ENOMEM;
	err = err ?: read_books_elements(books, BOOKS_AT_TOTALS, 1, ret->totals_nr, sizeof(*ret->totals), read_totals, ret);
	for (size_t i = 0; i < counts.count_nr && !err; i++)
		err = add_count(books, &counts.count[i], ret);
	free(counts.count);
	return err;
}

/* A block that a free list has kept was not allocated where its latest object began. Returns NULL if there is no memory. */
static bool *nodes_of_blocks(const struct books *books, uint64_t nr)
{
	bool *is_used = calloc(nr, sizeof(*is_used));

	for (size_t i = 0; is_used && i < books->block_nr; i++)
		if (books->block[i].node < nr)
			is_used[books->block[i].node] = true;
	return is_used;
}

int books_read_stacks(struct books *books, uint32_t most, books_stack_fn fn, void *what)
{
	struct trie trie;
	int err = read_trie(books, most, &trie);
	bool *is_used = nodes_of_blocks(books, trie.nr);

	if (!is_used)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < trie.nr; i++) {
		struct books_stack stack = { .id = i, .frame = trie.frame, .totals = *totals_of_node(&trie, i) };

		if (!stack.totals.allocations && !is_used[i])
			continue;
		stack.frame_nr = frames_of_node(&trie, i, &stack.end);
		stack.kept_nr = stack.frame_nr < most ? stack.frame_nr : most;
		err = fn(what, &stack);
	}
	free(is_used);
	free(trie.node);
	free(trie.totals);
	free(trie.frame);
	return err;
}
