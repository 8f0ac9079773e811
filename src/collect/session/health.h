/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_HEALTH_H
#define ALLOCSNAP_COLLECT_HEALTH_H

/*
 * How much room is taken by what has gone, which only a drain clears away: collector__get_health()
 * says when that is due.
 */

#include <stdint.h>

struct collector;

/* Of images that are gone. */
struct stale {
	uint64_t blocks, images;
};

/* Before a drain: what it will clear away. */
struct stale health_stale(const struct collector *collector);

/* After it. */
void health_swept(struct collector *collector, const struct stale *stale);

#endif
