// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pprof's profile.proto. Its tables may stand behind the samples that need them, so the first pass notes where
 * everything is. Ids are any numbers; strings are found by index.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "formats/byte_buffer.h"
#include "formats/pprof.h"
#include "formats/profile_import.h"

#define VALUE_TYPES_MAX 32

/* A row of a table, by its id. */
struct pprof_row {
	uint64_t id;
	struct protobuf_reader message;
	/* A location, once a sample needs it, has its frames in pprof_import.frame. */
	bool is_known;
	size_t frame_first;
	uint32_t frame_nr;
};

struct pprof_rows {
	struct pprof_row *row;
	size_t row_nr, row_alloc;
	struct idmap ids;
};

/* The meaning of a value of a sample. */
struct pprof_type {
	uint64_t type, unit; /* strings */
};

struct pprof_import {
	struct profile_import *in;
	struct pprof_rows mappings, functions, locations;
	struct protobuf_reader *string;
	size_t string_nr, string_alloc;
	struct protobuf_reader *sample;
	size_t sample_nr, sample_alloc;
	struct pprof_type type[VALUE_TYPES_MAX], period_type;
	size_t type_nr;
	uint64_t period, time_ns;
	uint32_t *frame; /* of the builder, for all locations */
	size_t frame_nr, frame_alloc;
	/* Indexes of types; -1: the profile does not have it. */
	int live, live_bytes, allocated, allocated_bytes;
};

/*
 * Most writers begin with the first sample type, Go's with the type of the period: a message of a few bytes whose first
 * field is its type.
 */
bool is_pprof(const char *bytes, size_t len)
{
	return len > 4 && (bytes[0] == 0x0a || bytes[0] == 0x5a) && bytes[1] >= 2 && bytes[1] <= 12 && bytes[2] == 0x08;
}

static int refuse_pprof(const struct pprof_import *pprof, const char *what)
{
	return import_refuse(pprof->in, -EBADMSG, "a damaged pprof profile: %s", what);
}

/* ---- tables ----------------------------------------------------------------------------------------- */

static bool same_row(uint32_t id, const void *key, const void *table)
{
	return ((const struct pprof_row *)table)[id].id == *(const uint64_t *)key;
}

static struct pprof_row *find_row(const struct pprof_rows *rows, uint64_t id)
{
	uint32_t at = idmap_find(&rows->ids, hash_bytes(&id, sizeof(id), 0), same_row, &id, rows->row);

	return at == IDMAP_NONE ? NULL : &rows->row[at];
}

/* All kinds of rows have their id in field 1. */
static int add_row(struct pprof_import *pprof, struct pprof_rows *rows, const struct protobuf_field *field)
{
	struct pprof_row row = { .message = field->bytes };
	struct protobuf_reader reader = field->bytes;
	struct protobuf_field member;
	int more = 0;

	if (field->wire != WIRE_BYTES)
		return refuse_pprof(pprof, "a row that is no message");
	while ((more = protobuf_next(&reader, &member)) == 1)
		if (member.number == 1)
			row.id = member.value;
	if (more < 0)
		return refuse_pprof(pprof, "a row");
	if (!row.id || find_row(rows, row.id))
		return refuse_pprof(pprof, row.id ? "two rows with one id" : "a row without an id");
	if (rows->row_nr >= IDMAP_NONE || array_push(rows, row, row) ||
	    idmap_add(&rows->ids, hash_bytes(&row.id, sizeof(row.id), 0), rows->row_nr - 1))
		return import_no_memory(pprof->in);
	return 0;
}

static void release_rows(struct pprof_rows *rows)
{
	idmap_release(&rows->ids);
	free(rows->row);
}

static int read_type(struct pprof_import *pprof, const struct protobuf_field *field, struct pprof_type *ret)
{
	struct protobuf_reader reader = field->bytes;
	struct protobuf_field member;
	int more;

	*ret = (struct pprof_type){};
	while ((more = protobuf_next(&reader, &member)) == 1) {
		if (member.number == PPROF_TYPE_TYPE)
			ret->type = member.value;
		else if (member.number == PPROF_TYPE_UNIT)
			ret->unit = member.value;
	}
	return more < 0 || field->wire != WIRE_BYTES ? refuse_pprof(pprof, "a type of values") : 0;
}

