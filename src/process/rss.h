/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_RSS_H
#define ALLOCSNAP_PROCESS_RSS_H

/*
 * Divides the resident memory of a process into classes. They add up to the total.
 *
 * /proc/PID/smaps reports each mapping, and the kernel walks the page tables for it: 28 ms for each resident GiB
 * and 7 µs for each mapping, measured with 10 GiB and with 50,000 mappings on a two-core virtual machine.
 * smaps_rollup takes as long for the pages (28 ms a GiB; 30 ms for 50,000 mappings, where smaps takes 363 ms),
 * and reports less. The walk holds the mmap lock of the process for reading, one mapping at a time: mmap and
 * munmap wait meanwhile, page faults do not (per-VMA locks, Linux 6.4). So smaps is read only when a snapshot is
 * taken and less than 1 GiB is resident; after a walk of more than a tenth of a second it is never read again.
 * Otherwise /proc/PID/status is used. It reports fewer classes, in 0.01 ms.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* X(NAME, name): the metadata calls it "rss_NAME_bytes" (name in lower case). */
#define RSS_CLASSES(X) \
	X(HEAP, heap)	/* [heap], anonymous mappings without a name */ \
	X(FILES, files) /* code and data of files, also .bss */ \
	X(SHARED, shared) \
	X(STACKS, stacks) \
	X(OTHER, other)		/* anonymous memory that has a name or is executable */ \
	X(ANONYMOUS, anonymous) /* if smaps was not read: heap, stacks, other and data together */

enum rss_class {
#define X(NAME, name) RSS_##NAME,
	RSS_CLASSES(X)
#undef X
	RSS_CLASS_NR,
};

/* Zeroed: not known. */
struct rss {
	uint64_t time_ns; /* CLOCK_MONOTONIC when it was read; 0: never */
	bool gave_up;	  /* reading smaps took too long: it is not tried again */
	bool is_close;	  /* smaps: all classes except RSS_ANONYMOUS. Otherwise: RSS_ANONYMOUS, FILES, SHARED */
	uint64_t bytes[RSS_CLASS_NR];
	uint64_t huge_bytes; /* the part of these that is in huge pages; only if is_close */
	uint64_t swap_bytes; /* not part of the bytes above */
};

/*
 * *ret holds the result of the previous call. 0; -ESRCH if the process has no memory (any more), and *ret is
 * unchanged; -ENOMEM.
 */
int rss_read(pid_t pid, struct rss *ret);

uint64_t rss_total(const struct rss *rss);

#endif
