/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PAGE_JOIN_H
#define ALLOCSNAP_COLLECT_SOURCES_PAGE_JOIN_H

/*
 * Joins the pages that are resident with what brought them. Arithmetic only.
 *
 *	resident runs  ──┐
 *	leaves of events ┼──► blocks: maximal runs of pages of one traceback and one second
 *	older runs     ──┘    sums: each resident page is in one of them
 *
 * With samples, one page of each unit is looked at (page_types.h), and stands for the others in all sums but rss_anon,
 * huge, swapped and zero.
 *
 * A huge page came by one event, which names one of its pages: pages of it without an event of their own belong to the
 * first event there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/pagemap.h"
#include "shared/page_types.h"

/* In bytes. rss_anon is the sum of the next ones up to unattributed; spread is a part of traced. */
#define PAGE_SUMS(X) \
	X(rss_anon)	/* resident, by the scan */ \
	X(traced)	/* an event of the recording brought it */ \
	X(older)	/* it was resident when the recording began */ \
	X(inherited)	/* no event brought it, in a process that began by a fork */ \
	X(by_kernel)	/* a thread without user code brought it */ \
	X(unattributed) /* no event brought it */ \
	X(spread)	/* of a huge page, by the event of another page of it */ \
	X(huge)		/* in huge pages, as far as that is known */ \
	X(swapped) \
	X(zero)

struct page_sums {
#define X(name) uint64_t name;
	PAGE_SUMS(X)
#undef X
};

struct page_block {
	uint64_t start, end;
	uint64_t traceback; /* or PAGE_UNTRACED */
	uint32_t birth;	    /* of its youngest page; as in struct page_leaf */
};

/* A leaf, as it was read. */
struct found_leaf {
	uint64_t image, number; /* struct page_key */
	const struct page_leaf *leaf;
	bool is_resident; /* set: one of its pages is */
};

struct page_join {
	const struct page_runs *resident, *older;
	struct found_leaf *leaf; /* of the image, sorted by number */
	size_t leaf_nr;
	uint32_t shift; /* of units; 0: every page */
	uint64_t seed;
	bool is_forked; /* pages that no event brought are inherited ones */
};

typedef int (*page_block_fn)(void *what, const struct page_block *block);

/* Calls emit() for each block, by address. 0, or what emit() returned if that was not 0. */
int page_join(const struct page_join *join, page_block_fn emit, void *what, struct page_sums *ret);

/* A process has ended, and what was resident is not known: the blocks of all pages that events brought. */
int page_join_ended(const struct page_join *join, page_block_fn emit, void *what);

#endif
