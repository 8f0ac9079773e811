/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_FLEET_FILES_H
#define TESTS_UNIT_FLEET_FILES_H

/* A directory of small snapshots, and a catalogue of them: "d/…" and "catalogue.db", in a directory of its own. */

#include <stddef.h>
#include <stdint.h>

#include "fleet/catalogue.h"
#include "fleet/dictionary.h"
#include "fleet/index.h"
#include "fleet/row_codec.h"

struct fleet_frame {
	const char *filename;
	uint32_t lineno;
	const char *function, *object, *build_id;
	uint64_t offset;
	uint32_t flags;
};

struct fleet_trace {
	uint64_t size;
	const struct fleet_frame *frame; /* most recent call first */
	uint32_t nframe, total_nframe, domain;
	double weight; /* in a sampled one */
	uint64_t birth_ns; /* in one with a gap */
};

/* A field that is NULL or 0 is not written; by default host is "host", pid 7 and time 1. */
struct fleet_file {
	const char *path;
	const char *host, *pid, *wall_ns, *comm, *label_version, *domain_16, *filters;
	const char *boot_id, *start_ticks, *exec_count, *end, *monotonic_ns, *recording_ns, *interval_ns, *trigger;
	uint64_t lost, gap_end_ns;
	unsigned int more_labels; /* "label.0" and on, each with the text of label_version */
	bool is_sampled, is_compact;
	const struct fleet_trace *trace;
	size_t trace_nr;
};

#define TRACES(array) .trace = (array), .trace_nr = ARRAY_SIZE(array)

void fleet_enter(void);
void fleet_leave(void);
void fleet_write(const struct fleet_file *file);
void fleet_write_text(const char *path, const char *text);

/* Indexes "d". Reports about files are in fleet_told: "KIND path: line\n" each. */
extern char fleet_told[8192];
struct index_sum fleet_index_d(void);

struct catalogue *fleet_open(void);
void fleet_sql(const char *sql);

/* All tables as text, without the facts of a file system about files; the caller frees it. */
char *fleet_dump(void);

#endif
