// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/emitter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "render/clean.h"
#include "render/json_parts.h"

struct emitter emit_to(FILE *file, bool is_json)
{
	return (struct emitter){ .file = file, .is_json = is_json };
}

void emit_err(struct emitter *out, int err)
{
	out->err = out->err ?: err;
}

bool emits_text(const struct emitter *out)
{
	return !out->is_json && !out->err;
}

bool emits_json(const struct emitter *out)
{
	return out->is_json && !out->err;
}

/* ---- text ---- */

void emit_line(struct emitter *out, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (emits_text(out))
		out->err = put_line_of(out->file, TONE_PLAIN, fmt, args);
	va_end(args);
}

void emit_toned_line(struct emitter *out, enum tone tone, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (emits_text(out))
		out->err = put_line_of(out->file, tone, fmt, args);
	va_end(args);
}

#define PLACE_LEAST 30 /* columns that a place gets behind others */

void emit_row_of(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place)
{
	char *row = NULL;

	if (place && asprintf(&row, "%s%s", columns, place) < 0)
		row = NULL;
	free(place);
	if (emits_text(out))
		emit_err(out, put_toned_row(out->file, width, row, row ? strlen(row) : 0, ROW_FUNCTION, tone));
	else
		free(row);
}

void emit_place(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place)
{
	if (!width || text_columns(columns) + PLACE_LEAST <= width) {
		emit_row_of(out, width, tone, columns, place);
		return;
	}
	emit_toned_line(out, tone, "%.*s", (int)(strlen(columns) - strlen("  ")), columns);
	emit_row_of(out, width, tone, "    ", place);
}

/* ---- JSON ---- */

/* Takes over the value. */
static void push_open(struct emitter *out, json_t *value)
{
	if (!value || out->depth == EMIT_DEPTH)
		out->err = -ENOMEM;
	else
		out->open[out->depth++] = value;
}

/* Takes ownership of the value; NULL: no memory. */
static void emit_value(struct emitter *out, const char *key, json_t *value)
{
	if (emits_json(out) && !out->depth)
		push_open(out, json_object());
	if (!emits_json(out))
		json_decref(value);
	else if (key)
		out->err = json_set(out->open[out->depth - 1], key, value);
	else if (json_array_append_new(out->open[out->depth - 1], value))
		out->err = -ENOMEM;
}

void emit_text(struct emitter *out, const char *key, const char *text)
{
	if (text && emits_json(out))
		emit_value(out, key, json_clean_string(text));
}

void emit_int(struct emitter *out, const char *key, int64_t value)
{
	if (emits_json(out))
		emit_value(out, key, json_integer(value));
}

void emit_uint(struct emitter *out, const char *key, uint64_t value)
{
	if (emits_json(out))
		emit_value(out, key, json_count(value));
}

void emit_bool(struct emitter *out, const char *key, bool value)
{
	emit_value(out, key, json_boolean(value));
}

void emit_real(struct emitter *out, const char *key, double value)
{
	if (emits_json(out) && isfinite(value))
		emit_value(out, key, json_real(value));
}

/* A row is no item of what is open: it is written when it is closed. */
static void open_value(struct emitter *out, const char *key, json_t *value)
{
	if (!emits_json(out)) {
		json_decref(value);
		return;
	}
	if (out->depth || !out->has_rows)
		emit_value(out, key, value);
	if (!out->err)
		push_open(out, value);
}

void emit_object(struct emitter *out, const char *key)
{
	open_value(out, key, json_object());
}

void emit_list(struct emitter *out, const char *key)
{
	open_value(out, key, json_array());
}

/* Writes the answer or a row, and drops it. */
static void write_open(struct emitter *out, size_t flags)
{
	json_t *value = out->open[0];

	out->open[0] = NULL;
	out->depth = 0;
	out->err = json_put(out->file, value, flags);
}

void emit_rows(struct emitter *out, const char *key)
{
	if (!emits_json(out))
		return;
	putc('{', out->file);
	write_open(out, JSON_EMBED);
	fprintf(out->file, ",\"%s\":[", key);
	out->has_rows = true;
}

void emit_end(struct emitter *out)
{
	if (!emits_json(out))
		return;
	if (out->has_rows && !out->depth) {
		emit_err(out, fputs("]}", out->file) < 0 ? -errno ?: -EIO : 0);
		return;
	}
	out->depth--;
	if (!out->has_rows || out->depth)
		return;
	if (out->row_nr++)
		putc(',', out->file);
	write_open(out, 0);
}

int emit_finish(struct emitter *out)
{
	if (emits_json(out) && !out->has_rows)
		write_open(out, 0);
	if (emits_json(out) && putc('\n', out->file) == EOF)
		out->err = -errno ?: -EIO;
	json_decref(out->open[0]);
	return out->err;
}

int emit_value_of(struct emitter *out, json_t **ret)
{
	*ret = json_unless(out->err, out->open[0]);
	return out->err;
}

/* ---- both ---- */

void emit_section(struct emitter *out, const char *key, const char *heading)
{
	emit_toned_line(out, TONE_HEAD, "%s", heading);
	emit_object(out, key);
}
