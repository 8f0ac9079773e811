/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ATTACH_H
#define ALLOCSNAP_COLLECT_ATTACH_H

/* How probe sites become probes: attach_ways.h says in which ways, probes.h what is seen of returns. */

#include "collect/probe/probes.h"

/*
 * Attaches site[first … first + nr), all of one object; frees first. One that can't be is not
 * attached (is_attached), with a line in *why. 0, -ENOMEM, or what attaching gave where it can't be
 * had at all (-EPERM, -ESRCH), or not now (-ETXTBSY).
 */
int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf,
		 const struct objects *objects, size_t first, size_t nr, struct reason *why);

#endif
