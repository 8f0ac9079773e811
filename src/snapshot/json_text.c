// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/json_text.h"

#include <limits.h>
#include <string.h>
#include <sys/param.h>

#define FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

char json_text__peek(struct json_text *text)
{
	while (text->at < text->end && *text->at && strchr(" \t\r\n", *text->at))
		text->at++;
	return text->at < text->end ? *text->at : 0;
}

bool json_text__take(struct json_text *text, char want)
{
	bool is_next = json_text__peek(text) == want;

	text->at += is_next;
	return is_next;
}

/* Whether jansson would accept the value if only so many levels are left. */
static bool fits_in_levels(json_t *value, int levels)
{
	bool good = levels > 0;

	for (size_t i = 0; good && i < json_array_size(value); i++)
		good = fits_in_levels(json_array_get(value, i), levels - 1);
	for (void *at = json_object_iter(value); good && at; at = json_object_iter_next(value, at))
		good = fits_in_levels(json_object_iter_value(at), levels - 1);
	return good;
}

json_t *json_text__value(struct json_text *text, int outer)
{
	json_error_t error;
	json_t *value;

	json_text__peek(text);
	value = json_loadb(text->at, MIN(text->end - text->at, INT_MAX),
			   FLAGS | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);
	text->no_memory = !value && !*error.text;
	if (value && (memchr(text->at, 0, error.position) ||
		      !fits_in_levels(value, JSON_PARSER_MAX_DEPTH - outer))) {
		json_decref(value);
		return NULL;
	}
	if (value)
		text->at += error.position;
	return value;
}

/* ---- errors --------------------------------------------------------------------------------- */

/*
 * Passes the text on without the part that was cut. It stops at a NUL and returns it every time:
 * jansson ignores a NUL after a number, true, false and null, and does not count it.
 */
static size_t feed(void *bytes, size_t room, void *arg)
{
	struct json_text *text = arg;
	const char *end, *nul;

	if (text->at == text->cut)
		text->at = text->resume;
	end = text->at < text->cut ? text->cut : text->end;
	if (text->at == end)
		return 0;
	if (!*text->at) {
		*(char *)bytes = 0;
		return 1;
	}
	end = text->at + MIN(room, (size_t)(end - text->at));
	nul = memchr(text->at, 0, end - text->at);
	room = (nul ?: end) - text->at;
	memcpy(bytes, text->at, room);
	text->at += room;
	return room;
}

/* Counts as jansson does: a column is a character, not a byte. */
static void count_lines(int *line, int *column, const char *at, const char *end)
{
	for (; at < end; at++) {
		if (*at == '\n') {
			++*line;
			*column = 0;
		} else if ((*at & 0xc0) != 0x80) {
			++*column;
		}
	}
}

bool json_text__error(const struct json_text *text, json_error_t *error)
{
	struct json_text again = *text;
	int line = 1, column = 0, cut_line, cut_column;
	json_t *root;

	again.at = text->start;
	root = json_load_callback(feed, &again, FLAGS, error);
	if (root) {
		json_decref(root);
		return false;
	}
	count_lines(&line, &column, text->start, text->cut);
	cut_line = line;
	cut_column = column;
	count_lines(&line, &column, text->cut, text->resume);
	if (error->line == cut_line)
		error->column += column - cut_column;
	error->line += line - cut_line;
	return true;
}
