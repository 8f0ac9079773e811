/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LOAD_H
#define ALLOCSNAP_COLLECT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct allocsnap_bpf;
struct collector_options;
struct custom_allocators;
struct reason;

/*
 * Sizes the maps, loads the programs, attaches those that are not of one process. NULL and
 * errno, with a line that says what this machine lacks and what to do about it.
 *
 * ALLOCSNAP_NO_UPROBE_SESSION=1 in the environment makes do without sessions (uprobe_multi.h), as
 * an older kernel must, ALLOCSNAP_NO_UPROBE_MULTI=1 without links of many probes, as one before 6.6,
 * and ALLOCSNAP_NO_UPROBE_RETURN=1 without sessions and return probes, as if every process had something to
 * fear from them (hazards.h). ALLOCSNAP_LIBBPF_DEBUG=1 lets libbpf say on stderr what it does.
 */
struct allocsnap_bpf *load_bpf(const struct collector_options *options,
			       const struct custom_allocators *custom, uint32_t traceback_limit,
			       struct reason *why);

/*
 * The programs without the kernel: to decide what would be done with them. NULL: no memory.
 */
struct allocsnap_bpf *open_bpf(void);

/* Whether functions of the kernel can be traced: not where it is built or locked down otherwise. */
bool fentry_works(void);

#endif
