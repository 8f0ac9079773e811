// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/packed_json.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"

#define PLAIN_BYTES (64 << 10)
#define GZIP_WINDOW (15 + 16) /* 32 KiB, with gzip's header */

struct packed_json {
	z_stream stream;
	char plain[PLAIN_BYTES]; /* not compressed yet */
	size_t plain_nr;
	uint8_t *bytes;
	size_t bytes_nr, bytes_alloc;
	bool needs_comma;
	int err;
};

struct packed_json *packed_json__new(void)
{
	struct packed_json *json = calloc(1, sizeof(*json));

	if (!json)
		return NULL;
	if (deflateInit2(&json->stream, 6, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) == Z_OK)
		return json;
	free(json);
	return NULL;
}

void packed_json__free(struct packed_json *json)
{
	if (!json)
		return;
	deflateEnd(&json->stream);
	free(json->bytes);
	free(json);
}

/* Compresses what is there. flush: Z_NO_FLUSH, or Z_FINISH at the end. */
static void pack_plain(struct packed_json *json, int flush)
{
	int result = Z_OK;

	json->stream.next_in = (uint8_t *)json->plain;
	json->stream.avail_in = json->plain_nr;
	do {
		json->err = json->err ?: array_reserve(&json->bytes, &json->bytes_alloc, json->bytes_nr + PLAIN_BYTES);
		if (json->err)
			break;
		json->stream.next_out = json->bytes + json->bytes_nr;
		json->stream.avail_out = PLAIN_BYTES;
		result = deflate(&json->stream, flush);
		json->bytes_nr += PLAIN_BYTES - json->stream.avail_out;
	} while (!json->stream.avail_out || (flush == Z_FINISH && result == Z_OK));
	json->plain_nr = 0;
}

static void put_plain_bytes(struct packed_json *json, const char *bytes, size_t len)
{
	while (len) {
		size_t room = PLAIN_BYTES - json->plain_nr, part = len < room ? len : room;

		memcpy(json->plain + json->plain_nr, bytes, part);
		json->plain_nr += part;
		bytes += part;
		len -= part;
		if (json->plain_nr == PLAIN_BYTES)
			pack_plain(json, Z_NO_FLUSH);
	}
}

void packed_json__text(struct packed_json *json, const char *text)
{
	put_plain_bytes(json, text, strlen(text));
	json->needs_comma = false;
}

static int put_dumped(const char *bytes, size_t len, void *json)
{
	put_plain_bytes(json, bytes, len);
	return 0;
}

void packed_json__value(struct packed_json *json, json_t *value, size_t flags)
{
	if (!value || json_dump_callback(value, put_dumped, json, JSON_COMPACT | JSON_ENCODE_ANY | flags))
		json->err = -ENOMEM;
	json_decref(value);
}

void packed_json__begin(struct packed_json *json, const char *name)
{
	packed_json__text(json, json->needs_comma ? ",\"" : "\"");
	packed_json__text(json, name);
	packed_json__text(json, "\":[");
}

static void put_number(struct packed_json *json, const char *text, int len)
{
	if (json->needs_comma)
		put_plain_bytes(json, ",", 1);
	put_plain_bytes(json, text, len);
	json->needs_comma = true;
}

/* Most numbers have one digit, and there may be millions of them. */
void packed_json__uint(struct packed_json *json, uint64_t number)
{
	char text[20], *first = text + sizeof(text);

	do
		*--first = '0' + number % 10;
	while (number /= 10);
	put_number(json, first, text + sizeof(text) - first);
}

void packed_json__int(struct packed_json *json, int64_t number)
{
	char text[24];

	put_number(json, text, snprintf(text, sizeof(text), "%" PRId64, number));
}

/* 17 digits give the same number back. JSON has no infinity, which only weights of no honest recording sum up to. */
void packed_json__real(struct packed_json *json, double number)
{
	char text[32];

	if (!isfinite(number))
		number = number < 0 ? -DBL_MAX : DBL_MAX;
	put_number(json, text, snprintf(text, sizeof(text), "%.17g", number));
}

void packed_json__end(struct packed_json *json)
{
	packed_json__text(json, "]");
	json->needs_comma = true;
}

int packed_json__finish(struct packed_json *json, const uint8_t **ret_bytes, size_t *ret_nr)
{
	pack_plain(json, Z_FINISH);
	*ret_bytes = json->bytes;
	*ret_nr = json->bytes_nr;
	return json->err;
}
