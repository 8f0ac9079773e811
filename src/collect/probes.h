/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBES_H
#define ALLOCSNAP_COLLECT_PROBES_H

/*
 * The probes of one process. Functions at one address (glibc's memalign and aligned_alloc) are
 * one probe site; where in the function it sits is placement.h's decision. Sites are attached
 * all at once for each file where the kernel can (uprobe_multi.h), else one by one.
 *
 * Returns are seen by sessions; where the kernel has none by return probes; and where those could
 * end the process (hazards.h) by plain probes on the places where calls return (returns.h). So are
 * always those of functions that throw: the unwinder finds no way through a hijacked return address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf_types.h"
#include "collect/placement.h"

struct allocsnap_bpf;
struct bpf_link;
struct mappings;
struct object;
struct reason;

struct probe_site {
	uint32_t object;      /* index into the mappings' objects */
	const char *function; /* the first of its names */
	enum call_shape shape;
	uint32_t domain;
	uint64_t offset; /* of the function in the file */
	uint64_t vaddr;
	struct placement placement;
	bool throws;
	bool is_attached;
};

enum probe_end {
	PROBE_ENTRY,
	PROBE_RETURN, /* hijacks the return address */
	PROBE_RET,    /* sits where calls return; belongs to no one site */
};

struct probe_link {
	struct bpf_link *link;
	size_t site;
	enum probe_end end;
};

struct probed_ret {
	uint32_t object;
	uint64_t offset; /* in the file */
	uint64_t cookie;
};

/* Zeroed: none, and return probes allowed. */
struct probes {
	struct probe_site *site; /* its index is the site of the attach cookie */
	size_t site_nr, site_alloc;
	struct probe_link *link;
	size_t link_nr, link_alloc;
	struct probed_ret *ret;
	size_t ret_nr, ret_alloc;
	bool by_ret; /* no return probes */
	int *multi_fd;
	size_t multi_fd_nr, multi_fd_alloc;
	uint64_t failed_nr; /* functions found that could not be probed: a loss */
	uint64_t dropped_nr; /* functions that probes_switch() has left without probes: a loss */
};

/*
 * Finds the allocator functions that an object defines and probes them in this process; frees
 * first, so that no block can enter that could leave unseen. An object without any, or without
 * a readable file, is fine. A function that cannot be probed is counted, with a line in *why.
 * 0, -ENOMEM, or what attaching gave where it can't be had at all (-EPERM, -ESRCH).
 */
int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf, pid_t pid,
		  const struct object *object, uint32_t object_index, struct reason *why);

/* Whether the kernel has sessions: then no process has anything to fear. */
bool probes_have_sessions(const struct allocsnap_bpf *bpf);

/*
 * Takes the return probes away and goes on without them. No call is missed; but what cannot be
 * probed so is recorded no longer, and counted (dropped_nr), with a line in *why. 0, or -errno
 * where the process is no more or the kernel refuses: the return probes are gone then, too.
 */
int probes_switch(struct probes *probes, const struct allocsnap_bpf *bpf, pid_t pid,
		  const struct mappings *mappings, struct reason *why);

/* How they are attached: "uprobe_session", "uprobe", "uprobe_ret". */
const char *probes_kind(const struct probes *probes, const struct allocsnap_bpf *bpf);

/* Whether a function that gives out blocks is among them. */
bool probes_see_allocations(const struct probes *probes);

/* Detaches all; what is attached later is attached as before. */
void probes_close(struct probes *probes);

#endif
