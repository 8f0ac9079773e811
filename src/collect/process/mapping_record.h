/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_MAPPING_RECORD_H
#define ALLOCSNAP_COLLECT_PROCESS_MAPPING_RECORD_H

#include "collect/process/mapping_events.h"

struct perf_event_header;

/* The event that a PERF_RECORD_MMAP2 reports. Its path lies in the record. */
struct mapping_event parse_mmap2_record(const struct perf_event_header *header, uint64_t time_ns);

#endif
