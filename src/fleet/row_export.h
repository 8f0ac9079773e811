/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_EXPORT_H
#define ALLOCSNAP_FLEET_ROW_EXPORT_H

/*
 * A catalogue as row tables. Names go first, since without rows they count for nothing. Some hundred thousand rows go
 * at a time, the snapshots' own rows last: a snapshot without its own row counts for nothing.
 */

#include <stdbool.h>

#include "fleet/catalogue.h"
#include "fleet/id_set.h"
#include "fleet/row_tables.h"

/* Names that the sink has already. Numbers of rows mean nothing. */
struct row_known {
	struct known tracebacks, frames, domains;
};

void row_known_release(struct row_known *known);

/* The id of a domain in row tables: its number, or a hash of its name if programs chose the number. */
int64_t row_domain_id(int64_t number, const char *name);

/* Differs if another allocsnap may see other own frames in a traceback. */
int64_t row_own_frame_rules(void);

/*
 * Sends the names that the sink has not, and the name of sums (row_top.h) if has_sums. Returns 0, or a negative errno
 * and a line in *why.
 */
int row_export_names(struct catalogue *catalogue, const struct row_known *known, bool has_sums, struct row_sink *sink,
		     struct reason *why);

struct row_snapshots {
	struct catalogue *catalogue;
	const struct fleet_facts *facts;
	const struct fleet_snapshot *const *snapshot;
	size_t snapshot_nr;
	int64_t upload_base; /* uploads are numbered from here; 0: by their snapshots' ids */
	size_t top;	     /* of each snapshot the rows with most bytes, and sums of the others (row_top.h); 0: all rows */
	void (*progress)(void *what, uint64_t row_nr); /* may be NULL */
	void *what;
};

struct row_sent {
	size_t snapshots; /* whole */
	uint64_t rows;
};

/* Sends the snapshots. *ret: what the sink has taken, also after a failure. Errors as above. */
int row_export_snapshots(const struct row_snapshots *job, struct row_sink *sink, struct row_sent *ret,
			 struct reason *why);

#endif
