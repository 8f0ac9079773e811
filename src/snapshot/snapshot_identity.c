// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/snapshot_identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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

char *snapshot_identity(const struct snapshot *snapshot, enum identity_scope scope)
{
	static const char *const keys[] = { "host", "boot_id", "pid", "start_time_ticks", "exec_count",
					    "recording_start_monotonic_ns" };
	static const size_t key_nr[] = { [IDENTITY_PROCESS] = 4, [IDENTITY_IMAGE] = 5, [IDENTITY_RECORDING] = 6 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (size_t i = 0; i < key_nr[scope]; i++)
		fprintf(out, "%s\n", snapshot__metadata(snapshot, keys[i]) ?: "");
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}
