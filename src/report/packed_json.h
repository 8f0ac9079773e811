/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_PACKED_JSON_H
#define ALLOCSNAP_REPORT_PACKED_JSON_H

/*
 * JSON that is compressed while it is written (gzip), in memory. Columns of numbers are written as they come, so that
 * no tree of a million values is needed.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packed_json;

/* NULL: no memory. Errors of the other functions show in packed_json__finish(). */
struct packed_json *packed_json__new(void);
void packed_json__free(struct packed_json *json); /* NULL is allowed */

/* Text as it is: punctuation and names that need no escapes. */
void packed_json__text(struct packed_json *json, const char *text);

/* Takes ownership of value, which may be NULL (no memory). JSON_EMBED in flags leaves its outer braces out. */
void packed_json__value(struct packed_json *json, json_t *value, size_t flags);

/* "name":[ and, for each number, the number and a comma where one is needed, and ]. A comma comes before "name" after ]. */
void packed_json__begin(struct packed_json *json, const char *name);
void packed_json__uint(struct packed_json *json, uint64_t number);
void packed_json__int(struct packed_json *json, int64_t number);
void packed_json__real(struct packed_json *json, double number);
void packed_json__end(struct packed_json *json);

/* A column: the value for each i below nr. kind: uint, int or real. */
#define packed_json__column(json, kind, name, i, nr, value) \
	({ \
		packed_json__begin(json, name); \
		for (size_t i = 0; i < (nr); i++) \
			packed_json__##kind(json, value); \
		packed_json__end(json); \
	})

/* The same for numbers of 32 bits: of each, how much it is more than the one before, modulo 2^32. */
#define packed_json__steps(json, name, i, nr, value) \
	({ \
		uint32_t before_ = 0; \
		packed_json__column(json, uint, name, i, nr, ({ \
			uint32_t now_ = (value), step_ = now_ - before_; \
			before_ = now_; \
			step_; \
		})); \
	})

/* Ends the stream. *ret_bytes lives as long as the handle. Returns 0 or -ENOMEM. */
int packed_json__finish(struct packed_json *json, const uint8_t **ret_bytes, size_t *ret_nr);

#endif
