// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/snapshot_identity.h"

#include <stdio.h>
#include <stdlib.h>

#include "snapshot.h"

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
