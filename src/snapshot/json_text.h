/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_JSON_TEXT_H
#define ALLOCSNAP_SNAPSHOT_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/*
 * A JSON text, value by value. Who reads it takes the brackets and the commas of the outer ones
 * himself and lets jansson read what is between them, in the memory of one value. Where it does
 * not go on as he wants it, jansson says what is wrong, as it does about the whole text.
 */
struct json_text {
	const char *start, *at, *end;
	/* From `cut` to `resume` there are only good elements of an array, with their commas. */
	const char *cut, *resume;
	bool no_memory; /* for the last value */
};

#define JSON_TEXT(text, len) \
	{ .start = (text), .at = (text), .end = (text) + (len), .cut = (text), .resume = (text) }

/* Where white space ends; 0 is the end of the text, or a NUL. */
char json_text__peek(struct json_text *text);

/* Goes past a character if it is the next one. */
bool json_text__take(struct json_text *text, char want);

/*
 * Goes past the next value, which lies in `outer` arrays and objects. NULs in strings are let
 * through. NULL: it is no JSON, or no_memory.
 */
json_t *json_text__value(struct json_text *text, int outer);

/*
 * What jansson has against the text, with the line and the column in the whole. False: nothing,
 * a value is longer than it can count.
 */
bool json_text__error(const struct json_text *text, json_error_t *error);

#endif
