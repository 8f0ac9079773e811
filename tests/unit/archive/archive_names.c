// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

#include "archive/names.h"
#include "base/array.h"
#include "base/moment.h"

#define OURS "20261121T031500.123Z.snap"

Test(archive_names, of_snapshots_are_recognized)
{
	static const struct {
		const char *name;
		bool is_ours;
	} cases[] = {
		{ OURS, true }, { "20261121T031500.123Z-2.snap", true },
		{ "20261121T031500.123Z-100000.snap", true }, { "19700101T000000.000Z.snap", true },
		{ "20240229T235959.999Z.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.86400123.snap", true },
		{ "20261121T031500.123Z.0000000a.0-2.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.086400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.snap", false },
		{ "20261121T031500.123Z.6F3C21AA.86400123.snap", false }, { "20261121T031500.123Z.6f3c21a.86400123.snap", false },
		{ "20261121T031500.123Z.6f3c21aa1.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa..snap", false },
		{ "20261121T031500.123Z.00000000.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.-6.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.99999999999999999999.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.864-1.snap", false }, { "20261121T031500.123Z..snap", false },
		{ "20261121T031500.123Z-2.6f3c21aa.86400123.snap", false },
		{ "", false }, { ".snap", false }, { "20261121T031500.123Z", false },
		{ "20261121T031500.123Z.snap.zst", false }, { "20261121T031500.123Z.snap~", false },
		{ ".20261121T031500.123Z.snap", false }, { "a20261121T031500.123Z.snap", false },
		{ "20261121T031500.123Z-1.snap", false }, { "20261121T031500.123Z-02.snap", false },
		{ "20261121T031500.123Z-.snap", false }, { "20261121T031500.123Z-2-3.snap", false },
		{ "20261121T031500.123Z--2.snap", false }, { "20261121T031500.123Z- 2.snap", false },
		{ "20261121T031500.123Z-1048576.snap", false },
		{ "20261121T031500.123Z-99999999999.snap", false },
		{ "20261121T031500Z.snap", false }, { "20261121T031500.12Z.snap", false },
		{ "20261121 031500.123Z.snap", false }, { "20260229T031500.123Z.snap", false },
		{ "20261321T031500.123Z.snap", false }, { "20261121T241500.123Z.snap", false },
		{ "20261121T031560.123Z.snap", false }, { "2026 121T031500.123Z.snap", false },
		{ "19691231T235959.999Z.snap", false }, { "99991121T031500.123Z.snap", false },
		{ "20261121T031500.-23Z.snap", false }, { "20261121T031500.123z.snap", false },
	};
	char text[MOMENT_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moment moment = { .nr = 7 };

		cr_expect_eq(moment_parse(cases[i].name, &moment), cases[i].is_ours, "%s", cases[i].name);
		if (cases[i].is_ours)
			cr_expect_str_eq(moment_name(text, &moment), cases[i].name);
		else
			cr_expect_eq(moment.nr, 7);
	}
}

Test(archive_names, of_files_of_users_are_recognized)
{
	static const struct {
		const char *path;
		bool is_name, is_path;
	} cases[] = {
		{ "a.snap", true, true }, { ".snap", false, false }, { ".a.snap", false, true }, { "a.snap~", false, false },
		{ "d/a.snap", true, true }, { "d/.snap", true, false }, { "", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(is_snapshot_name(cases[i].path), cases[i].is_name, "%s", cases[i].path);
		cr_expect_eq(is_snapshot_path(cases[i].path), cases[i].is_path, "%s", cases[i].path);
	}
}

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
