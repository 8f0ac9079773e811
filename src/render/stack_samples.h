/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_STACK_SAMPLES_H
#define ALLOCSNAP_RENDER_STACK_SAMPLES_H

/*
 * The content of a report for formats that want more than its rows: what was allocated beside what is live, and domain
 * and thread of the blocks. A report of the live blocks of one snapshot by traceback has these; of any other report each
 * row is a sample.
 */

#include "render.h"

struct stack_sample {
	const struct frame_view *frame; /* oldest first; valid until the visit returns */
	uint32_t nframe;
	const char *key; /* if not NULL, the group's name: it has no frames */
	/* If the report is not of traces, `live` is the row: its measure, or its growth. */
	struct cost live;
	struct cost allocated;
	bool has_domain; /* the domain is known, and by_label asks for it */
	const char *domain; /* name, or NULL: none */
	uint32_t domain_id, thread; /* a thread of 0 is not known */
};

struct stack_visit {
	int (*visit)(void *what, const struct stack_sample *sample); /* 0 or a negative errno */
	void *what;
	bool by_label; /* a sample for each domain and thread of a traceback; `allocated` is then a sample of its own */
};

/* Whether samples have `allocated`. */
bool stack_samples_have_allocated(const struct report *report);

/*
 * Visits each sample. No value is negative if the report is no diff. Values of sampled recordings are estimates, which
 * are rounded so that their sums are those of the report. Returns 0, -ENOMEM, or the first error of a visit.
 */
int stack_samples_visit(const struct report *report, const struct stack_visit *visit);

#endif
