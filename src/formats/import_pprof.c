// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "formats/profile_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/units.h"
#include "formats/byte_buffer.h"
#include "formats/pprof.h"

/* A pprof profile: locations and their frames, then tables and samples. */

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
	uint32_t *known; /* for each string the builder's id and 1, or 0 */
	struct protobuf_reader *sample;
	size_t sample_nr, sample_alloc;
	struct pprof_type type[VALUE_TYPES_MAX], period_type;
	size_t type_nr;
	uint64_t period, time_ns;
	uint32_t *frame; /* of the builder, for all locations */
	size_t frame_nr, frame_alloc;
	uint32_t unknown_frame; /* the frame of which nothing is known; 0: none yet */
	/* Indexes of types; -1: the profile does not have it. */
	int live, live_bytes, allocated, allocated_bytes;
};

/* Returns -EBADMSG, with a line in *why. */
static int refuse_pprof(const struct pprof_import *pprof, const char *what)
{
	return import_refuse(pprof->in, -EBADMSG, "a damaged pprof profile: %s", what);
}

/* The row with this id, or NULL. */
static struct pprof_row *pprof_find_row(const struct pprof_rows *rows, uint64_t id)
{
	uint32_t at = idmap_find_key(&rows->ids, &id, sizeof(id), rows->row, sizeof(*rows->row));

	return at == IDMAP_NONE ? NULL : &rows->row[at];
}

/* ---- strings ---------------------------------------------------------------------------------------- */

/* Whether string number `at` of the table is this text. */
static bool pprof_string_is(const struct pprof_import *pprof, uint64_t at, const char *text)
{
	size_t len = strlen(text);

	return at < pprof->string_nr && (size_t)(pprof->string[at].end - pprof->string[at].at) == len &&
	       !memcmp(pprof->string[at].at, text, len);
}

/* A string for a message. */
static const char *clean_pprof_string(const struct pprof_import *pprof, uint64_t at, char *clean, size_t room)
{
	const struct protobuf_reader *string = at < pprof->string_nr ? &pprof->string[at] : NULL;
	char text[64];

	snprintf(text, sizeof(text), "%.*s", string ? (int)(string->end - string->at) : 0,
		 string && string->at ? (const char *)string->at : "");
	return clean_text(clean, room, text);
}

/* The builder's id of a string. */
static int intern_string(struct pprof_import *pprof, uint64_t at, uint32_t *ret)
{
	const struct protobuf_reader *string;
	char *copy;
	int err;

	if (at >= pprof->string_nr)
		return refuse_pprof(pprof, "a string that is not in the table");
	if (pprof->known[at]) {
		*ret = pprof->known[at] - 1;
		return 0;
	}
	string = &pprof->string[at];
	if (string->at < string->end && memchr(string->at, 0, string->end - string->at))
		return refuse_pprof(pprof, "a string with a NUL");
	copy = strndup((const char *)(string->at ?: (const uint8_t *)""), string->end - string->at);
	err = copy ? snapshot_builder__string(pprof->in->builder, copy, ret) : -ENOMEM;
	free(copy);
	if (err)
		return import_no_memory(pprof->in);
	pprof->known[at] = *ret + 1;
	return 0;
}

/* ---- frames ----------------------------------------------------------------------------------------- */

struct pprof_mapping_row {
	uint64_t start, offset, filename, build_id;
};

