// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/mapping_record.h"

#include <linux/perf_event.h>
#include <stdio.h>

/* PERF_RECORD_MMAP2 up to its text (include/uapi/linux/perf_event.h). */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, len, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t build_id_bytes, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

static void format_build_id(char text[BUILD_ID_TEXT_MAX], const struct mmap2_record *record)
{
	size_t nr = record->build_id_bytes;

	for (size_t i = 0; i < nr && i < sizeof(record->build_id); i++)
		sprintf(text + 2 * i, "%02x", record->build_id[i]);
}

struct mapping_event parse_mmap2_record(const struct perf_event_header *header, uint64_t time_ns)
{
	const struct mmap2_record *record = (const struct mmap2_record *)header;
	struct mapping_event event = {
		.time_ns = time_ns,
		.pid = record->pid,
		.start = record->start,
		.end = record->start + record->len,
		.offset = record->offset,
		.path = record->path,
	};

	if (record->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		format_build_id(event.build_id, record);
	} else {
		event.dev = (uint64_t)record->major << 32 | record->minor;
		event.inode = record->inode;
	}
	return event;
}
