/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_CPU_QUOTA_H
#define ALLOCSNAP_COLLECT_BUDGET_CPU_QUOTA_H

/* The CPU time that the control groups of a process let it have: cpu.max, or cpu.cfs_quota_us of version 1. */

#include <stdint.h>

#define QUOTA_HIERARCHIES 2

/* Where the hierarchies are mounted that have quotas. Zeroed: there are none. */
struct cpu_quotas {
	struct quota_hierarchy {
		char *point; /* NULL: it is not mounted */
		char *root;  /* the group that lies there */
	} hierarchy[QUOTA_HIERARCHIES];
};

/* mountinfo: the text of /proc/self/mountinfo, which is changed. 0 or -ENOMEM. */
int cpu_quotas_find(struct cpu_quotas *quotas, char *mountinfo);
void cpu_quotas_release(struct cpu_quotas *quotas);

/*
 * groups: the text of /proc/PID/cgroup. Returns the least CPU time in ns that a group of the process, or one above it,
 * has in each second. UINT64_MAX: there is no quota, or none that can be read.
 */
uint64_t cpu_quota_ns(const struct cpu_quotas *quotas, const char *groups);

#endif
