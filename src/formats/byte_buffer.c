// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "formats/byte_buffer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"

void buffer_add(struct byte_buffer *buffer, const void *bytes, size_t len)
{
	size_t want;

	if (buffer->err || !len)
		return;
	if (__builtin_add_overflow(buffer->byte_nr, len, &want))
		buffer->err = -ENOMEM;
	else
		buffer->err = array_reserve(&buffer->byte, &buffer->byte_alloc, want);
	if (buffer->err)
		return;
	memcpy(buffer->byte + buffer->byte_nr, bytes, len);
	buffer->byte_nr = want;
}

void buffer_release(struct byte_buffer *buffer)
{
	free(buffer->byte);
	*buffer = (struct byte_buffer){};
}

/* ---- writing ---------------------------------------------------------------------------------------- */

void protobuf_put_packed(struct byte_buffer *buffer, uint64_t value)
{
	uint8_t bytes[10];
	size_t nr = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[nr++] = value | 0x80;
	bytes[nr++] = value;
	buffer_add(buffer, bytes, nr);
}

static void put_tag(struct byte_buffer *buffer, uint32_t field, enum protobuf_wire wire)
{
	protobuf_put_packed(buffer, (uint64_t)field << 3 | wire);
}

void protobuf_put_number(struct byte_buffer *buffer, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	put_tag(buffer, field, WIRE_VARINT);
	protobuf_put_packed(buffer, value);
}

void protobuf_put_bytes(struct byte_buffer *buffer, uint32_t field, const void *bytes, size_t len)
{
	put_tag(buffer, field, WIRE_BYTES);
	protobuf_put_packed(buffer, len);
	buffer_add(buffer, bytes, len);
}

void protobuf_put_message(struct byte_buffer *buffer, uint32_t field, struct byte_buffer *message)
{
	if (!buffer->err)
		buffer->err = message->err;
	protobuf_put_bytes(buffer, field, message->byte, message->byte_nr);
	message->byte_nr = 0;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

int protobuf_next_packed(struct protobuf_reader *reader, uint64_t *ret)
{
	uint64_t value = 0;

	if (reader->at == reader->end)
		return 0;
	for (unsigned int shift = 0; reader->at < reader->end && shift < 64; shift += 7) {
		uint8_t byte = *reader->at++;

		if (shift == 63 && byte > 1)
			return -EBADMSG;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = value;
		return 1;
	}
	return -EBADMSG;
}

static int read_fixed(struct protobuf_reader *reader, size_t len, uint64_t *ret)
{
	if ((size_t)(reader->end - reader->at) < len)
		return -EBADMSG;
	*ret = 0;
	memcpy(ret, reader->at, len); /* little-endian, as this machine is */
	reader->at += len;
	return 1;
}

static int read_bytes(struct protobuf_reader *reader, struct protobuf_reader *ret)
{
	uint64_t len;

	if (protobuf_next_packed(reader, &len) != 1 || len > (uint64_t)(reader->end - reader->at))
		return -EBADMSG;
	*ret = (struct protobuf_reader){ reader->at, reader->at + len };
	reader->at += len;
	return 1;
}

int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret)
{
	uint64_t tag;
	int more = protobuf_next_packed(reader, &tag);

	if (more != 1)
		return more;
	if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return -EBADMSG;
	*ret = (struct protobuf_field){ .number = tag >> 3, .wire = tag & 7 };
	switch (ret->wire) {
	case WIRE_VARINT:
		return protobuf_next_packed(reader, &ret->value) == 1 ? 1 : -EBADMSG;
	case WIRE_FIXED64:
		return read_fixed(reader, 8, &ret->value);
	case WIRE_FIXED32:
		return read_fixed(reader, 4, &ret->value);
	case WIRE_BYTES:
		return read_bytes(reader, &ret->bytes);
	}
	return -EBADMSG;
}

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
