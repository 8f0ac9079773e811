// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot/builder.h"
#include "snapshot/json_tails.h"
#include "snapshot/json_text.h"

struct import {
	char name[SNAP_NAME_MAX];
	struct reason *why;
	struct json_text text;
	json_t *member; /* name → value, except the traces, which are an empty list */
	struct snapshot_builder *builder;
	struct json_tails tails;
	uint32_t *frame; /* of the current trace */
	size_t frame_nr, frame_alloc;
	uint32_t nframe_max; /* of all traces */
	bool has_weight;     /* a trace has a weight */
	int trace_err;	     /* of the first bad trace; reported only if the whole text is JSON */
};

/* The place of a value: "traces[3]", "traces[3]: frame 0". */
struct place {
	size_t trace;
	size_t frame; /* NO_FRAME: none */
};

#define NO_FRAME SIZE_MAX

static int no_memory(const struct import *in)
{
	return reason_set(in->why, -ENOMEM, "%s: %s", in->name, strerror(ENOMEM));
}

__attribute__((format(printf, 4, 5)))
static int refuse_json(const struct import *in, int err, const struct place *place, const char *fmt, ...)
{
	char what[128], where[64] = "";
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	if (place && place->frame == NO_FRAME)
		snprintf(where, sizeof(where), "traces[%zu]: ", place->trace);
	else if (place)
		snprintf(where, sizeof(where), "traces[%zu]: frame %zu: ", place->trace,
			 place->frame);
	return reason_set(in->why, err, "%s: %s%s", in->name, where, what);
}

static int whole_number(const struct import *in, const struct place *place, const json_t *value,
			const char *what, uint64_t max, uint64_t *ret)
{
	if (!json_is_integer(value))
		return refuse_json(in, -EBADMSG, place, "%s is not a whole number", what);
	if (json_integer_value(value) < 0)
		return refuse_json(in, -ERANGE, place, "%s is negative", what);
	if ((uint64_t)json_integer_value(value) > max)
		return refuse_json(in, -ERANGE, place, "%s is more than %" PRIu64, what, max);
	*ret = json_integer_value(value);
	return 0;
}

/* ---- a trace -------------------------------------------------------------------------------- */

static int read_frame(struct import *in, const struct place *place, const json_t *value)
{
	const json_t *filename = json_array_get(value, 0);
	struct snap_frame frame = { 0 };
	uint64_t lineno;
	uint32_t id;
	int err;

	if (json_array_size(value) != 2)
		return refuse_json(in, -EBADMSG, place, "not [filename, lineno]");
	if (!json_is_string(filename))
		return refuse_json(in, -EBADMSG, place, "the filename is not a string");
	if (strlen(json_string_value(filename)) != json_string_length(filename))
		return refuse_json(in, -EBADMSG, place, "the filename holds a NUL");
	err = whole_number(in, place, json_array_get(value, 1), "lineno", UINT32_MAX, &lineno);
	if (err)
		return err;
	frame.lineno = lineno;
	err = snapshot_builder__string(in->builder, json_string_value(filename),
				       &frame.filename) ?:
	      snapshot_builder__frame(in->builder, &frame, &id) ?: array_push(in, frame, id);
	return err ? no_memory(in) : 0;
}

static int read_frames(struct import *in, size_t trace, const json_t *value)
{
	struct place place = { trace, NO_FRAME };
	size_t nr = json_array_size(value);
	int err = 0;

	if (!json_is_array(value))
		return refuse_json(in, -EBADMSG, &place, "its traceback is not a list of frames");
	if (nr > SNAP_TRACEBACK_MAX)
		return refuse_json(in, -ERANGE, &place, "%zu frames are more than %u", nr,
				   SNAP_TRACEBACK_MAX);
	in->frame_nr = 0;
	for (place.frame = 0; place.frame < nr && !err; place.frame++)
		err = read_frame(in, &place, json_array_get(value, place.frame));
	if (nr > in->nframe_max)
		in->nframe_max = nr;
	return err;
}

static int read_numbers(const struct import *in, const struct place *place, const json_t *value,
			struct snap_trace *ret)
{
	uint64_t domain, size;
	int err;

	err = whole_number(in, place, json_array_get(value, 0), "domain", UINT32_MAX, &domain) ?:
	      whole_number(in, place, json_array_get(value, 1), "size", INT64_MAX, &size);
	if (!err)
		*ret = (struct snap_trace){ .size = size, .domain = domain };
	return err;
}