static int add_type(struct pprof_import *pprof, const struct protobuf_field *field)
{
	if (pprof->type_nr == VALUE_TYPES_MAX)
		return import_refuse(pprof->in, -ERANGE, "more than %u types of values", VALUE_TYPES_MAX);
	return read_type(pprof, field, &pprof->type[pprof->type_nr++]);
}

static int note_field(struct pprof_import *pprof, const struct protobuf_field *field)
{
	switch (field->number) {
	case PPROF_SAMPLE_TYPE:
		return add_type(pprof, field);
	case PPROF_SAMPLE:
		return array_push(pprof, sample, field->bytes) ? import_no_memory(pprof->in) : 0;
	case PPROF_MAPPING:
		return add_row(pprof, &pprof->mappings, field);
	case PPROF_LOCATION:
		return add_row(pprof, &pprof->locations, field);
	case PPROF_FUNCTION:
		return add_row(pprof, &pprof->functions, field);
	case PPROF_STRING_TABLE:
		return array_push(pprof, string, field->bytes) ? import_no_memory(pprof->in) : 0;
	case PPROF_TIME_NANOS:
		pprof->time_ns = field->value;
		return 0;
	case PPROF_PERIOD_TYPE:
		return read_type(pprof, field, &pprof->period_type);
	case PPROF_PERIOD:
		pprof->period = field->value;
		return 0;
	}
	return 0; /* of no use here, or of a later version */
}

static int note_fields(struct pprof_import *pprof, struct protobuf_reader reader)
{
	struct protobuf_field field;
	int more, err = 0;

	while (!err && (more = protobuf_next(&reader, &field)) != 0)
		err = more < 0 ? refuse_pprof(pprof, "not protobuf, or cut off") : note_field(pprof, &field);
	return err;
}

/* ---- strings ---------------------------------------------------------------------------------------- */

static bool string_is(const struct pprof_import *pprof, uint64_t at, const char *text)
{
	size_t len = strlen(text);

	return at < pprof->string_nr && (size_t)(pprof->string[at].end - pprof->string[at].at) == len &&
	       !memcmp(pprof->string[at].at, text, len);
}

/* The builder's id of a string. */
static int intern_string(struct pprof_import *pprof, uint64_t at, uint32_t *ret)
{
	const struct protobuf_reader *string;
	char *copy;
	int err;

	if (at >= pprof->string_nr)
		return refuse_pprof(pprof, "a string that is not in the table");
	string = &pprof->string[at];
	if (string->at < string->end && memchr(string->at, 0, string->end - string->at))
		return refuse_pprof(pprof, "a string with a NUL");
	copy = strndup((const char *)(string->at ?: (const uint8_t *)""), string->end - string->at);
	err = copy ? snapshot_builder__string(pprof->in->builder, copy, ret) : -ENOMEM;
	free(copy);
	return err ? import_no_memory(pprof->in) : 0;
}

/* ---- frames ----------------------------------------------------------------------------------------- */

struct pprof_mapping_row {
	uint64_t start, offset, filename, build_id;
};

static int read_mapping_row(struct pprof_import *pprof, uint64_t id, struct pprof_mapping_row *ret)
{
	const struct pprof_row *row = find_row(&pprof->mappings, id);
	struct protobuf_reader reader;
	struct protobuf_field member;

	*ret = (struct pprof_mapping_row){};
	if (!row)
		return id ? refuse_pprof(pprof, "a mapping that is not in the table") : 0;
	reader = row->message;
	while (protobuf_next(&reader, &member) == 1) {
		if (member.number == PPROF_MAPPING_START)
			ret->start = member.value;
		else if (member.number == PPROF_MAPPING_OFFSET)
			ret->offset = member.value;
		else if (member.number == PPROF_MAPPING_FILENAME)
			ret->filename = member.value;
		else if (member.number == PPROF_MAPPING_BUILD_ID)
			ret->build_id = member.value;
	}
	return 0;
}

