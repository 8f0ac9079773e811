/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PAGE_SOURCE_H
#define ALLOCSNAP_COLLECT_SOURCES_PAGE_SOURCE_H

/*
 * Resident memory as a source of blocks: which code brought the pages that are there (bpf/pages.bpf.c, page_join.h).
 *
 *	attach: events of its threads (page_ways.h) ──► check: what is resident already ──► account opens
 *	pass:   what is resident ──► what events brought ──► blocks and sums; leaves without a resident page go
 *
 * The pages are read before the leaves, so that each page that is resident has its event.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/sources/page_events.h"
#include "collect/sources/page_ways.h"

/*
 * `record` without --domain has the pages, as samples, of the processes that nothing else sees (options.unseen_pages). They
 * are judged when they have mapped no code for a while, since a program that starts has not mapped its allocator yet. When
 * another source sees such a process later, its pages end, and its account begins anew.
 */

/* The state of all processes. */
struct all_pages {
	bool is_wanted; /* of every process */
	uint32_t shift; /* of units of which one page is recorded (page_types.h); 0: every page is */
	struct page_events events; /* where every process is recorded */
	struct page_hearing hearing; /* not begun: no pages are recorded so far */
	bool is_refusal_noted;
};

#endif
