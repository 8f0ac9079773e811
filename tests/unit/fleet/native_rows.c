// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A batch of rows as ClickHouse reads it: a compressed block, and in it each column's name, type and values. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "fleet/cluster/cluster_private.h"

#define BEFORE 25 /* bytes: a checksum of 16, the method, two lengths */

static uint32_t number_at(const uint8_t *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

Test(native_rows, are_a_block_of_columns)
{
	static const char columns[] = "\x03\x02\x06" "domain\x05Int64\7\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0"
				      "\x04name\x06String\x03one\0" "\x06number\x05Int64\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0";
	struct row_bytes head = {}, packed = {};
	struct row_batch batch;
	char content[256];

	row_batch_init(&batch, ROW_DOMAIN);
	cr_assert_eq(row_batch_add(&batch, (union row_value[]){ { 7 }, { .text = "one" }, { 1 } }), 0);
	cr_assert_eq(row_batch_add(&batch, (union row_value[]){ { 8 }, { .text = "" }, { 2 } }), 0);
	cr_assert_eq(native_block_make(&batch, &head, &packed), 0);
	cr_assert_gt(packed.byte_nr, BEFORE);
	cr_expect_eq(packed.byte[16], 0x90, "zstd");
	cr_expect_eq(number_at(packed.byte + 17), packed.byte_nr - 16, "all but the checksum");
	cr_expect_eq(number_at(packed.byte + 21), sizeof(columns));
	cr_assert_eq(ZSTD_decompress(content, sizeof(content), packed.byte + BEFORE, packed.byte_nr - BEFORE), sizeof(columns));
	cr_expect(!memcmp(content, columns, sizeof(columns)));
	row_batch_release(&batch);
	free(head.byte);
	free(packed.byte);
}
