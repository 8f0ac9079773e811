/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_LOAD_H
#define ALLOCSNAP_COLLECT_RECORDING_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct allocsnap_bpf;
struct collector;
struct collector_options;
struct reason;

/*
 * Sizes the maps, loads the programs, and attaches those that do not belong to one process. NULL and errno, with
 * a line that says what this machine lacks and how to fix it. configure() is called before they are loaded: 0 or a negative
 * errno.
 *
 * Environment variables make the loader do without features of newer kernels. ALLOCSNAP_NO_UPROBE_SESSION=1
 * disables sessions (uprobe_multi.h). ALLOCSNAP_NO_UPROBE_MULTI=1 disables multi-probe links, as before Linux 6.6.
 * ALLOCSNAP_NO_UPROBE_RETURN=1 disables sessions and return probes, as if return probes could harm every process
 * (hazards.h). ALLOCSNAP_LIBBPF_DEBUG=1 lets libbpf log to stderr.
 */
struct allocsnap_bpf *load_bpf(const struct collector_options *options,
			       int (*configure)(struct collector *collector, struct allocsnap_bpf *bpf),
			       struct collector *collector, struct reason *why);

/* Opens the programs without loading them, to find out what would be done with them. NULL: no memory. */
struct allocsnap_bpf *open_bpf(void);

/* Whether functions of the kernel can be traced. The kernel's configuration or lockdown can forbid it. */
bool fentry_works(void);

#endif
