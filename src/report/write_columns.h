/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_WRITE_COLUMNS_H
#define ALLOCSNAP_REPORT_WRITE_COLUMNS_H

#include "report/report_layout.h"
#include "report/packed_json.h"

/* Writes ,"snapshots":[…]: of each the facts and the rows that changed. 0 or -ENOMEM. */
int report_write_columns(struct packed_json *json, const struct report_data *data, const struct report_layout *layout);

#endif
