// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/private.h"

#include <errno.h>
#include <string.h>

#include "base/idmap.h"
#include "base/pages.h"

/* A copy of a section with more room, which later replaces the section. */
struct grown {
	uint32_t type;
	uint64_t nr;
	void *row;
};

static size_t grown_bytes(const struct grown *grown)
{
	return grown->nr * snap_shapes[grown->type].row_size;
}

static int grow_table(struct grown *grown, const struct snapshot *s)
{
	const struct snap_rows *rows = &s->rows[grown->type];

	grown->row = pages_new(grown_bytes(grown));
	if (!grown->row)
		return -ENOMEM;
	if (rows->nr)
		memcpy(grown->row, rows->row, rows->nr * snap_shapes[grown->type].row_size);
	return 0;
}

static void take_over_grown(struct snapshot *s, const struct grown *grown)
{
	struct snap_memory *memory = &s->memory[grown->type];

	pages_free(memory->bytes, memory->len);
	*memory = (struct snap_memory){ grown->row, grown_bytes(grown) };
	s->rows[grown->type] = (struct snap_rows){ grown->row, grown->nr };
}

/* The row of the key, or one past the last. */
static uint32_t find_metadata_row(const struct snapshot *s, const char *key)
{
	const struct snapshot_tables *t = &s->tables;
	uint32_t at = 0;

	while (at < t->metadata_nr && strcmp(snapshot__string(s, t->metadata[at].key), key))
		at++;
	return at;
}

/* Appends the two strings, and stores them as pair number `at`. */
static void write_metadata_pair(const struct snapshot *s, const struct grown grown[3], uint32_t at,
				const char *const text[2])
{
	uint32_t id = s->tables.string_nr;
	uint64_t end = s->rows[SNAP_STRING_BYTES].nr;

	((struct snap_pair *)grown[0].row)[at] = (struct snap_pair){ id, id + 1 };
	for (uint32_t i = 0; i < 2; i++) {
		((uint64_t *)grown[1].row)[id + i] = end;
		strcpy((char *)grown[2].row + end, text[i]);
		end += strlen(text[i]) + 1;
	}
}

static int grow_all(struct grown grown[3], const struct snapshot *s)
{
	int err = 0;

	for (uint32_t i = 0; i < 3 && !err; i++)
		err = grow_table(&grown[i], s);
	for (uint32_t i = 0; i < 3 && err; i++)
		pages_free(grown[i].row, grown_bytes(&grown[i]));
	return err;
}

int snapshot__set_metadata(struct snapshot *s, const char *key, const char *value)
{
	const char *const text[2] = { key, value };
	uint64_t len = strlen(key) + strlen(value) + 2;
	uint32_t at = find_metadata_row(s, key), pair_nr = s->tables.metadata_nr;
	struct grown grown[3] = {
		{ SNAP_METADATA, at < pair_nr ? pair_nr : pair_nr + 1 },
		{ SNAP_STRING_START, s->rows[SNAP_STRING_START].nr + 2 },
		{ SNAP_STRING_BYTES, s->rows[SNAP_STRING_BYTES].nr + len },
	};
	int err;

	if (!*key)
		return -EINVAL;
	if (s->tables.string_nr + 2ull >= IDMAP_NONE ||
	    grown[0].nr > snap_shapes[SNAP_METADATA].row_max)
		return -EOVERFLOW;
	err = grow_all(grown, s);
	if (err)
		return err;
	write_metadata_pair(s, grown, at, text);
	for (uint32_t i = 0; i < 3; i++)
		take_over_grown(s, &grown[i]);
	snap_fill_tables(s);
	return 0;
}
