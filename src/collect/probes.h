/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBES_H
#define ALLOCSNAP_COLLECT_PROBES_H

/*
 * The probes of one process. Functions at one address (glibc's memalign and aligned_alloc) are
 * one probe site; where in the function it sits is placement.h's decision. Sites are attached
 * all at once for each file where the kernel can (uprobe_multi.h), else one by one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf_types.h"
#include "collect/placement.h"

struct allocsnap_bpf;
struct bpf_link;
struct object;
struct reason;

struct probe_site {
	uint32_t object;      /* index into the mappings' objects */
	const char *function; /* the first of its names */
	enum call_shape shape;
	uint32_t domain;
	uint64_t offset; /* of the function in the file */
	struct placement placement;
	bool is_attached;
};

/* Zeroed: none. */
struct probes {
	struct probe_site *site; /* its index is the site of the attach cookie */
	size_t site_nr, site_alloc;
	struct bpf_link **link;
	size_t link_nr, link_alloc;
	int *multi_fd;
	size_t multi_fd_nr, multi_fd_alloc;
	uint64_t failed_nr; /* functions found that could not be probed: a loss */
};

/*
 * Finds the allocator functions that an object defines and probes them in this process; frees
 * first, so that no block can enter that could leave unseen. An object without any, or without
 * a readable file, is fine. A function that cannot be probed is counted, with a line in *why.
 * 0, -ENOMEM, or what attaching gave where it can't be had at all (-EPERM, -ESRCH).
 */
int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf, pid_t pid,
		  const struct object *object, uint32_t object_index, struct reason *why);

/* How these programs are attached: "uprobe_multi", "uprobe". */
const char *probes_kind(const struct allocsnap_bpf *bpf);

/* Whether a function that gives out blocks is among them. */
bool probes_see_allocations(const struct probes *probes);

/* Detaches all. */
void probes_close(struct probes *probes);

#endif
