/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PYTHON_PLACES_H
#define ALLOCSNAP_COLLECT_PYTHON_PLACES_H

/*
 * The probes in a CPython: hundreds of places, on two or three links. They count as sites: one that frees, one that
 * allocates, and one where objects begin; the cookie of each place has the row of python_calls[] that tells how to read it.
 */

#include <stdint.h>

struct allocsnap_bpf;
struct objects;
struct probes;
struct python_info;
struct python_process;
struct reason;

/*
 * Probes all places, frees first; if they are probed already, nothing changes. 0, or a negative errno with a line in
 * *why: then none is probed.
 */
int python_places_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, const struct python_info *info, struct reason *why);

/* Fills in the kernel side's knowledge of a process. bias: the process's addresses minus those of the file. */
void python_process_make(const struct python_info *info, uint64_t bias, struct python_process *ret);

#endif
