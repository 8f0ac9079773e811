// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/pprof_profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "render/clean.h"
#include "render/statistic_text.h"

struct pprof_mapping {
	uint32_t path, build_id; /* strings */
};

struct pprof_function {
	uint32_t name, filename; /* strings */
};

/* Each inlined call has a location of its own: speedscope shows one line of a location only. */
struct pprof_location {
	uint64_t address;
	uint32_t mapping, function, line; /* ids; a mapping of 0: none */
	uint32_t padding;		  /* 0: the struct is compared as bytes */
};

/* A frame whose texts are the same strings has the same location. */
struct pprof_frame {
	const char *filename, *function, *object;
	uint64_t offset;
	uint32_t lineno;
	uint32_t has_variants;
	uint64_t location;
};

/* Everything before `location`. */
#define FRAME_KEY_BYTES offsetof(struct pprof_frame, location)

static void keep_error(struct pprof_profile *profile, int err)
{
	profile->body.err = profile->body.err ?: err;
}

/* ---- tables ----------------------------------------------------------------------------------------- */

uint32_t profile_string(struct pprof_profile *profile, const char *text)
{
	char *clean = clean_copy(text ?: "");
	uint32_t id = 0, empty;
	int err = clean ? strpool_add(&profile->strings, "", 0, &empty) : -ENOMEM;

	err = err ?: strpool_add(&profile->strings, clean, strlen(clean), &id);
	free(clean);
	keep_error(profile, err);
	return id;
}

static uint32_t find_mapping(struct pprof_profile *profile, const char *path, const char *build_id)
{
	const struct pprof_mapping mapping = { profile_string(profile, path), profile_string(profile, build_id) };

	for (size_t i = 0; i < profile->mapping_nr; i++)
		if (!memcmp(&profile->mapping[i], &mapping, sizeof(mapping)))
			return i + 1;
	keep_error(profile, array_push(profile, mapping, mapping));
	return profile->mapping_nr;
}

void profile_mapping(struct pprof_profile *profile, const char *path, const char *build_id)
{
	find_mapping(profile, path, build_id);
}

static bool same_function(uint32_t id, const void *key, const void *table)
{
	return !memcmp(&((const struct pprof_function *)table)[id], key, sizeof(struct pprof_function));
}

static uint32_t find_function(struct pprof_profile *profile, const char *name, const char *filename)
{
	const struct pprof_function function = { profile_string(profile, name), profile_string(profile, filename) };
	uint64_t hash = hash_bytes(&function, sizeof(function), 0);
	uint32_t id = idmap_find(&profile->function_index, hash, same_function, &function, profile->function);

	if (id != IDMAP_NONE)
		return id + 1;
	keep_error(profile, array_push(profile, function, function) ?:
			    idmap_add(&profile->function_index, hash, profile->function_nr - 1));
	return profile->function_nr;
}

static bool same_location(uint32_t id, const void *key, const void *table)
{
	return !memcmp(&((const struct pprof_location *)table)[id], key, sizeof(struct pprof_location));
}

static uint32_t find_location(struct pprof_profile *profile, const struct pprof_location *location)
{
	uint64_t hash = hash_bytes(location, sizeof(*location), 0);
	uint32_t id = idmap_find(&profile->location_index, hash, same_location, location, profile->location);

	if (id != IDMAP_NONE)
		return id + 1;
	keep_error(profile, array_push(profile, location, *location) ?:
			    idmap_add(&profile->location_index, hash, profile->location_nr - 1));
	return profile->location_nr;
}

static bool same_pprof_frame(uint32_t id, const void *key, const void *table)
{
	return !memcmp(&((const struct pprof_frame *)table)[id], key, FRAME_KEY_BYTES);
}

/* The file of a frame, unless it is the object: that is in the mapping. */
static const char *own_filename(const struct frame_view *frame)
{
	const char *place = frame->object ?: "<unknown>";

	return frame->lineno || strcmp(frame->filename, place) ? frame->filename : NULL;
}

static uint32_t location_of_frame(struct pprof_profile *profile, const struct frame_view *frame)
{
	char *name = frame_name(NULL, frame);
	struct pprof_location location = {
		.address = frame->offset,
		.mapping = frame->object ? find_mapping(profile, frame->object, frame->build_id) : 0,
		.line = frame->lineno,
	};

	if (!name)
		keep_error(profile, -ENOMEM);
	location.function = find_function(profile, name, own_filename(frame));
	free(name);
	return find_location(profile, &location);
}

/* ---- a sample --------------------------------------------------------------------------------------- */

void profile_add_frame(struct pprof_profile *profile, const struct frame_view *frame)
{
	struct pprof_frame seen = {
		.filename = frame->filename, .function = frame->function, .object = frame->object,
		.offset = frame->offset, .lineno = frame->lineno, .has_variants = frame->has_variants,
	};
	uint64_t hash = hash_bytes(&seen, FRAME_KEY_BYTES, 0);
	uint32_t id = idmap_find(&profile->frame_index, hash, same_pprof_frame, &seen, profile->frame);

	if (id == IDMAP_NONE) {
		seen.location = location_of_frame(profile, frame);
		keep_error(profile, array_push(profile, frame, seen) ?:
				    idmap_add(&profile->frame_index, hash, profile->frame_nr - 1));
	} else {
		seen.location = profile->frame[id].location;
	}
	protobuf_put_packed(&profile->location_ids, seen.location);
}

