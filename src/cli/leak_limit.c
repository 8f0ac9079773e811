// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/leak_limit.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"

/* "1M/h", "64K/min", "100/s"; "0" */
int leak_limit_parse(const char *text, void *field, struct reason *why)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "/s", 1 }, { "/min", 60 }, { "/m", 60 }, { "/h", 3600 }, { "/d", 86400 }, { "", 1 } };
	size_t len = strcspn(text, "/"), at = 0;
	char size[32] = "";
	uint64_t bytes;

	if (len < sizeof(size))
		memcpy(size, text, len);
	while (at + 1 < ARRAY_SIZE(units) && strcmp(text + len, units[at].name))
		at++;
	if (parse_size(size, &bytes) || strcmp(text + len, units[at].name) || (!*units[at].name && bytes))
		return reason_set(why, -EINVAL, "'%.100s' is not a rate such as 0, 64K/min, 1M/h or 10M/d", text);
	*(struct leak_limit *)field = (struct leak_limit){ true, bytes / units[at].seconds };
	return 0;
}

bool leak_limit_is_exceeded(const struct leak_limit *limit, double bytes_per_s)
{
	return limit->is_set && bytes_per_s > limit->bytes_per_s;
}
