// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/units.h"
#include "snapshot/private.h"

void snap_fill_tables(struct snapshot *s)
{
	const struct snap_rows *rows = s->rows;

	s->string_start = rows[SNAP_STRING_START].row;
	s->string_bytes = rows[SNAP_STRING_BYTES].row;
	s->tables = (struct snapshot_tables){
		.metadata = rows[SNAP_METADATA].row,
		.counter = rows[SNAP_COUNTERS].row,
		.probe = rows[SNAP_PROBES].row,
		.probe_domain = rows[SNAP_PROBE_DOMAIN].row,
		.object = rows[SNAP_OBJECTS].row,
		.frame = rows[SNAP_FRAMES].row,
		.frame_first_line = rows[SNAP_FRAME_FIRST_LINE].row,
		.traceback = rows[SNAP_TRACEBACKS].row,
		.churn = rows[SNAP_TRACEBACK_CHURN].row,
		.traceback_frame = rows[SNAP_TRACEBACK_FRAMES].row,
		.metadata_nr = rows[SNAP_METADATA].nr,
		.counter_nr = rows[SNAP_COUNTERS].nr,
		.probe_nr = rows[SNAP_PROBES].nr,
		.object_nr = rows[SNAP_OBJECTS].nr,
		.frame_nr = rows[SNAP_FRAMES].nr,
		.traceback_nr = rows[SNAP_TRACEBACKS].nr,
		.string_nr = rows[SNAP_STRING_START].nr,
		.traceback_frame_nr = rows[SNAP_TRACEBACK_FRAMES].nr,
		.gap = rows[SNAP_GAPS].row,
		.gap_nr = rows[SNAP_GAPS].nr,
		.trace_nr = rows[SNAP_TRACE_SIZE].nr,
		.trace_size = rows[SNAP_TRACE_SIZE].row,
		.trace_traceback = rows[SNAP_TRACE_TRACEBACK].row,
		.trace_domain = rows[SNAP_TRACE_DOMAIN].row,
		.trace_birth_ns = rows[SNAP_TRACE_BIRTH].row,
		.trace_address = rows[SNAP_TRACE_ADDRESS].row,
		.trace_thread = rows[SNAP_TRACE_THREAD].row,
		.trace_weight = rows[SNAP_TRACE_WEIGHT].row,
	};
}

void *snap_own_rows(struct snapshot *s, uint32_t type, uint64_t nr)
{
	size_t len = nr * snap_shapes[type].row_size;
	void *row = huge_pages_new(len);

	if (!row)
		return NULL;
	s->memory[type] = (struct snap_memory){ row, len };
	s->rows[type] = (struct snap_rows){ row, nr };
	return row;
}

struct snapshot_save_options snapshot__saved_with(const struct snapshot *s)
{
	return (struct snapshot_save_options){
		.compress = s->is_compressed,
		.compact = s->is_compact,
	};
}

const struct file_version *snapshot__file(const struct snapshot *s)
{
	return s->is_of_file ? &s->file : NULL;
}

void snapshot__close(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	for (uint32_t i = 0; i < SNAP_SECTION_TYPE_MAX; i++)
		huge_pages_free(snapshot->memory[i].bytes, snapshot->memory[i].len);
	free(snapshot);
}

const struct snapshot_tables *snapshot__tables(const struct snapshot *snapshot)
{
	return &snapshot->tables;
}

const char *snapshot__string(const struct snapshot *snapshot, uint32_t id)
{
	return snapshot->string_bytes + snapshot->string_start[id];
}

struct snap_trace snapshot__trace(const struct snapshot *snapshot, uint64_t at)
{
	const struct snapshot_tables *t = &snapshot->tables;

	return (struct snap_trace){
		.size = t->trace_size[at],
		.birth_ns = t->trace_birth_ns ? t->trace_birth_ns[at] : 0,
		.address = t->trace_address ? t->trace_address[at] : 0,
		.traceback = t->trace_traceback[at],
		.domain = t->trace_domain ? t->trace_domain[at] : 0,
		.thread = t->trace_thread ? t->trace_thread[at] : 0,
		.weight = t->trace_weight ? t->trace_weight[at] : 1,
	};
}

/* A block of 0 bytes contains its own address. */
int snapshot__find_address(const struct snapshot *snapshot, uint64_t address, uint64_t *ret_at)
{
	const struct snapshot_tables *t = &snapshot->tables;
	int err = -ENOENT;

	if (!t->trace_address)
		return t->trace_nr ? -ENODATA : -ENOENT;
	for (uint64_t i = 0; i < t->trace_nr; i++) {
		uint64_t inside = address - t->trace_address[i];

		if ((inside && inside >= t->trace_size[i]) ||
		    (!err && t->trace_size[i] >= t->trace_size[*ret_at]))
			continue;
		*ret_at = i;
		err = 0;
	}
	return err;
}

const char *snapshot__metadata(const struct snapshot *snapshot, const char *key)
{
	const struct snapshot_tables *t = &snapshot->tables;

	for (uint32_t i = 0; i < t->metadata_nr; i++)
		if (!strcmp(snapshot__string(snapshot, t->metadata[i].key), key))
			return snapshot__string(snapshot, t->metadata[i].value);
	return NULL;
}

const char *snapshot__domain_name(const struct snapshot *snapshot, uint32_t domain)
{
	char key[SNAP_DOMAIN_KEY_MAX];

	return snapshot__metadata(snapshot, snap_domain_key(key, domain));
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

	grown->row = huge_pages_new(grown_bytes(grown));
	if (!grown->row)
		return -ENOMEM;
	if (rows->nr)
		memcpy(grown->row, rows->row, rows->nr * snap_shapes[grown->type].row_size);
	return 0;
}

static void take_over_grown(struct snapshot *s, const struct grown *grown)
{
	struct snap_memory *memory = &s->memory[grown->type];

	huge_pages_free(memory->bytes, memory->len);
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
		huge_pages_free(grown[i].row, grown_bytes(&grown[i]));
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
