// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/json_tails.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/array.h"

static const char *skip_string(const char *at, const char *end)
{
	while (at < end && *at != '"')
		at += *at == '\\' && end - at > 1 ? 2 : 1;
	return at < end ? at + 1 : end;
}

/* Returns 0 if the list does not end. */
static size_t len_to_bracket(const char *text, const char *end)
{
	const char *at = text;
	size_t depth = 1;

	while (at < end && depth) {
		char c = *at++;

		if (c == '"')
			at = skip_string(at, end);
		else
			depth += (c == '[') - (c == ']');
	}
	return depth ? 0 : at - text;
}

struct json_tail json_tail__guess(const char *trace, const char *end)
{
	const char *head_end = trace + MIN(end - trace, JSON_HEAD_MAX), *at = trace;
	struct json_tail tail = { 0 };

	for (int commas = 0; at && commas < 2; commas++) {
		at = memchr(at, ',', head_end - at);
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return tail;
	tail.text = at;
	tail.len = len_to_bracket(at, end);
	tail.hash = hash_bytes(at, tail.len, 0);
	return tail;
}

static bool same_tail_text(uint32_t id, const void *key, const void *table)
{
	const struct json_tail *a = &((const struct json_tails *)table)->tail[id], *b = key;

	return a->len == b->len && !memcmp(a->text, b->text, a->len);
}

const struct json_tail *json_tails__find(const struct json_tails *tails,
					 const struct json_tail *tail)
{
	uint32_t id = idmap_find(&tails->ids, tail->hash, same_tail_text, tail, tails);

	return id == IDMAP_NONE ? NULL : &tails->tail[id];
}

int json_tails__add(struct json_tails *tails, const struct json_tail *tail)
{
	if (tails->tail_nr >= IDMAP_NONE)
		return 0;
	return array_push(tails, tail, *tail) ?:
	       idmap_add(&tails->ids, tail->hash, tails->tail_nr - 1);
}

void json_tails__release(struct json_tails *tails)
{
	idmap_release(&tails->ids);
	free(tails->tail);
	*tails = (struct json_tails){};
}
