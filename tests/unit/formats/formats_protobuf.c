// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "formats/byte_buffer.h"

static struct protobuf_reader reader_of(const void *bytes, size_t len)
{
	return (struct protobuf_reader){ bytes, (const uint8_t *)bytes + len };
}

Test(formats_protobuf, numbers_are_read_as_they_were_written)
{
	static const uint64_t number[] = { 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX };
	struct byte_buffer buffer = {};
	struct protobuf_reader reader;
	struct protobuf_field field;

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		protobuf_put_number(&buffer, i + 1, number[i]);
	protobuf_put_bytes(&buffer, 2000, "name", 4);
	reader = reader_of(buffer.byte, buffer.byte_nr);
	for (size_t i = 0; i < ARRAY_SIZE(number); i++) {
		cr_assert_eq(protobuf_next(&reader, &field), 1);
		cr_expect_eq(field.number, i + 1);
		cr_expect_eq(field.value, number[i]);
	}
	cr_assert_eq(protobuf_next(&reader, &field), 1);
	cr_expect_eq(field.number, 2000);
	cr_expect_eq(field.bytes.end - field.bytes.at, 4);
	cr_expect_eq(protobuf_next(&reader, &field), 0);
	buffer_release(&buffer);
}

/* The documentation of protobuf has these bytes: field 1 is 150, field 2 is "testing". */
Test(formats_protobuf, has_the_bytes_of_its_documentation)
{
	struct byte_buffer buffer = {};

	protobuf_put_number(&buffer, 1, 150);
	protobuf_put_bytes(&buffer, 2, "testing", 7);
	cr_assert_eq(buffer.byte_nr, 12);
	cr_expect_arr_eq(buffer.byte, "\x08\x96\x01\x12\x07testing", 12);
	buffer_release(&buffer);
}

Test(formats_protobuf, damaged_bytes_are_refused)
{
	static const struct {
		const char *bytes;
		size_t len;
	} damaged[] = {
		{ "\x08", 1 },			/* no value */
		{ "\x08\x80", 2 },		/* the number does not end */
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 }, /* 65 bits */
		{ "\x12\x05test", 6 },		/* one byte too few */
		{ "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
		{ "\x09\x01\x02", 3 },
		{ "\x0d\x01", 2 },
		{ "\x0b", 1 },			/* a group */
		{ "\x00\x01", 2 },		/* field 0 */
	};
	struct protobuf_field field;

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		struct protobuf_reader reader = reader_of(damaged[i].bytes, damaged[i].len);

		cr_expect_eq(protobuf_next(&reader, &field), -EBADMSG, "row %zu", i);
	}
}

static char *sample_bytes(size_t len)
{
	char *bytes = malloc(len);

	for (size_t i = 0; i < len; i++)
		bytes[i] = i * i % 251;
	return bytes;
}

Test(formats_gzip, expands_what_it_compressed)
{
	size_t len = 1000000;
	char *bytes = sample_bytes(len);
	struct byte_buffer packed = {}, expanded = {};

	cr_assert_eq(gzip_compress(bytes, len, &packed), 0);
	cr_expect(gzip_is(packed.byte, packed.byte_nr));
	cr_expect_lt(packed.byte_nr, len / 2);
	cr_assert_eq(gzip_expand(packed.byte, packed.byte_nr, len, &expanded), 0);
	cr_assert_eq(expanded.byte_nr, len);
	cr_expect_arr_eq(expanded.byte, bytes, len);

	/* Two members, as `cat a.gz b.gz` makes them. */
	cr_assert_eq(gzip_compress(bytes, 10, &packed), 0);
	expanded.byte_nr = 0;
	cr_assert_eq(gzip_expand(packed.byte, packed.byte_nr, 2 * len, &expanded), 0);
	cr_expect_eq(expanded.byte_nr, len + 10);
	buffer_release(&packed);
	buffer_release(&expanded);
	free(bytes);
}

Test(formats_gzip, refuses_what_is_damaged_or_too_much)
{
	char *bytes = sample_bytes(100000);
	struct byte_buffer packed = {}, expanded = {};

	cr_assert_eq(gzip_compress(bytes, 100000, &packed), 0);
	cr_expect_eq(gzip_expand(packed.byte, packed.byte_nr, 99999, &expanded), -EFBIG);
	expanded.byte_nr = 0;
	cr_expect_eq(gzip_expand(packed.byte, packed.byte_nr - 1, 100000, &expanded), -EBADMSG);
	packed.byte[packed.byte_nr / 2] ^= 1;
	expanded.byte_nr = 0;
	cr_expect_eq(gzip_expand(packed.byte, packed.byte_nr, 100000, &expanded), -EBADMSG);
	buffer_release(&packed);
	buffer_release(&expanded);
	free(bytes);
}
