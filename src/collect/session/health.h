/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_HEALTH_H
#define ALLOCSNAP_COLLECT_HEALTH_H

/*
 * How much room the data of ended images takes. Only a drain frees it; collector__get_health() says when a drain
 * is due.
 */

#include <stdint.h>

struct collector;

/* The data of images that are gone. */
struct stale {
	uint64_t blocks, images;
};

/* Before a drain: the data that the drain will delete. */
struct stale health_stale(const struct collector *collector);

/* After that drain. */
void health_swept(struct collector *collector, const struct stale *stale);

#endif