/* The frame of a location without its line: object and offset, or an address. */
struct pprof_place {
	struct snap_frame frame;
	uint64_t object; /* the string of its path */
};

static int place_frame(struct pprof_import *pprof, uint64_t mapping_id, uint64_t address, struct pprof_place *ret)
{
	struct pprof_mapping_row mapping;
	struct snap_object object;
	int err = read_mapping_row(pprof, mapping_id, &mapping);

	err = err ?: intern_string(pprof, mapping.filename, &object.path);
	err = err ?: intern_string(pprof, mapping.build_id, &object.build_id);
	if (err)
		return err;
	*ret = (struct pprof_place){ { .filename = object.path, .offset = address }, mapping.filename };
	if (!object.path)
		return import_unknown_file(pprof->in, &ret->frame.filename);
	if (address >= mapping.start)
		ret->frame.offset = address - mapping.start + mapping.offset;
	return snapshot_builder__object(pprof->in->builder, &object, &ret->frame.object) ?
	       import_no_memory(pprof->in) : 0;
}

static int add_frame(struct pprof_import *pprof, struct pprof_row *location, const struct snap_frame *frame)
{
	uint32_t id;

	if (snapshot_builder__frame(pprof->in->builder, frame, &id) || array_push(pprof, frame, id))
		return import_no_memory(pprof->in);
	location->frame_nr++;
	return 0;
}

/* A function without a name is called by its place, "OBJECT+0xOFFSET" or "0xADDRESS", as allocsnap writes it. */
static bool is_place_name(const struct pprof_import *pprof, uint64_t name, uint64_t object, uint64_t offset)
{
	const struct protobuf_reader *path = object < pprof->string_nr ? &pprof->string[object] : NULL;
	char *text;
	bool is_same;

	if (string_is(pprof, name, "[unknown]"))
		return true;
	if (!path || asprintf(&text, "%.*s%s0x%llx", (int)(path->end - path->at), (const char *)path->at ?: "",
			      path->at < path->end ? "+" : "", (unsigned long long)offset) < 0)
		return false;
	is_same = string_is(pprof, name, text);
	free(text);
	return is_same;
}

/* object: the string of its path. */
static int name_frame(struct pprof_import *pprof, uint64_t function_id, uint64_t object, struct snap_frame *frame)
{
	const struct pprof_row *function = find_row(&pprof->functions, function_id);
	uint64_t name = 0, filename = 0;
	struct protobuf_reader reader;
	struct protobuf_field member;
	uint32_t file = 0;
	int err;

	if (!function)
		return function_id ? refuse_pprof(pprof, "a function that is not in the table") : 0;
	reader = function->message;
	while (protobuf_next(&reader, &member) == 1) {
		if (member.number == PPROF_FUNCTION_NAME)
			name = member.value;
		else if (member.number == PPROF_FUNCTION_FILENAME)
			filename = member.value;
	}
	err = intern_string(pprof, filename, &file);
	if (!err && !is_place_name(pprof, name, object, frame->offset))
		err = intern_string(pprof, name, &frame->function);
	if (!err && file && frame->lineno)
		frame->filename = file;
	return err;
}

/* A line is one call; all but the last were inlined into the next. */
static int add_pprof_line(struct pprof_import *pprof, struct pprof_row *location, struct protobuf_reader reader,
		    const struct pprof_place *place)
{
	struct snap_frame frame = place->frame;
	struct protobuf_field member;
	uint64_t function = 0;
	int more, err;

	while ((more = protobuf_next(&reader, &member)) == 1) {
		if (member.number == PPROF_LINE_FUNCTION)
			function = member.value;
		else if (member.number == PPROF_LINE_LINE && member.value <= UINT32_MAX)
			frame.lineno = member.value;
	}
	if (more < 0)
		return refuse_pprof(pprof, "a line");
	err = name_frame(pprof, function, place->object, &frame);
	if (frame.filename == place->frame.filename)
		frame.lineno = 0; /* a line of no file */
	if (!err && !frame.function && !frame.object && !frame.offset)
		return 0; /* as allocsnap writes a traceback without frames */
	return err ?: add_frame(pprof, location, &frame);
}

