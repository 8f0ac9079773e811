// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

#include "archive/names.h"
#include "base/array.h"

#define OURS "20261121T031500.123Z.snap"

Test(archive_names, of_folders_are_recognized)
{
	static const struct {
		const char *name;
		bool is_ours;
	} cases[] = {
		{ "python3.1", true }, { "python3.11.4194304", true }, { "_.17", true },
		{ "0123456789abcde.123", true }, { "a-b_c..1", true },
		{ "", false }, { "python", false }, { "python.", false }, { ".1", false },
		{ "python.0", false }, { "python.01", false }, { "python.1x", false },
		{ "python.-1", false }, { "python.4194305", false }, { "python.99999999999999999999", false },
		{ ".python.1", false }, { "py thon.1", false }, { "0123456789abcdef.123", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(archive_is_folder_name(cases[i].name), cases[i].is_ours, "%s", cases[i].name);
}

Test(archive_names, of_drafts_are_recognized)
{
	static const struct {
		const char *name;
		pid_t writer; /* 0: it is none */
	} cases[] = {
		{ ".20261121T031500.123Z.6f3c21aa.86400123.tmp.17", 17 },
		{ ".20261121T031500.123Z.6f3c21aa.86400123-2.snap.tmp.17-3", 17 },
		{ ".20261121T031500.123Z.6f3c21aa.86400123-2.tmp.17", 0 }, { ".20261121T031500.123Z.6f3c21aa.tmp.17", 0 },
		{ ".20261121T031500.123Z.tmp.17", 17 }, { ".20261121T031500.123Z.tmp.17-2", 17 },
		{ ".20261121T031500.123Z.tmp.17-100", 17 },
		{ "20261121T031500.123Z.tmp.17", 0 }, { ".20261121T031500.123Z.tmp.", 0 },
		{ ".20261121T031500.123Z.tmp.x", 0 }, { ".20261121T031500.123Z.tmp.0", 0 },
		{ ".20261121T031500.123Z.tmp.017", 0 }, { ".20261121T031500.123Z.tmp.17-", 0 },
		{ ".20261121T031500.123Z.tmp.17-1", 0 }, { ".20261121T031500.123Z.tmp.17x", 0 },
		{ ".20261121T031500.123Z.tmp.17-2x", 0 }, { ".20261121T031500.123Z.snap", 0 },
		{ "." OURS ".tmp.17", 17 }, { "." OURS ".tmp.17-2", 17 },
		{ ".20261121T031500.123Z-2.snap.tmp.17", 17 }, { ".20261121T031500.123Z-1048575.snap.tmp.4194304-100", 4194304 },
		{ OURS ".tmp.17", 0 }, { "." OURS ".tmp.", 0 }, { "." OURS ".tmp.0", 0 },
		{ "." OURS ".17", 0 }, { "." OURS ".tmp.17-1", 0 }, { "." OURS "x.tmp.17", 0 },
		{ "." OURS ".tmp.17.tmp.17", 0 }, { ".20261121T031500.123Z-1.snap.tmp.17", 0 },
		{ ".20261121T031500.123Z-2.tmp.17", 0 }, { ".20261121T031560.123Z.snap.tmp.17", 0 },
		{ ".20261121T031500.123Zx.tmp.17", 0 }, { ".tmp.17", 0 }, { "..tmp.17", 0 },
		{ ".a.tmp.17", 0 }, { ".20261121T031560.123Z.tmp.17", 0 }, { "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t writer = 0;

		cr_expect_eq(atomic_file_name_parse(cases[i].name, &writer), cases[i].writer != 0, "%s",
			     cases[i].name);
		cr_expect(!cases[i].writer || writer == cases[i].writer, "%s", cases[i].name);
	}
}
