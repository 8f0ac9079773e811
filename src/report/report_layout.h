/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_REPORT_LAYOUT_H
#define ALLOCSNAP_REPORT_REPORT_LAYOUT_H

/*
 * Which tracebacks and keys the file has, and their numbers in it. Small tracebacks are merged into one for each site,
 * so that a file has a limit, and small sites into one; sums stay as they are.
 */

#include "report/report_data.h"

/*
 * The largest shares that tracebacks and their sites ever have: of all live bytes or blocks of a snapshot, or of all
 * allocated or temporary ones. 0: it has nothing.
 */
struct peak_shares {
	double *traceback; /* by id */
	double *site;	   /* by number */
	uint32_t *site_at; /* by traceback: the number of its site, which is a frame */
	uint32_t traceback_nr, site_nr;
};

/* 0 or -ENOMEM. peak_shares_release() in any case. */
int peak_shares_find(const struct report_data *data, struct peak_shares *ret);
void peak_shares_release(struct peak_shares *shares);

struct layout_limits {
	double share;		  /* merge tracebacks that have less in every column; 0: none */
	unsigned int key_columns; /* enum report_key_column: what to keep */
	uint32_t site_nr;	  /* keep so many sites, the largest ones, and merge the others; 0: keep all */
};

/* Numbers in the file by id in the data; IDMAP_NONE: it is not in the file. */
struct report_layout {
	struct layout_limits limits;
	uint32_t *traceback_to; /* by id: the id of the traceback that has its blocks: itself, or a merged one */
	uint32_t given_nr;	/* of these */
	uint32_t *traceback, *node, *frame, *string, *row;
	/* Ids by number. */
	uint32_t *traceback_at, *node_at, *frame_at, *string_at;
	uint32_t traceback_nr, node_nr, frame_nr, string_nr;
	struct report_row *row_at; /* numbers of a traceback and a key in the file */
	uint32_t row_nr;
	struct report_key *key_at;
	uint32_t key_nr;
	uint32_t merged_nr, merged_of; /* tracebacks */
	uint32_t small_site_nr, site_of; /* sites that are merged, and of how many */
	double small_site_share; /* the most that any of these ever has */
	uint32_t small_sites;	 /* the traceback that they are merged into */
};

/* shares: of the data before anything was merged. Adds merged tracebacks. 0 or -ENOMEM. layout_release() in any case. */
int layout_make(struct report_layout *layout, struct report_data *data, const struct peak_shares *shares,
		const struct layout_limits *limits);
void layout_release(struct report_layout *layout);

#endif
