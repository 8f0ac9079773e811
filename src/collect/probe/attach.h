/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_ATTACH_H
#define ALLOCSNAP_COLLECT_PROBE_ATTACH_H

/* Turns probe sites into probes. attach_methods.h lists the attach methods; probes.h says how returns are seen. */

#include "collect/probe/probes.h"

/*
 * Attaches site[first … first + nr), all of one object; frees first. A site that cannot be probed stays
 * unattached (is_attached), with a line in *why. 0, -ENOMEM, or the error of attaching if nothing of the process
 * can be probed (-EPERM, -ESRCH), or not now (-ETXTBSY).
 */
int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf,
		 const struct objects *objects, size_t first, size_t nr, struct reason *why);

#endif
