/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_LOAD_H
#define ALLOCSNAP_COLLECT_RECORDING_LOAD_H

#include <stdbool.h>
#include <stddef.h>
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

/* A namespace that a recorder must share with the machine. Its inode says whether it does (include/linux/proc_ns.h). */
struct machine_namespace {
	const char *name; /* in /proc/PID/ns */
	const char *full_name;
	uint64_t inode;
	const char *why, *to_do;
};
extern const struct machine_namespace machine_namespaces[];
extern const size_t machine_namespaces_nr;

/* Also true if the kernel has no such namespaces. */
bool is_in_machine_namespace(const struct machine_namespace *namespace);

/* Whether we hold what the kernel asks for when a program is loaded. */
bool has_privileges_to_load(void);

/* Whether functions of the kernel can be traced. The kernel's configuration or lockdown can forbid it. */
bool fentry_works(void);

#endif
