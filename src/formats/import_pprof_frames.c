// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The frames of a pprof profile's locations. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "formats/pprof.h"
#include "formats/pprof_import.h"

int refuse_pprof(const struct pprof_import *pprof, const char *what)
{
	return import_refuse(pprof->in, -EBADMSG, "a damaged pprof profile: %s", what);
}

static bool same_row(uint32_t id, const void *key, const void *table)
{
	return ((const struct pprof_row *)table)[id].id == *(const uint64_t *)key;
}

struct pprof_row *pprof_find_row(const struct pprof_rows *rows, uint64_t id)
{
	uint32_t at = idmap_find(&rows->ids, hash_bytes(&id, sizeof(id), 0), same_row, &id, rows->row);

	return at == IDMAP_NONE ? NULL : &rows->row[at];
}

/* ---- strings ---------------------------------------------------------------------------------------- */

bool pprof_string_is(const struct pprof_import *pprof, uint64_t at, const char *text)
{
	size_t len = strlen(text);

	return at < pprof->string_nr && (size_t)(pprof->string[at].end - pprof->string[at].at) == len &&
	       !memcmp(pprof->string[at].at, text, len);
}

const char *clean_pprof_string(const struct pprof_import *pprof, uint64_t at, char *clean, size_t room)
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

int pprof_add_location(struct pprof_import *pprof, uint64_t id)
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
