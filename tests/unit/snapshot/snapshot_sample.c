// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot_sample.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/array.h"

static uint32_t string_of(struct snapshot_builder *builder, const char *text)
{
	uint32_t id = UINT32_MAX;

	cr_assert_eq(snapshot_builder__string(builder, text, &id), 0);
	return id;
}

static uint32_t add_object(struct snapshot_builder *builder, const char *path, const char *build_id)
{
	struct snap_object object = {
		.path = string_of(builder, path), .build_id = string_of(builder, build_id),
	};
	uint32_t id = UINT32_MAX;

	cr_assert_eq(snapshot_builder__object(builder, &object, &id), 0);
	return id;
}

static void add_frames(struct snapshot_builder *builder, uint32_t libc, uint32_t app)
{
	const struct snap_frame frame[] = {
		{ string_of(builder, "main.c"), 7, string_of(builder, "main"), app, 0x1170, 0, 0 },
		{ string_of(builder, "libc.so"), 0, string_of(builder, "malloc"), libc, 0x9a,
		  0, 0 },
		{ string_of(builder, "list.c"), 3, string_of(builder, "push"), app, 0x1170,
		  SNAP_FRAME_INLINE, 0 },
	};
	uint32_t id;

	for (uint32_t i = 0; i < ARRAY_SIZE(frame); i++) {
		cr_assert_eq(snapshot_builder__frame(builder, &frame[i], &id), 0);
		cr_assert_eq(id, i + 1);
	}
}

static void add_traces(struct snapshot_builder *builder)
{
	const uint32_t whole[] = { 2, 3, 1 }, cut[] = { 2, 1 };
	const struct snap_trace trace[] = {
		{ .size = 100, .birth_ns = 11, .address = 0x1000, .traceback = 1, .thread = 41 },
		{ .size = 200, .birth_ns = 12, .address = 0x2000, .traceback = 2, .domain = 1,
		  .thread = 42 },
		{ .size = 300, .birth_ns = 13, .address = 0x3000, .traceback = 1, .thread = 41 },
		{ .birth_ns = 14, .address = 0x4000, .thread = 43 },
	};
	uint32_t id;

	cr_assert_eq(snapshot_builder__traceback(builder, whole, 3, 3, 0, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, cut, 2, 9, SNAP_TRACEBACK_LIMITED, &id),
		     0);
	for (size_t i = 0; i < ARRAY_SIZE(trace); i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace[i]), 0);
}

struct snapshot_builder *sample_builder(unsigned int columns)
{
	struct snapshot_builder *builder = snapshot_builder__new(columns);
	struct snap_probe probe = { .offset = 0x98, .placement = 3 };
	uint32_t libc, app;

	cr_assert(builder);
	libc = add_object(builder, "/lib/libc.so", "0a1b");
	app = add_object(builder, "/bin/app", NULL);
	add_frames(builder, libc, app);
	add_traces(builder);
	probe.object = libc;
	probe.function = string_of(builder, "malloc");
	probe.instruction = string_of(builder, "push %rbp");
	cr_assert_eq(snapshot_builder__probe(builder, &probe), 0);
	cr_assert_eq(snapshot_builder__metadata(builder, "pid", "4711"), 0);
	cr_assert_eq(snapshot_builder__metadata(builder, "comm", "app"), 0);
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_COUNTED, "allocations", 17), 0);
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "blocks_dropped", 3), 0);
	return builder;
}

struct sample sample_make(void)
{
	struct snapshot_builder *builder = sample_builder(SNAP_WITH_ALL);
	struct sample sample;
	void *bytes;

	cr_assert_eq(snapshot_builder__serialize(builder, &bytes, &sample.len), 0);
	snapshot_builder__free(builder);
	sample.bytes = bytes;
	return sample;
}

