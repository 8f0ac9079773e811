/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LEAK_LIMIT_H
#define ALLOCSNAP_CLI_LEAK_LIMIT_H

/* The value of --fail-above RATE. */

#include <stdbool.h>

struct reason;

struct leak_limit {
	bool is_set;
	double bytes_per_s;
};

/* parse() of the option: "1M/h", "64K/min", "100/s", "0". */
int leak_limit_parse(const char *text, void *field, struct reason *why);

bool leak_limit_is_exceeded(const struct leak_limit *limit, double bytes_per_s);

#endif