static int count_lines(struct protobuf_reader reader, uint64_t *ret_mapping, uint64_t *ret_address)
{
	struct protobuf_field member;
	int lines = 0;

	while (protobuf_next(&reader, &member) == 1) {
		if (member.number == PPROF_LOCATION_MAPPING)
			*ret_mapping = member.value;
		else if (member.number == PPROF_LOCATION_ADDRESS)
			*ret_address = member.value;
		lines += member.number == PPROF_LOCATION_LINE && member.wire == WIRE_BYTES;
	}
	return lines;
}

static int read_location(struct pprof_import *pprof, struct pprof_row *location)
{
	struct protobuf_reader reader = location->message;
	uint64_t mapping = 0, address = 0;
	int left = count_lines(reader, &mapping, &address), err;
	struct protobuf_field member;
	struct pprof_place place;

	location->is_known = true;
	location->frame_first = pprof->frame_nr;
	err = place_frame(pprof, mapping, address, &place);
	if (!err && !left)
		return add_frame(pprof, location, &place.frame);
	while (!err && protobuf_next(&reader, &member) == 1) {
		if (member.number != PPROF_LOCATION_LINE || member.wire != WIRE_BYTES)
			continue;
		place.frame.flags = --left ? SNAP_FRAME_INLINE : 0;
		err = add_pprof_line(pprof, location, member.bytes, &place);
	}
	return err;
}

static int add_location(struct pprof_import *pprof, uint64_t id)
{
	struct pprof_row *location = find_row(&pprof->locations, id);
	int err = 0;

	if (!location)
		return refuse_pprof(pprof, "a location that is not in the table");
	if (!location->is_known)
		err = read_location(pprof, location);
	for (uint32_t i = 0; i < location->frame_nr && !err; i++)
		err = import_frame(pprof->in, pprof->frame[location->frame_first + i]);
	return err;
}

/* ---- samples ---------------------------------------------------------------------------------------- */

/* The next element of a repeated number, which may be packed. Returns as protobuf_next_packed(). */
static int next_element(struct protobuf_field *field, uint64_t *ret)
{
	if (field->wire == WIRE_BYTES)
		return protobuf_next_packed(&field->bytes, ret);
	if (field->wire != WIRE_VARINT)
		return -EBADMSG;
	*ret = field->value;
	*field = (struct protobuf_field){ .wire = WIRE_BYTES }; /* nothing is left */
	return 1;
}

static int read_values(struct pprof_import *pprof, struct protobuf_field *field, uint64_t *value, size_t *value_nr)
{
	uint64_t element;
	int more;

	while ((more = next_element(field, &element)) == 1) {
		if (*value_nr == pprof->type_nr)
			return refuse_pprof(pprof, "a sample with more values than there are types");
		if (element > INT64_MAX)
			return import_refuse(pprof->in, -ERANGE, "a negative value: it is a difference, not a profile");
		value[(*value_nr)++] = element;
	}
	return more < 0 ? refuse_pprof(pprof, "the values of a sample") : 0;
}

static int read_locations(struct pprof_import *pprof, struct protobuf_field *field)
{
	uint64_t id;
	int more, err = 0;

	while (!err && (more = next_element(field, &id)) != 0)
		err = more < 0 ? refuse_pprof(pprof, "the locations of a sample") : add_location(pprof, id);
	return err;
}

static int end_pprof_sample(struct pprof_import *pprof, const uint64_t *value)
{
	const struct profile_blocks live = { pprof->live < 0 ? 0 : value[pprof->live], value[pprof->live_bytes], 1 };
	const struct snap_churn churn = {
		.allocations = pprof->allocated < 0 ? 0 : value[pprof->allocated],
		.allocated_bytes = pprof->allocated < 0 ? 0 : value[pprof->allocated_bytes],
	};

	if (!live.count && !live.bytes && !churn.allocations) {
		pprof->in->frame_nr = 0;
		return 0;
	}
	if (pprof->in->is_sampled && (live.count || live.bytes))
		return import_scaled_sample(pprof->in, live.count, live.bytes, &churn);
	return import_sample(pprof->in, &live, &churn);
}

