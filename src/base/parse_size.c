// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/parse_size.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>

#include "base/array.h"

static const struct {
	const char *suffix;
	unsigned int shift;
} size_units[] = {
	{ "", 0 }, { "K", 10 }, { "KiB", 10 }, { "M", 20 }, { "MiB", 20 },
	{ "G", 30 }, { "GiB", 30 }, { "T", 40 }, { "TiB", 40 },
};

static bool find_shift(const char *suffix, unsigned int *ret_shift)
{
	for (size_t i = 0; i < ARRAY_SIZE(size_units); i++) {
		if (strcasecmp(suffix, size_units[i].suffix))
			continue;
		*ret_shift = size_units[i].shift;
		return true;
	}
	return false;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	unsigned long long value;
	unsigned int shift;
	char *suffix;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &suffix, 10);
	if (!find_shift(suffix, &shift))
		return -EINVAL;
	if (errno || value > UINT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = value << shift;
	return 0;
}
