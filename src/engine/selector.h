/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_SELECTOR_H
#define ALLOCSNAP_ENGINE_SELECTOR_H

#include "engine/source.h"

/*
 * A struct selection, applied to one snapshot. What filters say of a traceback is decided once
 * for each of the domains that they name; a trace looks it up.
 *
 *	frame_match[filter × frame_nr + frame]		enum memo
 *	verdict[traceback × class_nr + class]		enum memo
 *
 * A domain's class is its place in domain[], the last class is all others.
 */
struct selector {
	struct source *source;
	const struct selection *selection;
	uint8_t *frame_match;
	uint8_t *verdict;
	uint32_t *filter_domain; /* of each filter that has one */
	uint32_t *domain;
	size_t domain_nr;
	uint64_t now_ns;   /* where ages count from */
	bool is_per_trace; /* does it depend on more than the traceback? */
	bool has_age;	   /* is an age asked? */
};

/*
 * The source must stay until release. 0, -ENOMEM, or -ENODATA with a line in *why: a column that
 * is asked for was not recorded.
 */
int selector_init(struct selector *selector, struct source *source, struct reason *why);
void selector_release(struct selector *selector);

/* Does it ask what only the blocks themselves can tell: sizes, ages, threads, gaps? */
bool selection_asks_blocks(const struct selection *selection);

/* Does trace number `at` take part? */
bool selector_takes(struct selector *selector, uint64_t at);

/* Did it live through a gap, whether it takes part or not? */
bool selector_is_gap_block(const struct selector *selector, uint64_t at);

/* Do the traces of the traceback? Where it is not per trace. */
bool selector_takes_traceback(struct selector *selector, uint32_t traceback);

/* Does the snapshot say which thread allocated? 0, or -ENODATA with a line in *why. */
int check_threads(const struct snapshot_tables *tables, struct reason *why);

#endif
