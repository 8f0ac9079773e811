/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_JSON_TAILS_H
#define ALLOCSNAP_SNAPSHOT_JSON_TAILS_H

#include "base/idmap.h"

/*
 * The rest of a trace's text after its first two numbers, with the closing bracket: its frames,
 * their total number, its weight. Many traces have the same bytes there, and so the same traceback.
 */
struct json_tail {
	const char *text;
	size_t len; /* 0: none was found */
	uint64_t hash;
	uint32_t traceback;
	double weight;
};

/* The tails read so far. A zeroed struct is empty. */
struct json_tails {
	struct json_tail *tail;
	size_t tail_nr, tail_alloc;
	struct idmap ids;
};

#define JSON_HEAD_MAX 64 /* bytes of "[domain, size," */

/*
 * Guesses a trace's tail. It is right if the trace begins with two numbers and is JSON; the caller
 * must check that.
 */
struct json_tail json_tail__guess(const char *trace, const char *end);

/* Finds an added tail with the same text, or NULL. */
const struct json_tail *json_tails__find(const struct json_tails *tails,
					 const struct json_tail *tail);

/* 0 or -ENOMEM. */
int json_tails__add(struct json_tails *tails, const struct json_tail *tail);

void json_tails__release(struct json_tails *tails);

#endif
