// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "formats/gzip.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

#define CHUNK_BYTES (64 << 10)
#define GZIP_WINDOW (15 + 16) /* zlib's way to say: gzip's header and trailer */

bool gzip_is(const void *bytes, size_t len)
{
	return len >= 2 && !memcmp(bytes, "\x1f\x8b", 2);
}

/* zlib counts in unsigned int. */
static void feed(z_stream *stream, const uint8_t **at, size_t *left)
{
	if (stream->avail_in || !*left)
		return;
	stream->next_in = (Bytef *)*at;
	stream->avail_in = *left > UINT_MAX ? UINT_MAX : *left;
	*at += stream->avail_in;
	*left -= stream->avail_in;
}

int gzip_compress(const void *bytes, size_t len, struct byte_buffer *ret)
{
	uint8_t chunk[CHUNK_BYTES];
	const uint8_t *at = bytes;
	z_stream stream = {};
	int state;

	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		feed(&stream, &at, &len);
		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = deflate(&stream, len ? Z_NO_FLUSH : Z_FINISH);
		buffer_add(ret, chunk, sizeof(chunk) - stream.avail_out);
	} while (state == Z_OK && !ret->err);
	deflateEnd(&stream);
	return ret->err ?: state == Z_STREAM_END ? 0 : -ENOMEM;
}

/* One call of inflate(). Returns 1 if there is more to do, 0 at the end of the input, or a negative errno. */
static int expand_some(z_stream *stream, size_t left, size_t most, struct byte_buffer *ret)
{
	uint8_t chunk[CHUNK_BYTES];
	int state;

	stream->next_out = chunk;
	stream->avail_out = sizeof(chunk);
	state = inflate(stream, Z_NO_FLUSH);
	buffer_add(ret, chunk, sizeof(chunk) - stream->avail_out);
	if (ret->byte_nr > most)
		return -EFBIG;
	if (ret->err || state == Z_MEM_ERROR)
		return -ENOMEM;
	if (state == Z_OK)
		return 1;
	if (state != Z_STREAM_END)
		return -EBADMSG; /* also Z_BUF_ERROR: the input ends too early */
	if (!stream->avail_in && !left)
		return 0;
	return inflateReset(stream) == Z_OK ? 1 : -EBADMSG; /* another member */
}

int gzip_expand(const void *bytes, size_t len, size_t most, struct byte_buffer *ret)
{
	const uint8_t *at = bytes;
	z_stream stream = {};
	int more = 1;

	if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	while (more == 1) {
		feed(&stream, &at, &len);
		more = expand_some(&stream, len, most, ret);
	}
	inflateEnd(&stream);
	return more;
}
