// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/snapshot_moment.h"

#include <errno.h>

#include "base/reason.h"
#include "snapshot.h"
#include "snapshot/private.h"

struct moment snapshot_moment(const struct snapshot *snapshot)
{
	uint64_t monotonic_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	return (struct moment){
		.wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0),
		.monotonic_ns = monotonic_ns,
		.boot = monotonic_ns ? boot_parse(snapshot__metadata(snapshot, "boot_id")) : 0,
		.nr = 1,
	};
}

int snapshot_moment_read(const char *path, struct moment *ret)
{
	struct reason why;
	struct snapshot *head = snap_open_head(path, &why);

	if (!head)
		return -errno;
	*ret = snapshot_moment(head);
	snapshot__close(head);
	return 0;
}
