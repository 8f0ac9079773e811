/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_WRITE_DATA_H
#define ALLOCSNAP_REPORT_WRITE_DATA_H

#include "report/report_layout.h"
#include "report/packed_json.h"

/* Writes all that docs/report-format.md has. Returns 0 or -ENOMEM; also see packed_json__finish(). */
int report_write_data(struct packed_json *json, const struct report_data *data, const struct report_layout *layout);

#endif
