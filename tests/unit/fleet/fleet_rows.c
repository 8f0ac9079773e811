// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "fleet/cluster/cluster_private.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/array.h"
#include "fleet/row_codec.h"

TestSuite(fleet_rows, .timeout = 600);

static uint64_t state = 1;

static uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static struct fleet_rows make(size_t nr, bool is_sampled, uint32_t step, uint64_t size_mask)
{
	struct fleet_rows rows = {};
	uint32_t origin = 0;

	cr_assert_eq(fleet_rows_reserve(&rows, nr, is_sampled), 0);
	rows.nr = nr;
	for (size_t i = 0; i < nr; i++) {
		origin += 1 + random_number() % step;
		rows.row[i] = (struct fleet_row){ origin, { random_number() & size_mask,
							    random_number() & 0xffff } };
		if (is_sampled)
			rows.spread[i] = (struct spread){ { i, 0.5 * i, 0x1p180 * i }, { 1, 2, 3 } };
	}
	return rows;
}

static void expect_same(const struct fleet_rows *rows, const struct fleet_rows *again)
{
	cr_assert_eq(rows->nr, again->nr);
	cr_assert_eq(!rows->spread, !again->spread);
	for (size_t i = 0; i < rows->nr; i++) {
		cr_assert_eq(rows->row[i].origin, again->row[i].origin);
		cr_assert_eq(rows->row[i].cost.size, again->row[i].cost.size);
		cr_assert_eq(rows->row[i].cost.count, again->row[i].cost.count);
		if (rows->spread)
			cr_assert_eq(memcmp(&rows->spread[i], &again->spread[i], sizeof(*rows->spread)), 0);
	}
}

static void expect_round_trip(struct fleet_rows *rows, struct fleet_rows *again)
{
	struct reason why = { "" };
	size_t len;
	void *bytes;

	cr_assert_eq(fleet_rows_encode(rows, &bytes, &len), 0);
	cr_assert_eq(fleet_rows_decode(bytes, len, UINT32_MAX, again, &why), 0, "%s", why.text);
	expect_same(rows, again);
	free(bytes);
}

Test(fleet_rows, are_decoded_as_they_were_encoded)
{
	static const struct {
		size_t nr;
		bool is_sampled;
		uint32_t step;
		uint64_t size_mask;
	} shapes[] = {
		{ 0, false, 1, 0 },	 { 0, true, 1, 0 },
		{ 1, false, 1, INT64_MAX }, { 1000, false, 1, 0 },
		{ 1000, false, 40, 0xffffff }, { 1000, true, 1 << 20, INT64_MAX },
		{ 5000, false, 300, 0xffffffff }, { 77, true, 70000, 0xff },
	};
	struct fleet_rows again = {};

	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct fleet_rows rows = make(shapes[i].nr, shapes[i].is_sampled, shapes[i].step,
					      shapes[i].size_mask);

		expect_round_trip(&rows, &again);
		fleet_rows_release(&rows);
	}
	fleet_rows_release(&again);
}

Test(fleet_rows, hold_the_largest_numbers)
{
	struct fleet_rows rows = make(2, false, 1, 0), again = {};

	rows.row[0] = (struct fleet_row){ 0, { INT64_MAX, INT64_MAX } };
	rows.row[1] = (struct fleet_row){ UINT32_MAX - 1, { 0, 0 } };
	expect_round_trip(&rows, &again);
	fleet_rows_release(&rows);
	fleet_rows_release(&again);
}

/* ---- hostile bytes ---------------------------------------------------------------------------------- */

struct blob {
	unsigned char *bytes;
	size_t len;
};

enum { ROW_NR = 8, VERSION = 12, IS_SAMPLED = 13, WIDTH = 14, RESERVED = 17, PAYLOAD = 24 };

static struct blob blob_of(struct fleet_rows *rows)
{
	struct blob blob;

	cr_assert_eq(fleet_rows_encode(rows, (void **)&blob.bytes, &blob.len), 0);
	return blob;
}

static void seal(struct blob *blob)
{
	uint64_t sum = XXH3_64bits(blob->bytes + 8, blob->len - 8);

	memcpy(blob->bytes, &sum, sizeof(sum));
}

static void expect_refused(const struct blob *blob, uint32_t origin_nr, const char *says)
{
	struct fleet_rows rows = {};
	struct reason why = { "" };
	void *exact = malloc(blob->len); /* ASan catches reads beyond it */

	memcpy(exact, blob->bytes, blob->len);
	cr_expect_eq(fleet_rows_decode(exact, blob->len, origin_nr, &rows, &why), -EBADMSG, "%s", says);
	cr_expect(strstr(why.text, says), "%s, not %s", why.text, says);
	cr_expect_eq(rows.nr, 0);
	free(exact);
	fleet_rows_release(&rows);
}

