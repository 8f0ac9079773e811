// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/write_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "render/json_parts.h"
#include "report/report_leaks.h"
#include "report/write_columns.h"

/* ---- names, frames, nodes -------------------------------------------------------------------------------------- */

static void write_strings(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"strings\":[");
	for (uint32_t i = 0; i < layout->string_nr; i++) {
		if (i)
			packed_json__text(json, ",");
		packed_json__value(json, json_clean_string(strpool_get(&data->strings, layout->string_at[i])), 0);
	}
	packed_json__text(json, "]");
}

/* -1: not known. */
static int64_t string_number(const struct report_layout *layout, uint32_t string)
{
	return string && layout->string[string] != IDMAP_NONE ? (int64_t)layout->string[string] : -1;
}

static int64_t frame_function_number(const struct report_layout *layout, const struct report_frame *frame)
{
	return string_number(layout, frame->function);
}

/* Without a line the file is that of the code, which is the object. */
static int64_t frame_file(const struct report_layout *layout, const struct report_frame *frame)
{
	return frame->line || frame->file != frame->object ? string_number(layout, frame->file) : -1;
}

static int64_t frame_line(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->line;
}

static int64_t frame_object(const struct report_layout *layout, const struct report_frame *frame)
{
	return string_number(layout, frame->object);
}

/* Unsigned: hostile files have any number. */
static int64_t frame_offset(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return (int64_t)frame->offset;
}

static int64_t frame_library(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->is_library;
}

static int64_t frame_kind(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->kind;
}

static const struct {
	const char *name;
	int64_t (*value)(const struct report_layout *layout, const struct report_frame *frame);
} frame_columns[] = {
	{ "function", frame_function_number }, { "file", frame_file },	      { "line", frame_line }, { "object", frame_object },
	{ "offset", frame_offset },	{ "library", frame_library }, { "kind", frame_kind },
};

static void write_frames(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"frames\":{");
	for (size_t column = 0; column < ARRAY_SIZE(frame_columns); column++) {
		if (column)
			packed_json__text(json, ",");
		packed_json__begin(json, frame_columns[column].name);
		for (uint32_t i = 0; i < layout->frame_nr; i++) {
			const struct report_frame *frame = &data->frame[layout->frame_at[i]];
			int64_t value = frame_columns[column].value(layout, frame);

			if (frame_columns[column].value == frame_offset)
				packed_json__uint(json, value);
			else
				packed_json__int(json, value);
		}
		packed_json__end(json);
	}
	packed_json__text(json, "}");
}

static void write_nodes(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"nodes\":{");
	packed_json__begin(json, "up");
	for (uint32_t i = 0; i < layout->node_nr; i++)
		packed_json__uint(json, i - layout->node[data->node[layout->node_at[i]].parent]);
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "frame");
	for (uint32_t i = 0; i < layout->node_nr; i++)
		packed_json__int(json, i ? (int64_t)layout->frame[data->node[layout->node_at[i]].frame] : -1);
	packed_json__end(json);
	packed_json__text(json, "}");
}

/* The number of nodes from the most recent call up to the site. */
static uint32_t frames_passed(const struct report_data *data, const struct report_traceback *traceback)
{
	uint32_t passed = 0;

	for (uint32_t node = traceback->node; node && node != traceback->site; node = data->node[node].parent)
		passed++;
	return passed;
}

static void write_tracebacks(struct packed_json *json, const struct report_data *data,
			     const struct report_layout *layout)
{
	uint32_t before = 0;

	packed_json__text(json, ",\"tracebacks\":{");
	packed_json__begin(json, "node");
	for (uint32_t i = 0; i < layout->traceback_nr; i++) {
		uint32_t node = layout->node[data->traceback[layout->traceback_at[i]].node];

		packed_json__uint(json, node - before);
		before = node;
	}
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "passed");
	for (uint32_t i = 0; i < layout->traceback_nr; i++)
		packed_json__uint(json, frames_passed(data, &data->traceback[layout->traceback_at[i]]));
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "cut");
	for (uint32_t i = 0; i < layout->traceback_nr; i++)
		packed_json__uint(json, data->traceback[layout->traceback_at[i]].is_cut);
	packed_json__end(json);
	packed_json__text(json, "}");
}

/* ---- keys and rows ---------------------------------------------------------------------------------------------- */

static int64_t key_thread(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->thread;
}

static int64_t key_domain(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->domain;
}

static int64_t key_size_class(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->size_class;
}

static int64_t key_process(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->process;
}

