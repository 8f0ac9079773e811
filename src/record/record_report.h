/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_REPORT_H
#define ALLOCSNAP_RECORD_REPORT_H

/* The reports of `record` about itself: a line for each pass, and a file for Prometheus. */

#include <stddef.h>
#include <stdint.h>

struct archive;
struct collector;
struct reason;

/* Zeroed: nothing has been done yet. */
struct record_report {
	uint64_t began_wall_ns, last_pass_wall_ns;
	uint64_t drain_nr, drain_ns;
	uint64_t saved_nr;
	uint64_t max_disk_bytes; /* 0: no limit */
};

/* Formats a pass that has written saved_nr snapshots as one line, without a newline. */
void report_line(char *text, size_t bytes, const struct collector *collector, uint64_t saved_nr,
		 uint64_t pass_ns);

/* Returns 0 or a negative errno, with a line in *why. */
int report_metrics(const struct record_report *report, const struct collector *collector,
		   const struct archive *archive, const char *path, struct reason *why);

#endif
