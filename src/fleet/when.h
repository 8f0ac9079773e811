/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_WHEN_H
#define ALLOCSNAP_FLEET_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* A time as somebody writes it, as long as what was left out: a day, a minute. Both ends are in it. */
struct when {
	int64_t first_ns, last_ns; /* since 1970 */
	bool is_ago; /* counted back from now: an instant */
};

/*
 * "2026-11-21T03:15:00.5Z" (RFC 3339; an offset, too), or the beginning of it, UTC; "1763694900" or
 * "1763694900.5", seconds since 1970 (four digits are a year); "-24h", ago. 0, -EINVAL, or -ERANGE: beyond
 * what 64 bits have.
 */
int when_parse(const char *text, int64_t now_ns, struct when *ret);

#endif
