/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_GZIP_H
#define ALLOCSNAP_FORMATS_GZIP_H

#include <stdbool.h>

#include "formats/byte_buffer.h"

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
