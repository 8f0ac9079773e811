// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine.h"

struct spec {
	struct filter filter;
	unsigned int seen; /* bits by row of spec_keys[] */
	struct reason *why;
};

/* ---- the keys ----------------------------------------------------------------------------- */

static int spec_set_line(struct spec *spec, const char *value)
{
	spec->filter.has_lineno = true;
	if (parse_count(value, 0, UINT64_MAX, &spec->filter.lineno))
		return reason_set(spec->why, -EINVAL,
				  "a line is a whole number below 2^64, not \"%s\"", value);
	return 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int set_domain(struct spec *spec, const char *value)
{
	uint64_t domain = 0;

	if (is_letter(*value))
		spec->filter.domain_name = value;
	else if (parse_count(value, 0, UINT32_MAX, &domain))
		return reason_set(spec->why, -EINVAL,
				  "a domain is a name or a whole number below 2^32, not \"%s\"", value);
	spec->filter.has_domain = true;
	spec->filter.domain = domain;
	return 0;
}

static int set_all_frames(struct spec *spec, const char *value)
{
	(void)value;
	spec->filter.all_frames = true;
	return 0;
}

enum spec_key_id {
	SPEC_FILE,
	SPEC_LINE,
};

/* A name that ends with = takes a value. */
static const struct spec_key {
	const char *name;
	int (*set)(struct spec *spec, const char *value); /* NULL: the value is a member of struct filter */
	size_t member;
} spec_keys[] = {
	[SPEC_FILE] = { "file=", .member = offsetof(struct filter, filename_pattern) },
	[SPEC_LINE] = { "line=", spec_set_line },
	{ "domain=", set_domain },
	{ "function=", .member = offsetof(struct filter, function_pattern) },
	{ "object=", .member = offsetof(struct filter, object_pattern) },
	{ "all-frames", set_all_frames },
	{ "all_frames", set_all_frames }, /* tracemalloc's spelling */
};

/* The key at the start of the text, or NULL. */
static const struct spec_key *spec_key_at(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(spec_keys); i++) {
		const struct spec_key *key = &spec_keys[i];
		size_t len = strlen(key->name);

		if (!strncmp(text, key->name, len) &&
		    (key->name[len - 1] == '=' || !text[len] || text[len] == ','))
			return key;
	}
	return NULL;
}

static int set_key(struct spec *spec, const struct spec_key *key, const char *value)
{
	unsigned int bit = 1u << (key - spec_keys);

	if (spec->seen & bit)
		return reason_set(spec->why, -EINVAL, "\"%s\" is there twice", key->name);
	spec->seen |= bit;
	if (key->set)
		return key->set(spec, value);
	*(const char **)((char *)&spec->filter + key->member) = value;
	return 0;
}

/* ---- segments ----------------------------------------------------------------------------- */

/* Ends the segment that begins at text. Returns the text after its comma, or NULL. */
static char *cut_segment(char *text)
{
	for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
		if (spec_key_at(comma + 1)) {
			*comma = '\0';
			return comma + 1;
		}
	}
	return NULL;
}

static int check_unknown_key(const char *text, struct reason *why)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz-");

	if (!len || text[len] != '=')
		return 0;
	return reason_set(why, -EINVAL,
			  "unknown key '%.*s%s'; there are file, line, domain, function, object "
			  "and all-frames; a file with '=' in its name is file=NAME",
			  len > 64 ? 64 : (int)len, text, len > 64 ? "…" : "");
}

/* The colon of PATTERN:LINENO, or NULL. */
static char *find_lineno(char *text)
{
	char *colon = strrchr(text, ':');

	return colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] ? colon : NULL;
}

static int spec_set_pattern(struct spec *spec, char *text)
{
	char *colon = find_lineno(text);
	int err = check_unknown_key(text, spec->why);

	if (err)
		return err;
	if (colon == text)
		return reason_set(spec->why, -EINVAL,
				  "\"%.100s\" names no file; '*%.100s' is line %.100s of any file",
				  text, text, text + 1);
	if (!*text)
		return reason_set(spec->why, -EINVAL,
				  "the filter is empty; the file without a name is file=");
	if (colon)
		*colon = '\0';
	err = set_key(spec, &spec_keys[SPEC_FILE], text);
	return !err && colon ? set_key(spec, &spec_keys[SPEC_LINE], colon + 1) : err;
}

static int set_segments(struct spec *spec, char *text)
{
	const struct spec_key *key = spec_key_at(text);
	char *next = cut_segment(text);
	int err = key ? set_key(spec, key, text + strlen(key->name)) : spec_set_pattern(spec, text);

	while (!err && (text = next)) {
		key = spec_key_at(text);
		next = cut_segment(text);
		err = set_key(spec, key, text + strlen(key->name));
	}
	return err;
}

static int check_filter_spec(const struct spec *spec)
{
	const struct filter *filter = &spec->filter;

	if (filter->all_frames && !filter->has_lineno && !filter->filename_pattern &&
	    !filter->function_pattern && !filter->object_pattern)
		return reason_set(spec->why, -EINVAL,
				  "all-frames needs a file, a line, a function or an object beside it");
	return 0;
}

int filter_parse(const char *text, bool inclusive, struct filter *ret, struct reason *why)
{
	struct spec spec = { .filter.inclusive = inclusive, .why = why };
	int err;

	spec.filter.owned = strdup(text);
	if (!spec.filter.owned)
		return reason_set(why, -ENOMEM, "out of memory");
	err = set_segments(&spec, spec.filter.owned) ?: check_filter_spec(&spec);
	if (err) {
		filter_release(&spec.filter);
		return err;
	}
	*ret = spec.filter;
	return 0;
}

void filter_release(struct filter *filter)
{
	free(filter->owned);
	memset(filter, 0, sizeof(*filter));
}