static int read_weight(struct import *in, const struct place *place, const json_t *value,
		       double *ret)
{
	if (!value)
		return 0;
	if (!json_is_number(value))
		return refuse_json(in, -EBADMSG, place, "weight is not a number");
	if (json_number_value(value) < 1)
		return refuse_json(in, -ERANGE, place, "weight is less than 1");
	*ret = json_number_value(value);
	in->has_weight = true;
	return 0;
}

/* Stores the trace's traceback and weight in *tail. */
static int read_trace(struct import *in, size_t at, const json_t *value, struct json_tail *tail)
{
	const struct place place = { at, NO_FRAME };
	const json_t *total = json_array_get(value, 3);
	uint64_t total_nframe = 0;
	struct snap_trace trace;
	int err;

	if (json_array_size(value) < 3 || json_array_size(value) > 5)
		return refuse_json(in, -EBADMSG, &place, "not [domain, size, frames, total_nframe]");
	err = read_numbers(in, &place, value, &trace);
	if (!err && total && !json_is_null(total))
		err = whole_number(in, &place, total, "total_nframe", UINT32_MAX, &total_nframe);
	err = err ?: read_weight(in, &place, json_array_get(value, 4), &trace.weight) ?:
	      read_frames(in, at, json_array_get(value, 2));
	if (err)
		return err;
	err = snapshot_builder__traceback(in->builder, in->frame, in->frame_nr, total_nframe, 0,
					  &trace.traceback) ?:
	      snapshot_builder__trace(in->builder, &trace);
	tail->traceback = trace.traceback;
	tail->weight = trace.weight;
	return err ? no_memory(in) : 0;
}

/*
 * Completes the head to "[domain, size, 0]". If that is valid JSON without NULs, the tail begins at
 * the right place.
 */
static bool read_head(const struct import *in, const char *end, struct snap_trace *ret)
{
	char head[JSON_HEAD_MAX + 2];
	size_t len = end - in->text.at;
	json_t *value;
	bool good;

	memcpy(mempcpy(head, in->text.at, len), "0]", 2);
	value = json_loadb(head, len + 2, 0, NULL);
	good = json_array_size(value) == 3 && !memchr(head, 0, len) &&
	       !read_numbers(in, NULL, value, ret);
	json_decref(value);
	return good;
}

/*
 * Reads a trace that has the same tail as an earlier one. 1: done, 0: it must be read completely,
 * or a negative errno.
 */
static int import_trace_of_known_tail(struct import *in, const struct json_tail *tail)
{
	const struct json_tail *known = tail->len ? json_tails__find(&in->tails, tail) : NULL;
	struct snap_trace trace;

	if (!known || !read_head(in, tail->text, &trace))
		return 0;
	trace.traceback = known->traceback;
	trace.weight = known->weight;
	in->text.at = tail->text + tail->len;
	return snapshot_builder__trace(in->builder, &trace) ? no_memory(in) : 1;
}

/* ---- the list of traces --------------------------------------------------------------------- */

static int syntax_error(const struct import *in)
{
	char clean[JSON_ERROR_TEXT_LENGTH];
	json_error_t error;
	int err = -EBADMSG;

	if (in->text.no_memory)
		return no_memory(in);
	if (!json_text__error(&in->text, &error))
		return refuse_json(in, -ERANGE, NULL, "a value of 2 GiB or more");
	if (!*error.text)
		return no_memory(in);
	if (json_error_code(&error) == json_error_numeric_overflow)
		err = -ERANGE;
	return reason_set(in->why, err, "%s: line %d, column %d: %s", in->name, error.line,
			  error.column, clean_text(clean, sizeof(clean), error.text));
}

static int read_new(struct import *in, size_t at, struct json_tail *tail)
{
	json_t *value = json_text__value(&in->text, 2);
	int err;

	if (!value)
		return syntax_error(in);
	if (!in->trace_err) {
		err = read_trace(in, at, value, tail);
		if (!err && tail->len && tail->text + tail->len == in->text.at &&
		    json_tails__add(&in->tails, tail))
			err = no_memory(in);
		in->trace_err = err;
	}
	json_decref(value);
	return 0;
}

static int read_next(struct import *in, size_t at)
{
	struct json_tail tail = { 0 };
	const char *start;
	int got = 0;

	json_text__peek(&in->text);
	start = in->text.at;
	if (!in->trace_err) {
		tail = json_tail__guess(start, in->text.end);
		got = import_trace_of_known_tail(in, &tail);
	}
	if (!got)
		got = read_new(in, at, &tail);
	if (got < 0)
		return got;
	in->text.resume = start;
	return 0;
}