Test(fleet_rows, detect_every_flipped_bit_and_every_cut)
{
	struct fleet_rows rows = make(100, false, 10, 0xfff);
	struct blob blob = blob_of(&rows);

	for (size_t i = 0; i < blob.len; i++) {
		blob.bytes[i] ^= 1 << i % 8;
		expect_refused(&blob, UINT32_MAX, "damaged: wrong checksum");
		blob.bytes[i] ^= 1 << i % 8;
	}
	for (size_t len = blob.len; len--;) {
		struct blob cut = { blob.bytes, len };

		expect_refused(&cut, UINT32_MAX, "damaged");
	}
	free(blob.bytes);
	fleet_rows_release(&rows);
}

Test(fleet_rows, refuse_invalid_contents_with_a_valid_checksum)
{
	static const struct {
		size_t at;
		unsigned char value;
		const char *says;
	} lies[] = {
		{ VERSION, 2, "are of version 2, not 1" },
		{ VERSION, 0, "are of version 0, not 1" },
		{ IS_SAMPLED, 2, "unknown flags" },
		{ IS_SAMPLED, 1, "do not decompress" },
		{ WIDTH, 5, "a column is too wide" },
		{ WIDTH + 1, 9, "a column is too wide" },
		{ WIDTH + 2, 255, "a column is too wide" },
		{ WIDTH + 1, 1, "do not decompress" },
		{ RESERVED + 6, 1, "unknown flags" },
		{ ROW_NR, 99, "do not decompress" },
		{ ROW_NR + 3, 255, "more than there are origins" },
		{ PAYLOAD, 0, "do not decompress" },
	};
	struct fleet_rows rows = make(100, false, 10, 0xfff);
	struct blob blob = blob_of(&rows);

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		unsigned char before = blob.bytes[lies[i].at];

		blob.bytes[lies[i].at] = lies[i].value;
		seal(&blob);
		expect_refused(&blob, 5000, lies[i].says);
		blob.bytes[lies[i].at] = before;
	}
	free(blob.bytes);
	fleet_rows_release(&rows);
}

Test(fleet_rows, refuse_an_unknown_origin)
{
	struct fleet_rows rows = make(10, false, 10, 0xfff), again = {};
	struct blob blob = blob_of(&rows);
	uint32_t last = rows.row[9].origin;

	expect_refused(&blob, last, "an invalid origin");
	expect_refused(&blob, 9, "more than there are origins");
	cr_expect_eq(fleet_rows_decode(blob.bytes, blob.len, last + 1, &again, NULL), 0);
	free(blob.bytes);
	fleet_rows_release(&rows);
	fleet_rows_release(&again);
}

Test(fleet_rows, refuse_a_negative_cost_and_a_sum_that_is_no_number)
{
	static const double bad[] = { -1, NAN, INFINITY };
	struct fleet_rows rows = make(3, true, 10, 0xfff);
	struct blob blob;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		rows.spread[2].count.covariance = bad[i];
		blob = blob_of(&rows);
		expect_refused(&blob, UINT32_MAX, "a sum is no number");
		free(blob.bytes);
	}
	rows.spread[2].count.covariance = 0;
	rows.row[1].cost.count = -1;
	blob = blob_of(&rows);
	expect_refused(&blob, UINT32_MAX, "a cost below 0");
	free(blob.bytes);
	fleet_rows_release(&rows);
}

/* Anything but a crash: the checksum is right, the rest is not. */
Test(fleet_rows, survive_random_contents_with_a_valid_checksum)
{
	struct fleet_rows rows = make(60, true, 10, 0xfffff), again = {};
	struct blob blob = blob_of(&rows);
	unsigned char *copy = malloc(blob.len);
	unsigned int refused = 0;

	for (int i = 0; i < 20000; i++) {
		struct blob lie = { copy, blob.len - random_number() % 4 };

		memcpy(copy, blob.bytes, blob.len);
		for (int k = 0; k < 3; k++)
			copy[8 + random_number() % (lie.len - 8)] = random_number();
		seal(&lie);
		refused += !!fleet_rows_decode(copy, lie.len, 1000, &again, NULL);
	}
	cr_expect_gt(refused, 10000);
	expect_round_trip(&rows, &again);
	free(copy);
	free(blob.bytes);
	fleet_rows_release(&rows);
	fleet_rows_release(&again);
}

/* ---- native rows ---- */

/* A batch of rows as ClickHouse reads it: a compressed block, and in it each column's name, type and values. */

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
