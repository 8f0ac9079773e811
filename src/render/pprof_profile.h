/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_PPROF_PROFILE_H
#define ALLOCSNAP_RENDER_PPROF_PROFILE_H

#include "base/idmap.h"
#include "formats/byte_buffer.h"
#include "formats/pprof.h"

struct frame_view;

/*
 * A profile while it is made: the messages so far, and the tables that they refer to by id. A zeroed struct is an empty
 * profile. Errors stay in body.err, as in a buffer. Texts are cleaned, so that they are UTF-8.
 */
struct pprof_profile {
	struct byte_buffer body;    /* the fields of the whole message so far */
	struct byte_buffer message; /* one field that is being made… */
	struct byte_buffer part;    /* …and a field of it */
	struct byte_buffer location_ids; /* of the sample that is being made */
	struct strpool strings;
	struct pprof_location *location; /* id is index + 1, here and below */
	size_t location_nr, location_alloc;
	struct idmap location_index;
	struct pprof_function *function;
	size_t function_nr, function_alloc;
	struct idmap function_index;
	struct pprof_mapping *mapping;
	size_t mapping_nr, mapping_alloc;
	struct pprof_frame *frame; /* frames that were seen, by the addresses of their texts */
	size_t frame_nr, frame_alloc;
	struct idmap frame_index;
};

/* The id of a text in the string table. */
uint32_t profile_string(struct pprof_profile *profile, const char *text);

/* Makes an object known; the first one is what viewers take for the program. build_id may be NULL. */
void profile_mapping(struct pprof_profile *profile, const char *path, const char *build_id);

/* Adds a frame, or a text that is no frame, to the current sample. The most recent call comes first. */
void profile_add_frame(struct pprof_profile *profile, const struct frame_view *frame);
void profile_add_text(struct pprof_profile *profile, const char *text);

/* Ends the current sample. */
struct pprof_label {
	uint32_t key, value; /* strings */
};

void profile_end_sample(struct pprof_profile *profile, const int64_t *value, size_t value_nr,
			const struct pprof_label *label, size_t label_nr);

/* Puts type and unit of a value as this field of the profile. */
void profile_put_type(struct pprof_profile *profile, enum pprof_profile_field field, const char *type, const char *unit);

/* Puts mappings, locations, functions and strings; nothing can be added then. Returns 0 or a negative errno. */
int profile_finish(struct pprof_profile *profile);

void profile_release(struct pprof_profile *profile);

#endif