static int read_mapping_row(struct pprof_import *pprof, uint64_t id, struct pprof_mapping_row *ret)
{
	const struct pprof_row *row = pprof_find_row(&pprof->mappings, id);
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

/* Whether a name is a place, which may be "", and a suffix. Both are strings of the table. */
static bool is_named_by(const struct pprof_import *pprof, uint64_t name, uint64_t place, const char *suffix)
{
	const struct protobuf_reader *text = &pprof->string[name], *begin = &pprof->string[place];
	size_t len = begin->end - begin->at, suffix_len = strlen(suffix);

	return (size_t)(text->end - text->at) == len + suffix_len && (!len || !memcmp(text->at, begin->at, len)) &&
	       (!suffix_len || !memcmp(text->at + len, suffix, suffix_len));
}

/*
 * A function without a name is called by its place, as allocsnap writes it: "OBJECT+0xOFFSET", "0xADDRESS",
 * "FILE:LINE", "FILE", or if that is not known either "<unknown>", which earlier versions wrote as "[unknown]".
 */
static bool is_place_name(const struct pprof_import *pprof, uint64_t name, uint64_t object, uint64_t file,
			  const struct snap_frame *frame)
{
	char offset[24], line[16] = "";

	snprintf(offset, sizeof(offset), "%s0x%llx", pprof_string_is(pprof, object, "") ? "" : "+",
		 (unsigned long long)frame->offset);
	if (frame->lineno)
		snprintf(line, sizeof(line), ":%u", frame->lineno);
	return pprof_string_is(pprof, name, "<unknown>") || pprof_string_is(pprof, name, "[unknown]") ||
	       is_named_by(pprof, name, object, offset) || is_named_by(pprof, name, file, line);
}

/* object: the string of its path. */
static int name_frame(struct pprof_import *pprof, uint64_t function_id, uint64_t object, struct snap_frame *frame)
{
	const struct pprof_row *function = pprof_find_row(&pprof->functions, function_id);
	uint64_t name = 0, system_name = 0, filename = 0;
	struct protobuf_reader reader;
	struct protobuf_field member;
	uint32_t file = 0;
	int err;

	if (!function) {
		frame->lineno = 0; /* a line of no file */
		return function_id ? refuse_pprof(pprof, "a function that is not in the table") : 0;
	}
	reader = function->message;
	while (protobuf_next(&reader, &member) == 1) {
		if (member.number == PPROF_FUNCTION_NAME)
			name = member.value;
		else if (member.number == PPROF_FUNCTION_SYSTEM_NAME)
			system_name = member.value;
		else if (member.number == PPROF_FUNCTION_FILENAME)
			filename = member.value;
	}
	if (pprof_string_is(pprof, name, ""))
		name = system_name;
	err = intern_string(pprof, filename, &file);
	if (!err && name >= pprof->string_nr)
		err = refuse_pprof(pprof, "a string that is not in the table");
	if (!err && !is_place_name(pprof, name, object, filename, frame))
		err = intern_string(pprof, name, &frame->function);
	frame->filename = file ?: frame->filename;
	frame->lineno = file ? frame->lineno : 0;
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
	if (!err)
		err = add_frame(pprof, location, &frame);
	if (!err && !frame.function && !frame.object && !frame.offset && frame.filename == place->frame.filename)
		pprof->unknown_frame = pprof->frame[pprof->frame_nr - 1];
	return err;
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

/* Adds the frames of a location to the current sample. 0 or a negative errno, with a line in *why. */
static int pprof_add_location(struct pprof_import *pprof, uint64_t id)
{
	struct pprof_row *location = pprof_find_row(&pprof->locations, id);
	int err = 0;

	if (!location)
		return refuse_pprof(pprof, "a location that is not in the table");
	if (!location->is_known)
		err = read_location(pprof, location);
	for (uint32_t i = 0; i < location->frame_nr && !err; i++)
		err = import_frame(pprof->in, pprof->frame[location->frame_first + i]);
	return err;
}

/*
 * pprof's profile.proto. Its tables may stand behind the samples that need them, so the first pass notes where
 * everything is. Ids are any numbers; strings are found by index.
 */

/* ---- is it one? ------------------------------------------------------------------------------------- */

#define HEAD_MOST 4096 /* bytes that are looked at */
#define FIELD_MOST 15
#define BIT(field) (1u << (field))
#define STRING_FIELDS (BIT(PPROF_STRING_TABLE) | BIT(PPROF_COMMENT))
#define MESSAGE_FIELDS                                                                                           \
	(BIT(PPROF_SAMPLE_TYPE) | BIT(PPROF_SAMPLE) | BIT(PPROF_MAPPING) | BIT(PPROF_LOCATION) | BIT(PPROF_FUNCTION) | \
	 BIT(PPROF_PERIOD_TYPE))

/* Whether there are nothing but fields of numbers, and of bytes if they are in the mask. */
static bool has_fields(struct protobuf_reader reader, uint32_t byte_fields)
{
	struct protobuf_field field;
	int more;

	while ((more = protobuf_next(&reader, &field)) == 1)
		if (field.number > FIELD_MOST ||
		    (field.wire != WIRE_VARINT && (field.wire != WIRE_BYTES || !(byte_fields & BIT(field.number)))))
			return false;
	return !more;
}

static bool is_pprof_field(const struct protobuf_field *field)
{
	static const uint32_t byte_fields[FIELD_MOST + 1] = {
		[PPROF_SAMPLE] = BIT(PPROF_SAMPLE_LOCATION) | BIT(PPROF_SAMPLE_VALUE) | BIT(PPROF_SAMPLE_LABEL),
		[PPROF_LOCATION] = BIT(PPROF_LOCATION_LINE),
	};
	uint32_t bit = field->number <= FIELD_MOST ? BIT(field->number) : 0;

	if (field->wire == WIRE_VARINT)
		return bit & ~(MESSAGE_FIELDS | BIT(PPROF_STRING_TABLE));
	if (field->wire != WIRE_BYTES)
		return false;
	return bit & STRING_FIELDS || (bit & MESSAGE_FIELDS && has_fields(field->bytes, byte_fields[field->number]));
}

/* Whether a field begins here that is too long for the head. */
static bool is_long_field(struct protobuf_reader reader)
{
	uint64_t tag, len;

	return protobuf_next_packed(&reader, &tag) == 1 && tag >> 3 <= FIELD_MOST && (tag & 7) == WIRE_BYTES &&
	       (MESSAGE_FIELDS | STRING_FIELDS) & BIT(tag >> 3) && protobuf_next_packed(&reader, &len) == 1 &&
	       len > (uint64_t)(reader.end - reader.at);
}

/* Writers put the fields in any order. Text may look like one field, but hardly like two with the right kinds. */
bool is_pprof(const char *bytes, size_t len)
{
	const uint8_t *begin = (const uint8_t *)bytes;
	struct protobuf_reader reader = { begin, begin + (len < HEAD_MOST ? len : HEAD_MOST) }, next = reader;
	struct protobuf_field field;
	size_t nr = 0;

	for (; protobuf_next(&next, &field) == 1; nr++, reader = next)
		if (!is_pprof_field(&field))
			return false;
	return nr > 1 || (len > HEAD_MOST && is_long_field(reader));
}

/* ---- tables ----------------------------------------------------------------------------------------- */

#define ROWS_MOST (16u << 20)  /* of one kind: a row of a few bytes takes many more in memory */
#define SMALL_ROW_MOST 4096    /* bytes: mappings and functions are read for each line */

static int refuse_rows(const struct pprof_import *pprof)
{
	return import_refuse(pprof->in, -EFBIG, "more than %u rows of one kind", ROWS_MOST);
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
	if (!row.id || pprof_find_row(rows, row.id))
		return refuse_pprof(pprof, row.id ? "two rows with one id" : "a row without an id");
	if (rows->row_nr == ROWS_MOST)
		return refuse_rows(pprof);
	return idmap_push(&rows->ids, rows, row, row.id, row) ? import_no_memory(pprof->in) : 0;
}

static int add_small_row(struct pprof_import *pprof, struct pprof_rows *rows, const struct protobuf_field *field)
{
	if (field->wire == WIRE_BYTES && field->bytes.end - field->bytes.at > SMALL_ROW_MOST)
		return refuse_pprof(pprof, "a mapping or a function of more than 4096 bytes");
	return add_row(pprof, rows, field);
}

static int add_sample(struct pprof_import *pprof, struct protobuf_reader sample)
{
	if (pprof->sample_nr == ROWS_MOST)
		return refuse_rows(pprof);
	return array_push(pprof, sample, sample) ? import_no_memory(pprof->in) : 0;
}

static int add_pprof_string(struct pprof_import *pprof, struct protobuf_reader string)
{
	if (pprof->string_nr == ROWS_MOST)
		return refuse_rows(pprof);
	return array_push(pprof, string, string) ? import_no_memory(pprof->in) : 0;
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
		return add_sample(pprof, field->bytes);
	case PPROF_MAPPING:
		return add_small_row(pprof, &pprof->mappings, field);
	case PPROF_LOCATION:
		return add_row(pprof, &pprof->locations, field);
	case PPROF_FUNCTION:
		return add_small_row(pprof, &pprof->functions, field);
	case PPROF_STRING_TABLE:
		return add_pprof_string(pprof, field->bytes);
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

static bool is_used_type(const struct pprof_import *pprof, int type)
{
	return type == pprof->live || type == pprof->live_bytes || type == pprof->allocated ||
	       type == pprof->allocated_bytes;
}

static int read_values(struct pprof_import *pprof, struct protobuf_field *field, uint64_t *value, size_t *value_nr)
{
	uint64_t element;
	int more;

	while ((more = next_element(field, &element)) == 1) {
		if (*value_nr == pprof->type_nr)
			return refuse_pprof(pprof, "a sample with more values than there are types");
		if (element > INT64_MAX && is_used_type(pprof, *value_nr))
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
		err = more < 0 ? refuse_pprof(pprof, "the locations of a sample") : pprof_add_location(pprof, id);
	return err;
}

static int end_pprof_sample(struct pprof_import *pprof, const uint64_t *value)
{
	const struct profile_blocks live = { pprof->live < 0 ? 0 : value[pprof->live], value[pprof->live_bytes], 1 };
	const struct snap_churn churn = {
		.allocations = pprof->allocated < 0 ? 0 : value[pprof->allocated],
		.allocated_bytes = pprof->allocated_bytes < 0 ? 0 : value[pprof->allocated_bytes],
	};

	/* allocsnap writes a traceback without frames as one frame of which nothing is known. */
	if (pprof->in->frame_nr == 1 && pprof->in->frame[0] == pprof->unknown_frame)
		pprof->in->frame_nr = 0;
	if (!live.count && !live.bytes && !churn.allocations && !churn.allocated_bytes) {
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
			if (pprof_string_is(pprof, pprof->type[i].type, names[name]) && pprof_string_is(pprof, pprof->type[i].unit, unit))
				return i;
	return -1;
}

static int refuse_types(const struct pprof_import *pprof)
{
	char types[160] = "", clean[48], unit[24];
	size_t len = 0;

	for (size_t i = 0; i < pprof->type_nr; i++) {
		clean_pprof_string(pprof, pprof->type[i].type, clean, sizeof(clean));
		clean_pprof_string(pprof, pprof->type[i].unit, unit, sizeof(unit));
		if (len + strlen(clean) + strlen(unit) + strlen("/, , …") >= sizeof(types)) {
			strcpy(types + len, ", …");
			break;
		}
		len += sprintf(types + len, "%s%s/%s", i ? ", " : "", clean, unit);
	}
	return import_refuse(pprof->in, -EBADMSG, "a pprof profile without inuse_space/bytes or space/bytes; it has %s",
			     *types ? types : "no types of values");
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
		return refuse_types(pprof);
	/* A period of 1 says that every block was recorded. */
	pprof->in->is_sampled = pprof->period > 1 && pprof_string_is(pprof, pprof->period_type.unit, "bytes");
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
	if (!err) {
		pprof.known = calloc(pprof.string_nr, sizeof(*pprof.known));
		err = pprof.known ? 0 : import_no_memory(in);
	}
	err = err ?: choose_types(&pprof) ?: read_samples(&pprof) ?: describe_pprof(&pprof);
	release_rows(&pprof.mappings);
	release_rows(&pprof.functions);
	release_rows(&pprof.locations);
	free(pprof.string);
	free(pprof.known);
	free(pprof.sample);
	free(pprof.frame);
	return err;
}
