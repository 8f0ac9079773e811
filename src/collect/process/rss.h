/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RSS_H
#define ALLOCSNAP_COLLECT_RSS_H

/*
 * What a process's resident memory is, in classes that add up to it.
 *
 * /proc/PID/smaps tells of each mapping, and the kernel walks the page tables for it: 28 ms for each
 * GiB that is resident and 7 µs for each mapping, measured with 10 GiB and with 50,000 mappings on a
 * two-core virtual machine; smaps_rollup takes as long for the pages (28 ms a GiB; 30 ms for
 * 50,000 mappings, where smaps takes 363), and says less. The walk holds the lock of the target's
 * mappings for reading, a mapping at a time: what maps or unmaps waits meanwhile, page faults do not
 * (per-VMA locks, 6.4). So it is done when a snapshot is taken, where less than 1 GiB is resident, and
 * given up for good after a tenth of a second. Otherwise /proc/PID/status says less, in 0.01 ms.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* X(NAME, name): the name is that of the metadata, "rss_NAME_bytes". */
#define RSS_CLASSES(X) \
	X(HEAP, heap)	/* [heap], anonymous mappings without a name */ \
	X(FILES, files) /* code and data, .bss too */ \
	X(SHARED, shared) \
	X(STACKS, stacks) \
	X(OTHER, other)		/* anonymous: with a name, or executable */ \
	X(ANONYMOUS, anonymous) /* where it was not looked at closely: heap, stacks, other, data */

enum rss_class {
#define X(NAME, name) RSS_##NAME,
	RSS_CLASSES(X)
#undef X
	RSS_CLASS_NR,
};

/* Zeroed: not known. */
struct rss {
	uint64_t time_ns; /* CLOCK_MONOTONIC, when it was read; 0: never */
	bool gave_up;	  /* to look closely took too long: it is not tried again */
	bool is_close;	  /* by mapping: all but RSS_ANONYMOUS; else that, FILES and SHARED */
	uint64_t bytes[RSS_CLASS_NR];
	uint64_t huge_bytes; /* of these, in huge pages; where is_close */
	uint64_t swap_bytes; /* beside them */
};

/* *ret is that of before. 0; -ESRCH where it has no memory (any more), and *ret stays; -ENOMEM. */
int rss_read(pid_t pid, struct rss *ret);

uint64_t rss_total(const struct rss *rss);

#endif
