// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/json_parts.h"

#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "render/clean.h"
#include "snapshot.h"

int json_set(json_t *object, const char *key, json_t *value)
{
	char *clean = clean_copy(key);
	int err = -ENOMEM;

	if (clean && value)
		err = json_object_set_new(object, clean, value) ? -ENOMEM : 0;
	else
		json_decref(value);
	free(clean);
	return err;
}

json_t *json_clean_string(const char *text)
{
	char *clean = clean_copy(text);
	json_t *value = clean ? json_string(clean) : NULL;

	free(clean);
	return value;
}

json_t *json_unless(int err, json_t *value)
{
	if (!err)
		return value;
	json_decref(value);
	return NULL;
}

int json_set_text(json_t *object, const char *key, const char *text)
{
	return text ? json_set(object, key, json_clean_string(text)) : 0;
}

int json_set_int(json_t *object, const char *key, int64_t value)
{
	return json_set(object, key, json_integer(value));
}

int json_set_uint(json_t *object, const char *key, uint64_t value)
{
	return json_set(object, key, value > INT64_MAX ? json_real(value) : json_integer(value));
}

int json_put(FILE *out, json_t *value, size_t flags)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(16) | flags) : NULL;
	int err = 0;

	json_decref(value);
	if (!text)
		return -ENOMEM;
	if (fputs(text, out) < 0)
		err = -errno ?: -EIO;
	free(text);
	return err;
}

json_t *json_sampling(const struct snapshot *snapshot)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	json_t *object = json_object();
	int err = 0;

	if (!is_sampled || bytes)
		err = json_set_uint(object, "bytes", is_sampled ? bytes : 0);
	if (is_sampled)
		err = err ?: json_set(object, "confidence", json_real(0.95));
	return json_unless(err, object);
}

static json_t *frame_json(const struct frame_view *frame)
{
	json_t *object = json_object();
	int err = json_set_text(object, "filename", frame->filename);

	err = err ?: json_set_uint(object, "lineno", frame->lineno);
	err = err ?: json_set_text(object, "function", frame->function);
	err = err ?: json_set_text(object, "object", frame->object);
	if (frame->offset)
		err = err ?: json_set_uint(object, "offset", frame->offset);
	return json_unless(err, object);
}

json_t *json_frames(const struct frame_view *frame, uint32_t nframe)
{
	json_t *array = json_array();
	int err = 0;

	for (uint32_t i = 0; i < nframe && !err; i++)
		if (json_array_append_new(array, frame_json(&frame[i])))
			err = -ENOMEM;
	return json_unless(err, array);
}
