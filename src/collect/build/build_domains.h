/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_DOMAINS_H
#define ALLOCSNAP_COLLECT_BUILD_DOMAINS_H

struct snapshot_builder;
struct target;

/*
 * Adds the domains that are recorded, why Python's objects are not, if a note says so, and the heaps of runtimes that no
 * probe sees. 0 or -ENOMEM.
 */
int describe_domains(struct snapshot_builder *builder, const struct target *target);

#endif
