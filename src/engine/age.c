// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/age.h"

#include <errno.h>

#include "base/reason.h"

int age_now(const struct snapshot *snapshot, uint64_t *ret_now_ns, struct reason *why)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", UINT64_MAX);

	if (!snapshot__tables(snapshot)->trace_birth_ns)
		return reason_set(why, -ENODATA, "the snapshot has no birth times, hence no ages");
	if (now_ns == UINT64_MAX)
		return reason_set(why, -ENODATA, "the snapshot does not say when it was taken "
						 "(monotonic_ns), hence no ages");
	*ret_now_ns = now_ns;
	return 0;
}

uint64_t age_of(const struct snapshot_tables *tables, uint64_t at, uint64_t now_ns)
{
	uint64_t birth_ns = tables->trace_birth_ns[at];

	return birth_ns < now_ns ? now_ns - birth_ns : 0;
}
