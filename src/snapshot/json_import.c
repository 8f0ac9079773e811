// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/private.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"

/* Names that are no UTF-8, in JSON. */

#define SPELLED_MOST 5 /* the length of \\xNN in JSON */

static bool is_surrogate(int unit, int first)
{
	return unit >= first && unit < first + 0x400;
}

/* The number of a \uNNNN at this place, or -1. */
static int read_escape(const char *at, const char *end)
{
	char digits[5] = "";

	if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return -1;
	memcpy(digits, at + 2, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

static char *spell_byte(char *to, unsigned int byte)
{
	return to + sprintf(to, "\\\\x%02x", byte & 0xff);
}

/* Python's surrogateescape has 0xdc00 and the byte. */
static char *spell_surrogate(char *to, int unit)
{
	if (unit >= 0xdc80 && unit <= 0xdcff)
		return spell_byte(to, unit - 0xdc00);
	to = spell_byte(to, 0xe0 | unit >> 12);
	to = spell_byte(to, 0x80 | (unit >> 6 & 0x3f));
	return spell_byte(to, 0x80 | (unit & 0x3f));
}

/* How many bytes stay as they are; 0: what is here must be spelled. */
static size_t kept_bytes(const char *at, const char *end)
{
	int unit = read_escape(at, end);
	char character[5] = "";

	if (is_surrogate(unit, 0xd800) && is_surrogate(read_escape(at + 6, end), 0xdc00))
		return 12;
	if (unit >= 0)
		return is_surrogate(unit, 0xd800) || is_surrogate(unit, 0xdc00) ? 0 : 6;
	if (*at == '\\')
		return end - at > 1 && isascii(at[1]) ? 2 : 1;
	memcpy(character, at, end - at < 4 ? end - at : 4);
	return isascii(*at) ? 1 : utf8_len(character);
}

/* Whether JSON text has bytes that are no UTF-8, or lone surrogates. Where bytes are spelled already, it has neither. */
static bool json_has_bytes(const char *text, size_t len)
{
	const char *at = text, *end = text + len;
	size_t kept = 1;

	for (; at < end && kept; at += kept)
		kept = kept_bytes(at, end);
	return !kept;
}

/* Takes a character of a string. 0: it is not of ASCII, or the text ends. */
static char take_ascii(const char **at, const char *end)
{
	const char *was = *at;
	int unit = read_escape(was, end);
	ptrdiff_t len = unit >= 0 ? 6 : was < end && *was == '\\' ? 2 : 1;

	if (end - was < len)
		return 0;
	*at += len;
	if (unit >= 0)
		return isascii(unit) ? unit : 0;
	return len == 1 ? *was : was[1] == '\\' ? '\\' : 0;
}

/* Whether a backslash, however it is written, would look as if it spelled a byte. */
static bool looks_spelled(const char *at, const char *end)
{
	char text[5] = "";

	if (*at != '\\')
		return false;
	for (int i = 0; i < 4; i++)
		text[i] = take_ascii(&at, end);
	return text[0] == '\\' && text[1] == 'x' && strspn(text + 2, "0123456789abcdef") == 2 &&
	       (text[2] >= '8' || !strcmp(text + 2, "00") || !strcmp(text + 2, "5c"));
}

/*
 * Spells bytes of JSON text that are no UTF-8 as \xNN within their strings: bytes of the text itself, and lone surrogates
 * ("\udce9"), which are what Python makes of such bytes. Another lone surrogate becomes the three bytes that encode it.
 * A backslash that would look as if it spelled one becomes \x5c. So does tracemalloc-to-json. Returns false if nothing
 * changes. Then, or without memory, *ret_text is NULL; the caller frees it.
 */
static bool json_spell_bytes(const char *text, size_t len, char **ret_text, size_t *ret_len)
{
	const char *at = text, *end = text + len;
	bool is_spelled = false;
	char *spelled, *to;

	*ret_text = NULL;
	spelled = to = malloc(len * SPELLED_MOST + 1);
	while (spelled && at < end) {
		size_t kept = kept_bytes(at, end);
		bool is_backslash = kept && looks_spelled(at, end);

		is_spelled |= !kept || is_backslash;
		if (is_backslash) {
			to = spell_byte(to, '\\');
			at += kept;
		} else if (kept) {
			to = mempcpy(to, at, kept);
			at += kept;
		} else if (*at == '\\') {
			to = spell_surrogate(to, read_escape(at, end));
			at += 6;
		} else {
			to = spell_byte(to, (unsigned char)*at++);
		}
	}
	if (is_spelled) {
		*ret_text = spelled;
		*ret_len = to - spelled;
	} else {
		free(spelled);
	}
	return is_spelled;
}

#define FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

#define HEAD_MAX 64 /* bytes of "[domain, size," */

/*
 * The rest of a trace's text after its first two numbers. Many traces have the same bytes there, and so the same
 * traceback; to parse them again would take ten times as long.
 */
struct tail {
	const char *text;
	size_t len;
	uint32_t traceback;
	double weight;
};

/*
 * jansson parses one trace at a time, because the values of all traces together would need gigabytes; then the text
 * without the traces.
 */
struct import {
	char name[SNAP_NAME_MAX];
	struct reason *why;
	const char *text, *end;
	struct snapshot_builder *builder;
	struct tail *tail;
	size_t tail_nr, tail_alloc;
	struct idmap tail_ids;
	uint32_t *frame; /* of the current trace */
	size_t frame_nr, frame_alloc;
	uint32_t nframe_max; /* of all traces */
	bool has_weight;     /* a trace has a weight */
	bool spells; /* names that are no UTF-8, and what looks so in other names: the whole text, or nothing of it */
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
	char what[192], where[64] = "";
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
static int read_trace(struct import *in, size_t at, const json_t *value, struct tail *tail)
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

/* ---- the text ------------------------------------------------------------------------------- */

/* A column is a character, not a byte. */
static int syntax_error(const struct import *in, int err, const char *at, const char *what)
{
	char clean[JSON_ERROR_TEXT_LENGTH];
	size_t line = 1, column = 0;

	for (const char *c = in->text; c < at; c++) {
		line += *c == '\n';
		column = *c == '\n' ? 0 : column + ((*c & 0xc0) != 0x80);
	}
	return reason_set(in->why, err, "%s: line %zu, column %zu: %s", in->name, line, column,
			  clean_text(clean, sizeof(clean), what));
}

/* The error of parsing the text from `start` on. */
static int report_jansson_error(const struct import *in, const json_error_t *error, const char *start)
{
	if (!*error->text)
		return no_memory(in);
	return syntax_error(in, json_error_code(error) == json_error_numeric_overflow ? -ERANGE : -EBADMSG,
			    start + error->position, error->text);
}

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && strchr(" \t\r\n", *at))
		at++;
	return at;
}

/* `at` is behind the first quote. */
static const char *skip_string(const char *at, const char *end)
{
	while (at < end && *at != '"')
		at += *at == '\\' && end - at > 1 ? 2 : 1;
	return at < end ? at + 1 : end;
}

/* Returns the end of the value if it is one: what ends it is a comma, or the bracket of what it is in. */
static const char *skip_value(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		char c = *at;

		if (!depth && (c == ',' || c == ']' || c == '}'))
			return at;
		depth += (c == '[' || c == '{') - (c == ']' || c == '}');
		at = c == '"' ? skip_string(at + 1, end) : at + 1;
	}
	return end;
}

