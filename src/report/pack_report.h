/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_PACK_REPORT_H
#define ALLOCSNAP_REPORT_PACK_REPORT_H

#include "report/packed_json.h"
#include "report/report_data.h"

/* A report's data as they go into the page, before base64. */
struct packed_report {
	struct packed_json *json;
	const uint8_t *bytes;
	size_t bytes_nr, bytes_max; /* more than bytes_max: nothing was left to leave out */
	uint32_t merged_nr, merged_of; /* tracebacks */
	uint32_t small_site_nr, site_of; /* sites that are merged into one, and of how many */
};

/*
 * Packs the data into at most bytes_max bytes, if that is possible: it merges small tracebacks, leaves out columns of
 * keys and merges small sites, step by step, until they fit. Returns 0 or -ENOMEM. packed_report_release() in any case.
 */
int pack_report(struct report_data *data, size_t bytes_max, struct packed_report *ret);
void packed_report_release(struct packed_report *packed);

#endif
