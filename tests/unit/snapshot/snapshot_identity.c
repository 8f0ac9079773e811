// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

static struct snapshot *snapshot_of(const char *const *metadata)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snapshot *snapshot;

	for (; *metadata; metadata += 2)
		cr_assert_eq(snapshot_builder__metadata(builder, metadata[0], metadata[1]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static bool is_same_identity(const struct snapshot *a, const struct snapshot *b, enum identity_scope scope)
{
	char *of_a = snapshot_identity(a, scope), *of_b = snapshot_identity(b, scope);
	bool is_same = !strcmp(of_a, of_b);

	free(of_a);
	free(of_b);
	return is_same;
}

Test(snapshot_identity, has_scopes)
{
	static const struct {
		const char *key;
		bool is_same[3]; /* process, image, recording */
	} rows[] = {
		{ "comm", { true, true, true } },
		{ "recording_start_monotonic_ns", { true, true, false } },
		{ "exec_count", { true, false, false } },
		{ "start_time_ticks", { false, false, false } },
		{ "pid", { false, false, false } },
		{ "boot_id", { false, false, false } },
		{ "host", { false, false, false } },
	};
	struct snapshot *plain = snapshot_of((const char *const[]){ "pid", "1", NULL });

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct snapshot *other = snapshot_of((const char *const[]){ "pid", "1", rows[i].key, "2", NULL });

		for (int scope = 0; scope < 3; scope++)
			cr_expect_eq(is_same_identity(plain, other, scope), rows[i].is_same[scope], "%s, %d", rows[i].key,
				     scope);
		snapshot__close(other);
	}
	snapshot__close(plain);
}
