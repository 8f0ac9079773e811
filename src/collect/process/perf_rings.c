// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/perf_rings.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/array.h"

#define RING_BYTES (128u << 10)

static size_t page_bytes(void)
{
	return sysconf(_SC_PAGESIZE);
}

static int add_ring(struct perf_rings *rings, struct perf_event_attr *attr, int cpu)
{
	struct perf_ring ring = {
		.fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC),
	};
	int err;

	if (ring.fd < 0)
		return errno == ENODEV ? 0 : -errno; /* the processor is offline */
	ring.page = mmap(NULL, page_bytes() + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			 ring.fd, 0);
	err = ring.page == MAP_FAILED ? -errno : array_push(rings, ring, ring);
	if (!err)
		return 0;
	if (ring.page != MAP_FAILED)
		munmap(ring.page, page_bytes() + RING_BYTES);
	close(ring.fd);
	return err;
}

int perf_rings_open(struct perf_rings *rings, struct perf_event_attr *attr)
{
	int err = 0;

	attr->watermark = 1;
	attr->wakeup_watermark = RING_BYTES / 2;
	rings->record = malloc(PERF_RECORD_BYTES_MAX);
	if (!rings->record)
		return -ENOMEM;
	for (int cpu = 0; cpu < get_nprocs_conf() && !err; cpu++)
		err = add_ring(rings, attr, cpu);
	return err;
}

void perf_rings_close(struct perf_rings *rings)
{
	for (size_t i = 0; i < rings->ring_nr; i++) {
		munmap(rings->ring[i].page, page_bytes() + RING_BYTES);
		close(rings->ring[i].fd);
	}
	free(rings->ring);
	free(rings->record);
	memset(rings, 0, sizeof(*rings));
}

/* A record may wrap around to the start of the ring. */
static void copy_out(const char *data, uint64_t tail, void *to, size_t bytes)
{
	size_t at = tail % RING_BYTES, first = RING_BYTES - at;

	if (first > bytes)
		first = bytes;
	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, bytes - first);
}

static int read_ring(struct perf_rings *rings, const struct perf_ring *ring, perf_record_fn fn,
		     void *what)
{
	const struct perf_event_header *record = (const void *)rings->record;
	const char *data = (const char *)ring->page + page_bytes();
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	int err = 0;

	while (tail < head && !err) {
		copy_out(data, tail, rings->record, sizeof(*record));
		copy_out(data, tail, rings->record, record->size);
		err = fn(what, record);
		if (!err)
			tail += record->size;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}

int perf_rings_read(struct perf_rings *rings, perf_record_fn fn, void *what)
{
	int err = 0;

	for (size_t i = 0; i < rings->ring_nr && err >= 0; i++)
		err = read_ring(rings, &rings->ring[i], fn, what);
	return err < 0 ? err : 0;
}
