/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_BYTE_BUFFER_H
#define ALLOCSNAP_FORMATS_BYTE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes that grow at the end. A zeroed struct is an empty buffer; buffer_release() ends it. The buffer keeps its first
 * error (-ENOMEM), so a caller may add many parts and look at `err` once; after an error nothing is added.
 */
struct byte_buffer {
	uint8_t *byte;
	size_t byte_nr, byte_alloc;
	int err;
};

void buffer_add(struct byte_buffer *buffer, const void *bytes, size_t len);
void buffer_release(struct byte_buffer *buffer);

/* ---- protobuf's wire format ------------------------------------------------------------------------- */

enum protobuf_wire {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2, /* a string, a message, or packed numbers */
	WIRE_FIXED32 = 5,
};

/* A number without its field: an element of packed numbers. Negative numbers are written as their two's complement. */
void protobuf_put_packed(struct byte_buffer *buffer, uint64_t value);

/* A number; as in proto3, 0 is left out. */
void protobuf_put_number(struct byte_buffer *buffer, uint32_t field, uint64_t value);

/* A string, a message, or packed numbers, even if empty. */
void protobuf_put_bytes(struct byte_buffer *buffer, uint32_t field, const void *bytes, size_t len);

/* Puts `message` as a field, and empties it. */
void protobuf_put_message(struct byte_buffer *buffer, uint32_t field, struct byte_buffer *message);

/* Bytes that are read from the front. */
struct protobuf_reader {
	const uint8_t *at, *end;
};

struct protobuf_field {
	uint32_t number;
	enum protobuf_wire wire;
	uint64_t value;		     /* of WIRE_VARINT and the fixed kinds */
	struct protobuf_reader bytes; /* of WIRE_BYTES */
};

/* Returns 1 and the next field, 0 at the end, or -EBADMSG: the bytes are not protobuf. */
int protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret);

/* Returns 1 and the next of packed numbers, 0 at the end, or -EBADMSG. */
int protobuf_next_packed(struct protobuf_reader *reader, uint64_t *ret);

/* Whether the bytes begin as gzip does. */
bool gzip_is(const void *bytes, size_t len);

/* Appends the bytes in gzip's format, without name and time: equal bytes give equal files. 0 or -ENOMEM. */
int gzip_compress(const void *bytes, size_t len, struct byte_buffer *ret);

/*
 * Appends what the bytes decompress to, of all members. 0, -ENOMEM, -EBADMSG (not whole, or damaged), or -EFBIG: more
 * than `most` bytes.
 */
int gzip_expand(const void *bytes, size_t len, size_t most, struct byte_buffer *ret);

#endif