static int read_traces(struct import *in)
{
	size_t nr = 0;
	int err;

	in->text.cut = in->text.resume = in->text.at;
	if (json_text__take(&in->text, ']'))
		return 0;
	do {
		err = read_next(in, nr++);
	} while (!err && json_text__take(&in->text, ','));
	if (!err && !json_text__take(&in->text, ']'))
		err = syntax_error(in);
	return err;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int read_value(struct import *in, const char *name)
{
	bool is_traces = !strcmp(name, "traces") && json_text__take(&in->text, '[');
	json_t *value = is_traces ? json_array() : json_text__value(&in->text, 1);

	if (!value)
		return is_traces ? no_memory(in) : syntax_error(in);
	if (json_object_set_new(in->member, name, value))
		return no_memory(in);
	return is_traces ? read_traces(in) : 0;
}

static int read_member(struct import *in)
{
	json_t *key = json_text__peek(&in->text) == '"' ? json_text__value(&in->text, 1) : NULL;
	const char *name = json_string_value(key);
	int err;

	if (!key || strlen(name) != json_string_length(key) ||
	    json_object_get(in->member, name) || !json_text__take(&in->text, ':'))
		err = syntax_error(in);
	else
		err = read_value(in, name);
	json_decref(key);
	return err;
}

static int import_members(struct import *in)
{
	int err;

	if (json_text__take(&in->text, '}'))
		return 0;
	do {
		err = read_member(in);
	} while (!err && json_text__take(&in->text, ','));
	if (!err && !json_text__take(&in->text, '}'))
		err = syntax_error(in);
	return err;
}

/* If the limit is missing, the longest traceback stands for it, as in an export. */
static int read_limit(struct import *in, const json_t *value)
{
	uint64_t limit = in->nframe_max ?: 1;
	char text[32];
	int err = 0;

	if (value && !json_is_null(value))
		err = whole_number(in, NULL, value, "traceback_limit", INT64_MAX, &limit);
	if (err)
		return err;
	snprintf(text, sizeof(text), "%" PRIu64, limit);
	err = snapshot_builder__metadata(in->builder, "source", "tracemalloc JSON") ?:
	      snapshot_builder__metadata(in->builder, "traceback_limit", text);
	return err ? no_memory(in) : 0;
}

static int check_imported_traces(const struct import *in)
{
	const json_t *value = json_object_get(in->member, "traces");

	if (!value)
		return refuse_json(in, -EBADMSG, NULL, "no traces");
	if (!json_is_array(value))
		return refuse_json(in, -EBADMSG, NULL, "traces is not a list");
	return in->trace_err;
}

/* A syntax error anywhere is reported before other errors. */
static int read_root(struct import *in)
{
	json_error_t error;
	int err;

	if (!json_text__take(&in->text, '{'))
		return json_text__error(&in->text, &error) ?
			       syntax_error(in) :
			       refuse_json(in, -EBADMSG, NULL, "not an object with traces");
	err = import_members(in);
	json_text__peek(&in->text);
	if (!err && in->text.at < in->text.end)
		err = syntax_error(in);
	return err ?: check_imported_traces(in) ?:
	       read_limit(in, json_object_get(in->member, "traceback_limit"));
}

static int import(struct import *in, struct snapshot **ret)
{
	int err;

	in->member = json_object();
	in->builder = snapshot_builder__new(SNAP_WITH_DOMAIN | SNAP_WITH_WEIGHT);
	err = in->member && in->builder ? read_root(in) : no_memory(in);
	json_decref(in->member);
	json_tails__release(&in->tails);
	free(in->frame);
	if (err) {
		snapshot_builder__free(in->builder);
		return err;
	}
	if (!in->has_weight)
		in->builder->columns &= ~SNAP_WITH_WEIGHT;
	return snapshot_builder__finish(in->builder, ret) ? no_memory(in) : 0;
}

struct snapshot *snapshot__import_json(const char *text, size_t len, const char *name,
				       struct reason *why)
{
	struct import in = { .why = why, .text = JSON_TEXT(text, len) };
	struct snapshot *snapshot = NULL;
	int err;

	clean_path(in.name, sizeof(in.name), name);
	err = import(&in, &snapshot);
	if (err)
		errno = -err;
	return snapshot;
}
