// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>

#include "base/array.h"
#include "base/units.h"

Test(cmd_parse_size, accepts_units_in_powers_of_1024)
{
	static const struct {
		const char *text;
		int err;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "64K", 0, 65536 },
		{ "64KiB", 0, 65536 },
		{ "64kib", 0, 65536 },
		{ "10MiB", 0, 10485760 },
		{ "10m", 0, 10485760 },
		{ "2G", 0, 2147483648 },
		{ "1TiB", 0, 1099511627776 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "16777215T", 0, UINT64_MAX - ((1ull << 40) - 1) },
		{ "16777216T", -ERANGE },
		{ "18446744073709551616", -ERANGE },
		{ "", -EINVAL },
		{ "K", -EINVAL },
		{ "-1", -EINVAL },
		{ "+1", -EINVAL },
		{ " 1", -EINVAL },
		{ "1 ", -EINVAL },
		{ "1 K", -EINVAL },
		{ "1KB", -EINVAL },
		{ "1.5M", -EINVAL },
		{ "0x10", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 77;

		cr_expect_eq(parse_size(cases[i].text, &bytes), cases[i].err, "%s", cases[i].text);
		cr_expect_eq(bytes, cases[i].err ? 77 : cases[i].bytes, "%s", cases[i].text);
	}
}
