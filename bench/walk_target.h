/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BENCH_WALK_TARGET_H
#define ALLOCSNAP_BENCH_WALK_TARGET_H

/* Orders for walk_target: the calls to make, and how often. */

enum walk_probe { WALK_NOTHING, WALK_BY_TABLES, WALK_BY_KERNEL, WALK_PROBE_NR };

#define WALK_LINKS_MAX 64

struct walk_order {
	enum walk_probe which;
	unsigned int links; /* functions between main() and the probed one: 1 to WALK_LINKS_MAX */
	unsigned int calls;
};

#endif
