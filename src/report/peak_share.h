/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_PEAK_SHARE_H
#define ALLOCSNAP_REPORT_PEAK_SHARE_H

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

#endif