static int read_sample(struct pprof_import *pprof, struct protobuf_reader reader)
{
	uint64_t value[VALUE_TYPES_MAX];
	struct protobuf_field field;
	size_t value_nr = 0;
	int more, err = 0;

	while (!err && (more = protobuf_next(&reader, &field)) != 0) {
		if (more < 0)
			err = refuse_pprof(pprof, "a sample");
		else if (field.number == PPROF_SAMPLE_LOCATION)
			err = read_locations(pprof, &field);
		else if (field.number == PPROF_SAMPLE_VALUE)
			err = read_values(pprof, &field, value, &value_nr);
	}
	if (!err && value_nr != pprof->type_nr)
		err = refuse_pprof(pprof, "a sample with fewer values than there are types");
	return err ?: end_pprof_sample(pprof, value);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

/* -1: there is no such type. */
static int find_type(const struct pprof_import *pprof, const char *const names[2], const char *unit)
{
	for (size_t i = 0; i < pprof->type_nr; i++)
		for (size_t name = 0; name < 2; name++)
			if (string_is(pprof, pprof->type[i].type, names[name]) && string_is(pprof, pprof->type[i].unit, unit))
				return i;
	return -1;
}

/* Other profilers leave out the word "inuse". */
static int choose_types(struct pprof_import *pprof)
{
	pprof->live_bytes = find_type(pprof, (const char *const[]){ "inuse_space", "space" }, "bytes");
	pprof->live = find_type(pprof, (const char *const[]){ "inuse_objects", "objects" }, "count");
	pprof->allocated_bytes = find_type(pprof, (const char *const[]){ "alloc_space", "alloc_space" }, "bytes");
	pprof->allocated = find_type(pprof, (const char *const[]){ "alloc_objects", "alloc_objects" }, "count");
	if (pprof->allocated_bytes < 0)
		pprof->allocated = -1;
	if (pprof->live_bytes < 0)
		return import_refuse(pprof->in, -EBADMSG, "a pprof profile, but not of a heap: it has no inuse_space in "
				     "bytes");
	/* A period of 1 says that every block was recorded. */
	pprof->in->is_sampled = pprof->period > 1 && string_is(pprof, pprof->period_type.unit, "bytes");
	if (pprof->period > INT64_MAX)
		return refuse_pprof(pprof, "its period");
	return 0;
}

static int read_samples(struct pprof_import *pprof)
{
	struct profile_import *in = pprof->in;
	int err = 0;

	in->builder = snapshot_builder__new((in->is_sampled ? SNAP_WITH_WEIGHT : 0) |
					    (pprof->allocated >= 0 ? SNAP_WITH_CHURN : 0));
	if (!in->builder)
		return import_no_memory(in);
	for (size_t i = 0; i < pprof->sample_nr && !err; i++)
		err = read_sample(pprof, pprof->sample[i]);
	return err;
}

static int describe_pprof(struct pprof_import *pprof)
{
	char text[24];
	int err = import_metadata(pprof->in, "pprof heap profile", pprof->in->is_sampled ? pprof->period : 0);

	snprintf(text, sizeof(text), "%llu", (unsigned long long)pprof->time_ns);
	if (!err && pprof->time_ns && pprof->time_ns <= INT64_MAX &&
	    snapshot_builder__metadata(pprof->in->builder, "wall_ns", text))
		err = import_no_memory(pprof->in);
	return err;
}

int import_pprof(struct profile_import *in, const void *bytes, size_t len)
{
	struct pprof_import pprof = { .in = in };
	int err = note_fields(&pprof, (struct protobuf_reader){ bytes, (const uint8_t *)bytes + len });

	if (!err && (!pprof.string_nr || pprof.string[0].at != pprof.string[0].end))
		err = refuse_pprof(&pprof, "its string table does not begin with an empty string");
	err = err ?: choose_types(&pprof) ?: read_samples(&pprof) ?: describe_pprof(&pprof);
	release_rows(&pprof.mappings);
	release_rows(&pprof.functions);
	release_rows(&pprof.locations);
	free(pprof.string);
	free(pprof.sample);
	free(pprof.frame);
	return err;
}