/* The number of the boundaries that the block was born after. */
static int64_t key_birth(const struct report_data *data, const struct report_key *key)
{
	size_t low = 0, high = data->boundary_ns_nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (data->boundary_ns[middle] <= key->birth_after_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct {
	const char *name;
	unsigned int column; /* enum report_key_column */
	int64_t (*value)(const struct report_data *data, const struct report_key *key);
} key_columns[] = {
	{ "thread", REPORT_KEY_THREAD, key_thread },
	{ "domain", REPORT_KEY_DOMAIN, key_domain },
	{ "size_class", REPORT_KEY_SIZE_CLASS, key_size_class },
	{ "birth", REPORT_KEY_BIRTH, key_birth },
	{ "process", REPORT_KEY_PROCESS, key_process },
};

/* A column of one value tells nothing apart. */
static bool is_key_column_needed(const struct report_data *data, const struct report_layout *layout, size_t column)
{
	if (!(layout->limits.key_columns & data->key_columns & key_columns[column].column))
		return false;
	for (uint32_t i = 1; i < layout->key_nr; i++)
		if (key_columns[column].value(data, &layout->key_at[i]) !=
		    key_columns[column].value(data, &layout->key_at[0]))
			return true;
	return false;
}

/* Returns the number of columns. */
static size_t write_keys(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	size_t written = 0;

	packed_json__text(json, ",\"keys\":{");
	for (size_t column = 0; column < ARRAY_SIZE(key_columns); column++) {
		if (!is_key_column_needed(data, layout, column))
			continue;
		packed_json__text(json, written++ ? "," : "");
		packed_json__begin(json, key_columns[column].name);
		for (uint32_t i = 0; i < layout->key_nr; i++)
			packed_json__int(json, key_columns[column].value(data, &layout->key_at[i]));
		packed_json__end(json);
	}
	packed_json__text(json, "}");
	return written;
}

static void write_rows(struct packed_json *json, const struct report_layout *layout, bool has_keys)
{
	uint32_t before = 0;

	packed_json__text(json, ",\"rows\":{");
	packed_json__begin(json, "traceback");
	for (uint32_t i = 0; i < layout->row_nr; i++) {
		packed_json__uint(json, layout->row_at[i].traceback - before);
		before = layout->row_at[i].traceback;
	}
	packed_json__end(json);
	if (has_keys) {
		packed_json__text(json, ",");
		packed_json__begin(json, "key");
		for (uint32_t i = 0; i < layout->row_nr; i++)
			packed_json__uint(json, layout->row_at[i].key);
		packed_json__end(json);
	}
	packed_json__text(json, "}");
}

static json_t *domain_json(const struct report_data *data, const struct report_domain *domain)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "number", domain->number);

	if (domain->name)
		err = err ?: json_set_text(object, "name", strpool_get(&data->strings, domain->name));
	return json_unless(err, object);
}

static void write_lists(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	size_t domain_nr = layout->limits.key_columns & REPORT_KEY_DOMAIN ? data->domain_nr : 0;

	packed_json__text(json, ",");
	packed_json__begin(json, "births_ns");
	for (size_t i = 0; i < data->boundary_ns_nr; i++)
		packed_json__uint(json, data->boundary_ns[i]);
	packed_json__end(json);
	packed_json__text(json, ",\"domains\":[");
	for (size_t i = 0; i < domain_nr; i++) {
		packed_json__text(json, i ? "," : "");
		packed_json__value(json, domain_json(data, &data->domain[i]), 0);
	}
	packed_json__text(json, "]");
}

/* Files are told by the numbers of their names here. */
static void write_sources(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	const char *file;
	json_t *lines, *sources = json_object();
	int err = sources ? 0 : -ENOMEM;
	uint32_t id;
	char number[16];

	json_object_foreach(data->sources, file, lines) {
		id = strtoul(file, NULL, 10);
		if (layout->string[id] == IDMAP_NONE)
			continue;
		snprintf(number, sizeof(number), "%u", layout->string[id]);
		err = err ?: json_set(sources, number, json_incref(lines));
	}
	packed_json__text(json, ",\"sources\":");
	packed_json__value(json, json_unless(err, sources), 0);
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

/* Names of the columns that the data have and the file has not. */
static json_t *dropped_columns(const struct report_data *data, const struct report_layout *layout)
{
	unsigned int dropped = data->key_columns_wanted & ~(data->key_columns & layout->limits.key_columns);
	json_t *names = json_array();
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(key_columns) && !err; i++)
		if (dropped & key_columns[i].column && json_array_append_new(names, json_string(key_columns[i].name)))
			err = -ENOMEM;
	return json_unless(err, names);
}

static json_t *merged_head(const struct report_data *data, const struct report_layout *layout)
{
	json_t *merged = json_object();
	int err = json_set_uint(merged, "tracebacks", layout->merged_nr) ?:
		  json_set_uint(merged, "of", layout->merged_of) ?:
		  json_set(merged, "share", json_real(layout->limits.share)) ?:
		  json_set(merged, "dropped_keys", dropped_columns(data, layout));

	if (layout->small_site_nr)
		err = err ?: json_set_uint(merged, "sites", layout->small_site_nr) ?:
		      json_set_uint(merged, "sites_of", layout->site_of) ?:
		      json_set(merged, "site_share", json_real(layout->small_site_share));
	return json_unless(err, merged);
}

static void write_head(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	json_t *head = json_copy(data->head);
	int err = 0;

	if (layout->merged_nr || layout->small_site_nr ||
	    data->key_columns_wanted & ~(data->key_columns & layout->limits.key_columns))
		err = json_set(head, "merged", merged_head(data, layout));
	packed_json__value(json, json_unless(err, head), JSON_EMBED);
}

int report_write_data(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	bool has_keys;
	int err;

	packed_json__text(json, "{");
	write_head(json, data, layout);
	write_strings(json, data, layout);
	write_frames(json, data, layout);
	write_nodes(json, data, layout);
	write_tracebacks(json, data, layout);
	write_lists(json, data, layout);
	has_keys = write_keys(json, data, layout);
	write_rows(json, layout, has_keys);
	report_write_leaks(json, data, layout);
	err = report_write_columns(json, data, layout);
	if (data->sources)
		write_sources(json, data, layout);
	packed_json__text(json, "}");
	return err;
}
