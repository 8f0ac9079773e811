/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_SAMPLER_SITES_H
#define ALLOCSNAP_COLLECT_PROBE_SAMPLER_SITES_H

/*
 * The probes that a sampler in the process passes (elf/sampler_places.h). Each place is a site, like a function. All
 * places of a file are probed, or none: a free that is not seen would leave its block in the books.
 */

#include <stdbool.h>
#include <stdint.h>

struct allocsnap_bpf;
struct objects;
struct probes;
struct reason;

/*
 * Probes the places of an object's sampler, frees first. 0, even if they could not be probed: *why then has a line, and
 * none is. Or an error as of probes_attach().
 */
int sampler_sites_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, struct reason *why);

/* Whether the sampler of an object is probed. */
bool sampler_sites_are_probed(const struct probes *probes, uint32_t object);

#endif
