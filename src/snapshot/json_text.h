/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_JSON_TEXT_H
#define ALLOCSNAP_SNAPSHOT_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/*
 * A JSON text, value by value. The caller parses the brackets and commas of the outer values itself
 * and lets jansson parse the values inside, so only one value is in memory. If the text is not as
 * the caller expects, jansson reports the error as it would for the whole text.
 */
struct json_text {
	const char *start, *at, *end;
	/* From `cut` to `resume` there are only valid elements of an array, with their commas. */
	const char *cut, *resume;
	bool no_memory; /* while parsing the last value */
};

#define JSON_TEXT(text, len) \
	{ .start = (text), .at = (text), .end = (text) + (len), .cut = (text), .resume = (text) }

/* Skips white space and returns the next character; 0: the end of the text, or a NUL. */
char json_text__peek(struct json_text *text);

/* Skips the next character if it is the wanted one, and returns whether it was. */
bool json_text__take(struct json_text *text, char want);

/*
 * Parses and skips the next value, which is nested in `outer` arrays and objects. NULs in strings
 * are allowed. NULL: it is no JSON, or no_memory is set.
 */
json_t *json_text__value(struct json_text *text, int outer);

/*
 * jansson's error for the text, with the line and the column in the whole text. False: there is no
 * error, only a value that is longer than jansson can count.
 */
bool json_text__error(const struct json_text *text, json_error_t *error);

#endif
