/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_SELECTOR_H
#define ALLOCSNAP_ENGINE_SELECTOR_H

#include "engine.h"
#include "engine/trace_source.h"

/*
 * A struct selection, applied to one snapshot. The filters are applied to each traceback once for each
 * domain that they name, and the result is stored. A trace only looks it up.
 *
 *	frame_match[filter × frame_nr + frame]		enum memo
 *	verdict[traceback × class_nr + class]		enum memo
 *
 * A domain's class is its index in domain[]; the last class stands for all other domains.
 */
struct selector {
	struct source *source;
	const struct selection *selection;
	uint8_t *frame_match;
	uint8_t *verdict;
	uint32_t *filter_domain; /* for each filter that has a domain */
	uint32_t *domain;
	size_t domain_nr;
	uint64_t now_ns;   /* the time that ages are measured from */
	bool is_per_trace; /* the result depends on more than the traceback */
	bool has_age;	   /* the selection has a condition on ages */
};

/*
 * The caller keeps the source until release. 0, -ENOMEM, or -ENODATA with a line in *why: a column
 * that the selection needs was not recorded.
 */
int selector_init(struct selector *selector, struct source *source, struct reason *why);
void selector_release(struct selector *selector);

/* Whether the selection has conditions on blocks: sizes, ages, threads, gaps. */
bool selection_asks_blocks(const struct selection *selection);

/* Whether trace number `at` is selected. */
bool selector_takes(struct selector *selector, uint64_t at);

/* Whether the traces of the traceback are selected. Only if is_per_trace is false. */
bool selector_takes_traceback(struct selector *selector, uint32_t traceback);

/* Whether the snapshot has the threads that allocated. 0, or -ENODATA with a line in *why. */
int check_threads(const struct snapshot_tables *tables, struct reason *why);

#endif
