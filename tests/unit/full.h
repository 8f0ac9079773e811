/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_FULL_H
#define TESTS_UNIT_FULL_H

#include <stdlib.h>

/* How much a slow test does: all of it with CHECK_FULL=1 in the environment, else what `make check` has time for. */
static inline int full_or(int full, int less)
{
	const char *value = getenv("CHECK_FULL");

	return value && *value ? full : less;
}

#endif
