/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_MEASURE_H
#define ALLOCSNAP_ENGINE_MEASURE_H

#include "engine/cost.h"

struct selector;

/* -EINVAL and a line in *why if the question is about blocks, but the measure is not. */
int measure_check(const struct engine_options *options, struct reason *why);

/*
 * The costs of all selected tracebacks, by a measure other than MEASURE_LIVE. -ENODATA, -ERANGE,
 * -ENOMEM with a line in *why.
 */
int measure_tracebacks(struct costs *costs, struct selector *selector, enum measure measure,
		       struct reason *why);

#endif
