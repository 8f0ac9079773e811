// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/reader.h"

#include <string.h>

#include "base/units.h"

const struct snapshot_tables *snapshot__tables(const struct snapshot *snapshot)
{
	return &snapshot->tables;
}

const char *snapshot__string(const struct snapshot *snapshot, uint32_t id)
{
	return snapshot->string_bytes + snapshot->string_start[id];
}

const char *snapshot__metadata(const struct snapshot *snapshot, const char *key)
{
	const struct snapshot_tables *t = &snapshot->tables;

	for (uint32_t i = 0; i < t->metadata_nr; i++)
		if (!strcmp(snapshot__string(snapshot, t->metadata[i].key), key))
			return snapshot__string(snapshot, t->metadata[i].value);
	return NULL;
}

uint64_t snapshot__metadata_u64(const struct snapshot *snapshot, const char *key,
				uint64_t otherwise)
{
	const char *text = snapshot__metadata(snapshot, key);
	uint64_t value;

	return text && !parse_count(text, 0, UINT64_MAX, &value) ? value : otherwise;
}

uint64_t snapshot__counter(const struct snapshot *snapshot, const char *name)
{
	const struct snapshot_tables *t = &snapshot->tables;

	for (uint32_t i = 0; i < t->counter_nr; i++)
		if (!strcmp(snapshot__string(snapshot, t->counter[i].name), name))
			return t->counter[i].value;
	return 0;
}