struct snapshot *sample_finish(struct snapshot_builder *builder)
{
	struct snapshot *snapshot = NULL;

	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

struct sample sample_serialize(const struct snapshot *snapshot,
			       const struct snapshot_save_options *options)
{
	struct sample sample;
	void *bytes;

	cr_assert_eq(snapshot__serialize(snapshot, options, &bytes, &sample.len), 0);
	sample.bytes = bytes;
	return sample;
}

void sample_release(struct sample *sample)
{
	free(sample->bytes);
}

struct snap_header *sample_header(struct sample *sample)
{
	return (struct snap_header *)sample->bytes;
}

static struct snap_section *section_at(struct sample *sample, uint32_t i)
{
	return (struct snap_section *)(sample->bytes + sizeof(struct snap_header)) + i;
}

struct snap_section *sample_section(struct sample *sample, uint32_t type)
{
	for (uint32_t i = 0; i < sample_header(sample)->section_nr; i++)
		if (section_at(sample, i)->type == type)
			return section_at(sample, i);
	cr_assert_fail("the sample has no section %u", type);
	return NULL;
}

/* Straight from the words of snapshot.h, not with the code that is tested. */
void sample_seal(struct sample *sample)
{
	struct snap_header *header = sample_header(sample);
	size_t table_len = header->section_nr * sizeof(struct snap_section);

	if (table_len > sample->len - sizeof(*header))
		return;
	for (uint32_t i = 0; i < header->section_nr; i++) {
		struct snap_section *section = section_at(sample, i);

		if (section->offset <= sample->len &&
		    section->size <= sample->len - section->offset)
			section->checksum = XXH3_64bits(sample->bytes + section->offset,
							section->size);
	}
	header->checksum = 0;
	header->checksum = XXH3_64bits(sample->bytes, sizeof(*header) + table_len);
}

void sample_drop(struct sample *sample, uint32_t type)
{
	struct snap_section *section = sample_section(sample, type);
	struct snap_section *last = section_at(sample, --sample_header(sample)->section_nr);

	memset(sample->bytes + section->offset, 0, section->size);
	memmove(section, section + 1, (char *)last - (char *)section);
	memset(last, 0, sizeof(*last));
}

void sample_poke(struct sample *sample, void *where, uint64_t value, size_t width)
{
	size_t offset = (char *)where - sample->bytes;

	cr_assert(offset <= sample->len && width <= sample->len - offset);
	memcpy(where, &value, width);
}

void sample_expect_refused(struct sample *sample, const char *what, int err, const char *says)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open_memory(sample->bytes, sample->len, &why);

	cr_expect(!snapshot, "%s: was opened", what);
	if (!snapshot)
		cr_expect_eq(errno, err, "%s: errno %d: %s", what, errno, why.text);
	cr_expect(strstr(why.text, says) && !strchr(why.text, '\n'), "%s: says '%s', not '%s'",
		  what, why.text, says);
	snapshot__close(snapshot);
}

static size_t walk_object(const struct snapshot *snapshot, uint32_t id)
{
	const struct snap_object *object = &snapshot__tables(snapshot)->object[id];

	return strlen(snapshot__string(snapshot, object->path)) +
	       strlen(snapshot__string(snapshot, object->build_id));
}

static size_t walk_traceback(const struct snapshot *snapshot, uint32_t id)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	size_t len = 0;

	for (uint32_t i = 0; i < t->traceback[id].nframe; i++) {
		uint32_t frame = t->traceback_frame[t->traceback[id].first + i];

		len += strlen(snapshot__string(snapshot, t->frame[frame].filename)) +
		       strlen(snapshot__string(snapshot, t->frame[frame].function)) +
		       walk_object(snapshot, t->frame[frame].object) +
		       (t->frame_first_line ? t->frame_first_line[frame] % 2 : 0);
	}
	return len;
}

static size_t walk_descriptions(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	size_t len = 0;

	for (uint32_t i = 0; i < t->metadata_nr; i++)
		len += strlen(snapshot__string(snapshot, t->metadata[i].key)) +
		       strlen(snapshot__string(snapshot, t->metadata[i].value));
	for (uint32_t i = 0; i < t->counter_nr; i++)
		len += strlen(snapshot__string(snapshot, t->counter[i].name));
	for (uint32_t i = 0; i < t->probe_nr; i++)
		len += walk_object(snapshot, t->probe[i].object) +
		       strlen(snapshot__string(snapshot, t->probe[i].function)) +
		       strlen(snapshot__string(snapshot, t->probe[i].instruction));
	return len;
}

size_t sample_walk(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	size_t len = walk_descriptions(snapshot);

	for (uint32_t i = 0; i < t->string_nr; i++)
		len += strlen(snapshot__string(snapshot, i));
	for (uint32_t i = 0; i < t->object_nr; i++)
		len += walk_object(snapshot, i);
	for (uint32_t i = 0; i < t->traceback_nr; i++)
		len += walk_traceback(snapshot, i);
	for (uint64_t i = 0; i < t->trace_nr; i++)
		len += walk_traceback(snapshot, t->trace_traceback[i]) + t->trace_size[i] % 2;
	return len;
}
