/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_SOURCE_LINES_H
#define ALLOCSNAP_REPORT_SOURCE_LINES_H

#include "report/report_data.h"

/*
 * Sets data->sources: the lines around the own frames of all tracebacks, from files below a folder. A file that was
 * changed after recorded_ns (since 1970) is left out, and counted: its lines may be others by now. 0 or -ENOMEM.
 */
int report_add_sources(struct report_data *data, const char *folder, uint64_t recorded_ns, size_t *ret_newer_nr);

#endif
