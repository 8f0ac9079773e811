/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_SITES_H
#define ALLOCSNAP_ENGINE_LEAK_SITES_H

/*
 * Where blocks are allocated, the same in all snapshots of a recording: a site is a traceback and a domain of the last
 * snapshot. Tracebacks are the same if they return to the same places of the same files, whether or not these places
 * have names yet. Places without a file are the same if their names are.
 */

#include <stdint.h>

#include "base/idmap.h"

struct snapshot;

#define LEAK_SITE_NONE UINT32_MAX

struct leak_site_key {
	uint32_t traceback; /* of the last snapshot; the first of equal ones */
	uint32_t domain;
};

struct leak_sites {
	const struct snapshot *last; /* the caller keeps it */
	struct idmap frame_ids, traceback_ids, site_ids;
	uint32_t *traceback; /* by traceback id of the last snapshot: the first equal one */
	struct leak_site_key *site;
	size_t site_nr, site_alloc;
};

/* 0 or -ENOMEM. */
int leak_sites_init(struct leak_sites *sites, const struct snapshot *last);
void leak_sites_release(struct leak_sites *sites);

/* Finds or, in the last snapshot, adds the site of a traceback id of the last snapshot. */
int leak_sites_add(struct leak_sites *sites, uint32_t traceback, uint32_t domain, uint32_t *ret_site);

/* LEAK_SITE_NONE: no block of the last snapshot is from there. traceback is an id of the last snapshot. */
uint32_t leak_sites_find(const struct leak_sites *sites, uint32_t traceback, uint32_t domain);

/*
 * Maps the tracebacks of another snapshot to those of the last: ids, or LEAK_SITE_NONE. The caller ends the array with
 * free(). NULL: no memory.
 */
uint32_t *leak_sites_map(const struct leak_sites *sites, const struct snapshot *snapshot);

#endif