void profile_add_text(struct pprof_profile *profile, const char *text)
{
	const struct pprof_location location = { .function = find_function(profile, text, NULL) };

	protobuf_put_packed(&profile->location_ids, find_location(profile, &location));
}

void profile_end_sample(struct pprof_profile *profile, const int64_t *value, size_t value_nr,
			const struct pprof_label *label, size_t label_nr)
{
	struct byte_buffer *message = &profile->message, *part = &profile->part;

	protobuf_put_message(message, PPROF_SAMPLE_LOCATION, &profile->location_ids);
	for (size_t i = 0; i < value_nr; i++)
		protobuf_put_packed(part, value[i]);
	protobuf_put_message(message, PPROF_SAMPLE_VALUE, part);
	for (size_t i = 0; i < label_nr; i++) {
		protobuf_put_number(part, PPROF_LABEL_KEY, label[i].key);
		protobuf_put_number(part, PPROF_LABEL_STR, label[i].value);
		protobuf_put_message(message, PPROF_SAMPLE_LABEL, part);
	}
	protobuf_put_message(&profile->body, PPROF_SAMPLE, message);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

void profile_put_type(struct pprof_profile *profile, enum pprof_profile_field field, const char *type, const char *unit)
{
	struct byte_buffer *message = &profile->message;

	protobuf_put_number(message, PPROF_TYPE_TYPE, profile_string(profile, type));
	protobuf_put_number(message, PPROF_TYPE_UNIT, profile_string(profile, unit));
	protobuf_put_message(&profile->body, field, message);
}

/*
 * All names are there that are known. Without these marks pprof looks for more in the files of this machine, which may
 * be others. Addresses are offsets in the file, so there is no range of memory.
 */
static void put_mappings(struct pprof_profile *profile)
{
	struct byte_buffer *message = &profile->message;

	for (size_t i = 0; i < profile->mapping_nr; i++) {
		protobuf_put_number(message, PPROF_MAPPING_ID, i + 1);
		protobuf_put_number(message, PPROF_MAPPING_FILENAME, profile->mapping[i].path);
		protobuf_put_number(message, PPROF_MAPPING_BUILD_ID, profile->mapping[i].build_id);
		protobuf_put_number(message, PPROF_MAPPING_HAS_FUNCTIONS, true);
		protobuf_put_number(message, PPROF_MAPPING_HAS_FILENAMES, true);
		protobuf_put_number(message, PPROF_MAPPING_HAS_LINE_NUMBERS, true);
		protobuf_put_number(message, PPROF_MAPPING_HAS_INLINE_FRAMES, true);
		protobuf_put_message(&profile->body, PPROF_MAPPING, message);
	}
}

static void put_locations(struct pprof_profile *profile)
{
	struct byte_buffer *message = &profile->message, *part = &profile->part;

	for (size_t i = 0; i < profile->location_nr; i++) {
		const struct pprof_location *location = &profile->location[i];

		protobuf_put_number(message, PPROF_LOCATION_ID, i + 1);
		protobuf_put_number(message, PPROF_LOCATION_MAPPING, location->mapping);
		protobuf_put_number(message, PPROF_LOCATION_ADDRESS, location->address);
		protobuf_put_number(part, PPROF_LINE_FUNCTION, location->function);
		protobuf_put_number(part, PPROF_LINE_LINE, location->line);
		protobuf_put_message(message, PPROF_LOCATION_LINE, part);
		protobuf_put_message(&profile->body, PPROF_LOCATION, message);
	}
}

/*
 * Without a system name: where both are equal, pprof takes angle brackets and parentheses for parts of a C++ name and
 * cuts them, and nothing is left of "<module>".
 */
static void put_functions(struct pprof_profile *profile)
{
	struct byte_buffer *message = &profile->message;

	for (size_t i = 0; i < profile->function_nr; i++) {
		protobuf_put_number(message, PPROF_FUNCTION_ID, i + 1);
		protobuf_put_number(message, PPROF_FUNCTION_NAME, profile->function[i].name);
		protobuf_put_number(message, PPROF_FUNCTION_FILENAME, profile->function[i].filename);
		protobuf_put_message(&profile->body, PPROF_FUNCTION, message);
	}
}

int profile_finish(struct pprof_profile *profile)
{
	profile_string(profile, ""); /* a string table is never empty */
	put_mappings(profile);
	put_locations(profile);
	put_functions(profile);
	for (uint32_t i = 0; i < profile->strings.start_nr; i++) {
		const char *text = strpool_get(&profile->strings, i);

		protobuf_put_bytes(&profile->body, PPROF_STRING_TABLE, text, strlen(text));
	}
	return profile->body.err;
}

void profile_release(struct pprof_profile *profile)
{
	buffer_release(&profile->body);
	buffer_release(&profile->message);
	buffer_release(&profile->part);
	buffer_release(&profile->location_ids);
	strpool_release(&profile->strings);
	idmap_release(&profile->location_index);
	idmap_release(&profile->function_index);
	idmap_release(&profile->frame_index);
	free(profile->location);
	free(profile->function);
	free(profile->mapping);
	free(profile->frame);
	*profile = (struct pprof_profile){};
}
