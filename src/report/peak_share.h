/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_PEAK_SHARE_H
#define ALLOCSNAP_REPORT_PEAK_SHARE_H

#include "report/report_data.h"

/*
 * For each traceback the largest share that it ever has: of all live bytes or blocks of a snapshot, or of all allocated
 * or temporary ones. 0: it has nothing. The caller frees *ret. 0 or -ENOMEM.
 */
int find_peak_shares(const struct report_data *data, double **ret);

#endif
