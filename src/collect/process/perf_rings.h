/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_PERF_RINGS_H
#define ALLOCSNAP_COLLECT_PROCESS_PERF_RINGS_H

/*
 * A perf event of all processes, on each processor, and the ring that its records go to
 * (perf_event_open(2); include/uapi/linux/perf_event.h has the records).
 */

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_RECORD_BYTES_MAX (UINT16_MAX + 1) /* a record's size has 16 bits */

struct perf_ring {
	int fd; /* readable when the ring is half full */
	struct perf_event_mmap_page *page; /* its header says how far it is written and read; the records follow */
};

/* Zeroed: none. */
struct perf_rings {
	struct perf_ring *ring;
	size_t ring_nr, ring_alloc;
	char *record; /* the record that is being read */
};

/*
 * Completes the attributes (when to wake up). 0 or a negative errno; perf_rings_close() must be called in either
 * case.
 */
int perf_rings_open(struct perf_rings *rings, struct perf_event_attr *attr);

void perf_rings_close(struct perf_rings *rings);

/*
 * Called with a record, valid until the call returns. 0 consumes the record; 1 leaves it and all later ones in
 * its ring for the next time; a negative errno leaves it as well, and stops reading.
 */
typedef int (*perf_record_fn)(void *what, const struct perf_event_header *record);

/* Reads one ring after another. 0 or the negative errno that fn returned. */
int perf_rings_read(struct perf_rings *rings, perf_record_fn fn, void *what);

#endif
