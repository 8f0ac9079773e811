/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_JSON_PARTS_H
#define ALLOCSNAP_RENDER_JSON_PARTS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct frame_view;
struct snapshot;

/*
 * jansson with this program's rules: strings are cleaned, so that they are UTF-8; what is not
 * known is left out; a key that is set twice keeps its last value. 0 or -ENOMEM.
 */
int json_set_text(json_t *object, const char *key, const char *text); /* NULL is left out */
int json_set_int(json_t *object, const char *key, int64_t value);

/* Above INT64_MAX, which no honest snapshot holds, as a real: visibly not exact. */
int json_set_uint(json_t *object, const char *key, uint64_t value);

/* Takes value over, also on failure; NULL is -ENOMEM. */
int json_set(json_t *object, const char *key, json_t *value);

/* A cleaned string; NULL: no memory. */
json_t *json_clean_string(const char *text);

/* Frames, in their order; NULL: no memory. */
json_t *json_frames(const struct frame_view *frame, uint32_t nframe);

/* {"bytes":524288,"confidence":0.95}; {"bytes":0} of one that has every block. NULL: no memory. */
json_t *json_sampling(const struct snapshot *snapshot);

/* Set "gaps" and "cost", where there are any and it is known. 0 or -ENOMEM. */
int json_set_gaps(json_t *show, const struct snapshot *snapshot);
int json_set_cost(json_t *show, const struct snapshot *snapshot);

/* Passes a new value on, or drops it after an error and returns NULL. */
json_t *json_unless(int err, json_t *value);

/*
 * Writes value without spaces and drops it. JSON_EMBED in flags leaves its outer braces out.
 * 0, -ENOMEM (also for NULL) or the errno of the write.
 */
int json_put(FILE *out, json_t *value, size_t flags);

#endif
