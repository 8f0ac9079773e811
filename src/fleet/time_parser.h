/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_TIME_PARSER_H
#define ALLOCSNAP_FLEET_TIME_PARSER_H

#include <stdbool.h>
#include <stdint.h>

/* A time as a user writes it: a range as long as its last unit, a day or a minute. Both ends are included. */
struct when {
	int64_t first_ns, last_ns; /* since 1970 */
	bool is_ago; /* counted back from now; the range is an instant */
};

/*
 * Parses "2026-11-21T03:15:00.5Z" (RFC 3339, also with an offset) or the beginning of it, UTC; "1763694900" or
 * "1763694900.5", seconds since 1970 (four digits are a year); or "-24h", ago. Returns 0, -EINVAL, or -ERANGE: the
 * time does not fit into 64 bits.
 */
int time_range_parse(const char *text, int64_t now_ns, struct when *ret);

#endif