/* Returns the text behind the bracket of the member "traces", or NULL: there is no such list. */
static const char *find_traces(const char *text, const char *end)
{
	static const char name[] = "\"traces\"";
	const char *at = skip_space(text, end), *key;

	if (at == end || *at != '{')
		return NULL;
	do {
		key = skip_space(at + 1, end);
		if (key == end || *key != '"')
			return NULL;
		at = skip_space(skip_string(key + 1, end), end);
		if (at == end || *at != ':')
			return NULL;
		at = skip_space(at + 1, end);
		if (at < end && *at == '[' && !strncmp(key, name, strlen(name)))
			return at + 1;
		at = skip_value(at, end);
	} while (at < end && *at == ',');
	return NULL;
}

static bool same_tail(uint32_t id, const void *key, const void *tails)
{
	const struct tail *a = &((const struct tail *)tails)[id], *b = key;

	return a->len == b->len && !memcmp(a->text, b->text, a->len);
}

/* Returns the text behind the second comma, or NULL. */
static const char *find_tail(const char *at, const char *end)
{
	const char *head_end = end - at < HEAD_MAX ? end : at + HEAD_MAX;

	for (int commas = 0; at && commas < 2; commas++) {
		at = memchr(at, ',', head_end - at);
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Reads the two numbers: completes them to "[domain, size, 0]". */
static bool read_head(const struct import *in, const char *at, const char *end, struct snap_trace *ret)
{
	char head[HEAD_MAX + 2];
	json_t *value;
	bool good;

	memcpy(mempcpy(head, at, end - at), "0]", 2);
	value = json_loadb(head, end - at + 2, 0, NULL);
	good = json_array_size(value) == 3 && !read_numbers(in, NULL, value, ret);
	json_decref(value);
	return good;
}

static json_t *parse_trace(const struct import *in, const char *at, const char *end, json_error_t *ret_error)
{
	char *spelled = NULL;
	size_t len = end - at;
	json_t *value;

	if (in->spells)
		json_spell_bytes(at, len, &spelled, &len);
	value = json_loadb(spelled ?: at, len, FLAGS | JSON_DECODE_ANY, ret_error);
	if (spelled)
		ret_error->position = 0; /* in the text as it was, the trace */
	free(spelled);
	return value;
}

static int read_new_trace(struct import *in, size_t nr, const char *at, const char *end, struct tail *tail)
{
	json_error_t error;
	json_t *value = parse_trace(in, at, end, &error);
	int err = value ? read_trace(in, nr, value, tail) : report_jansson_error(in, &error, at);

	json_decref(value);
	return err;
}

static int read_trace_text(struct import *in, size_t nr, const char *at, const char *end)
{
	const char *text = find_tail(at, end);
	struct tail tail = { text, text ? end - text : 0 };
	uint64_t hash = hash_bytes(text, tail.len, 0);
	uint32_t id = text ? idmap_find(&in->tail_ids, hash, same_tail, &tail, in->tail) : IDMAP_NONE;
	struct snap_trace trace;
	int err;

	if (id != IDMAP_NONE && read_head(in, at, text, &trace)) {
		trace.traceback = in->tail[id].traceback;
		trace.weight = in->tail[id].weight;
		return snapshot_builder__trace(in->builder, &trace) ? no_memory(in) : 0;
	}
	err = read_new_trace(in, nr, at, end, &tail);
	if (err || !text || id != IDMAP_NONE || in->tail_nr >= IDMAP_NONE)
		return err;
	err = array_push(in, tail, tail) ?: idmap_add(&in->tail_ids, hash, in->tail_nr - 1);
	return err ? no_memory(in) : 0;
}

/* *ret_end: what should be the closing bracket. */
static int read_traces(struct import *in, const char *at, const char **ret_end)
{
	struct progress progress = progress_begin("parsing", NULL, in->end - in->text);
	const char *end = skip_space(at, in->end);
	int err = 0;

	if (end == in->end || *end == ']' || *end == '}') {
		*ret_end = end;
		return 0;
	}
	for (size_t nr = 0; !err; nr++) {
		if (!(nr % PROGRESS_ROWS))
			progress_show(&progress, at - in->text);
		end = skip_value(at, in->end);
		err = read_trace_text(in, nr, at, end);
		if (end == in->end || *end != ',')
			break;
		at = end + 1;
	}
	progress_end(&progress);
	*ret_end = end;
	return err;
}

/* ---- the whole ------------------------------------------------------------------------------ */

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

/* JSON of another kind: its members say which. */
static int refuse_members(const struct import *in, json_t *root)
{
	char names[104] = "", clean[32];
	size_t len = 0;
	const char *key;
	json_t *value;

	json_object_foreach(root, key, value) {
		clean_text(clean, sizeof(clean), key);
		if (len + strlen(clean) + strlen(", , …") >= sizeof(names)) {
			strcpy(names + len, ", …");
			break;
		}
		len += sprintf(names + len, "%s%s", len ? ", " : "", clean);
	}
	return refuse_json(in, -EBADMSG, NULL, "no list \"traces\", as in tracemalloc's data; it has %s",
			   *names ? names : "no members");
}

static int read_members(struct import *in, json_t *root)
{
	const json_t *traces = json_object_get(root, "traces");

	if (!json_is_object(root))
		return refuse_json(in, -EBADMSG, NULL, "not an object with traces");
	if (!traces)
		return refuse_members(in, root);
	if (!json_is_array(traces) || json_array_size(traces))
		return refuse_json(in, -EBADMSG, NULL, "traces is not a list");
	return read_limit(in, json_object_get(root, "traceback_limit"));
}

/* Parses the text without the traces, which are from `cut` to `resume`. */
static int import_rest(struct import *in, const char *cut, const char *resume)
{
	size_t before = cut - in->text, after = in->end - resume;
	char *rest = malloc(before + after + 1);
	json_error_t error;
	json_t *root;
	int err;

	if (!rest)
		return no_memory(in);
	memcpy(mempcpy(rest, in->text, before), resume, after);
	root = json_loadb(rest, before + after, FLAGS, &error);
	if (root)
		err = read_members(in, root);
	else
		err = report_jansson_error(in, &error,
					   (size_t)error.position > before ? resume - before : in->text);
	json_decref(root);
	free(rest);
	return err;
}

static int import_text(struct import *in)
{
	const char *cut = find_traces(in->text, in->end), *resume = cut;
	const char *nul = memchr(in->text, 0, in->end - in->text);
	int err = 0;

	if (nul)
		return syntax_error(in, -EBADMSG, nul, "a NUL byte");
	if (cut)
		err = read_traces(in, cut, &resume);
	else
		cut = resume = in->end;
	return err ?: import_rest(in, cut, resume);
}

static int import(const struct import *given, struct snapshot **ret)
{
	struct import import = *given, *in = &import;
	int err;

	in->builder = snapshot_builder__new(SNAP_WITH_DOMAIN | SNAP_WITH_WEIGHT);
	err = in->builder ? import_text(in) : no_memory(in);
	idmap_release(&in->tail_ids);
	free(in->tail);
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
	struct import in = { .why = why, .text = text, .end = text + len };
	struct snapshot *snapshot = NULL;
	int err;

	clean_path(in.name, sizeof(in.name), name);
	err = import(&in, &snapshot);
	if (err == -EBADMSG && json_has_bytes(text, len)) {
		in.spells = true;
		err = import(&in, &snapshot);
	}
	if (err)
		errno = -err;
	return snapshot;
}
