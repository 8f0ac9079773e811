// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A blob is a header and one zstd frame. The frame has the rows' columns, each cut into planes of bytes: first the
 * lowest byte of every value of a column, then the next higher byte, as many planes as the largest value needs.
 * Planes decode without a branch, and bytes that are 0 in nearly all rows take almost no room.
 *
 *	origin		distance from the row before, less 1; in the first row the number itself
 *	size, count
 *	spread		if the snapshot was sampled: doubles, column by column
 */
#include "fleet/row_codec.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "base/array.h"
#include "base/reason.h"

#define VERSION 1
#define LEVEL 1
#define DOUBLES (sizeof(struct spread) / sizeof(double))

enum column {
	COLUMN_ORIGIN,
	COLUMN_SIZE,
	COLUMN_COUNT,
	COLUMN_NR,
};

static const uint8_t width_max[COLUMN_NR] = { sizeof(uint32_t), sizeof(int64_t), sizeof(int64_t) };

struct header {
	uint64_t checksum; /* XXH3 of all that follows */
	uint32_t row_nr;
	uint8_t version;
	uint8_t is_sampled;
	uint8_t width[COLUMN_NR]; /* planes */
	uint8_t reserved[7];
};
_Static_assert(sizeof(struct header) == 24, "struct header is a file format");

struct rows_scratch {
	ZSTD_CCtx *compress;
	ZSTD_DCtx *decompress;
	uint8_t *bytes;
	size_t bytes_alloc;
};

void fleet_rows_release(struct fleet_rows *rows)
{
	free(rows->row);
	free(rows->spread_room);
	if (rows->scratch) {
		ZSTD_freeCCtx(rows->scratch->compress);
		ZSTD_freeDCtx(rows->scratch->decompress);
		free(rows->scratch->bytes);
		free(rows->scratch);
	}
	*rows = (struct fleet_rows){};
}

int fleet_rows_reserve(struct fleet_rows *rows, size_t nr, bool is_sampled)
{
	int err = array_reserve(&rows->row, &rows->alloc, nr ?: 1);

	if (!err && is_sampled)
		err = array_reserve(&rows->spread_room, &rows->spread_alloc, nr ?: 1);
	if (!err)
		rows->spread = is_sampled ? rows->spread_room : NULL;
	return err;
}

static struct rows_scratch *scratch_of(struct fleet_rows *rows, size_t bytes)
{
	struct rows_scratch *scratch = rows->scratch;

	if (!scratch)
		scratch = rows->scratch = calloc(1, sizeof(*scratch));
	if (!scratch || array_reserve(&scratch->bytes, &scratch->bytes_alloc, bytes ?: 1))
		return NULL;
	return scratch;
}

static size_t columns_bytes(const struct header *header)
{
	size_t row = header->is_sampled ? sizeof(struct spread) : 0;

	for (int i = 0; i < COLUMN_NR; i++)
		row += header->width[i];
	return header->row_nr * row;
}

static uint64_t rows_checksum(const void *blob, size_t len)
{
	size_t own = sizeof(uint64_t);

	return XXH3_64bits((const char *)blob + own, len - own);
}

/* ---- encoding ------------------------------------------------------------------------------- */

static uint64_t origin_distance(const struct fleet_rows *rows, size_t at)
{
	return at ? rows->row[at].origin - rows->row[at - 1].origin - 1 : rows->row[at].origin;
}

static uint8_t width_of(uint64_t bits)
{
	return bits ? (64 - __builtin_clzll(bits) + 7) / 8 : 0;
}

static struct header make_header(const struct fleet_rows *rows)
{
	struct header header = { .row_nr = rows->nr, .version = VERSION, .is_sampled = !!rows->spread };
	uint64_t bits[COLUMN_NR] = {};

	for (size_t i = 0; i < rows->nr; i++) {
		bits[COLUMN_ORIGIN] |= origin_distance(rows, i);
		bits[COLUMN_SIZE] |= rows->row[i].cost.size;
		bits[COLUMN_COUNT] |= rows->row[i].cost.count;
	}
	for (int i = 0; i < COLUMN_NR; i++)
		header.width[i] = width_of(bits[i]);
	return header;
}

#define PUT_PLANES(to, rows, width, value) \
	do { \
		for (unsigned int plane_ = 0; plane_ < (width); plane_++) \
			for (size_t i = 0; i < (rows)->nr; i++) \
				*(to)++ = (uint64_t)(value) >> 8 * plane_; \
	} while (0)

static void put_columns(uint8_t *to, const struct fleet_rows *rows, const struct header *header)
{
	PUT_PLANES(to, rows, header->width[COLUMN_ORIGIN], origin_distance(rows, i));
	PUT_PLANES(to, rows, header->width[COLUMN_SIZE], rows->row[i].cost.size);
	PUT_PLANES(to, rows, header->width[COLUMN_COUNT], rows->row[i].cost.count);
	for (size_t k = 0; rows->spread && k < DOUBLES; k++)
		for (size_t i = 0; i < rows->nr; i++, to += sizeof(double))
			memcpy(to, (const double *)&rows->spread[i] + k, sizeof(double));
}

static int compress_rows(struct rows_scratch *scratch, size_t bytes, void *to, size_t *len)
{
	size_t done;

	if (!scratch->compress)
		scratch->compress = ZSTD_createCCtx();
	if (!scratch->compress)
		return -ENOMEM;
	done = ZSTD_compressCCtx(scratch->compress, to, *len, scratch->bytes, bytes, LEVEL);
	if (ZSTD_isError(done))
		return -ENOMEM; /* the buffer is large enough: only lack of memory can fail it */
	*len = done;
	return 0;
}

int fleet_rows_encode(struct fleet_rows *rows, void **ret_bytes, size_t *ret_len)
{
	struct header header = make_header(rows);
	size_t bytes = columns_bytes(&header), len = ZSTD_compressBound(bytes);
	struct rows_scratch *scratch = scratch_of(rows, bytes);
	char *blob = malloc(sizeof(header) + len);
	int err = scratch && blob ? 0 : -ENOMEM;

	if (!err) {
		put_columns(scratch->bytes, rows, &header);
		err = compress_rows(scratch, bytes, blob + sizeof(header), &len);
	}
	if (err) {
		free(blob);
		return err;
	}
	len += sizeof(header);
	memcpy(blob, &header, sizeof(header));
	header.checksum = rows_checksum(blob, len);
	memcpy(blob, &header, sizeof(header));
	*ret_bytes = blob;
	*ret_len = len;
	return 0;
}

/* ---- decoding ------------------------------------------------------------------------------- */

/* Returns one value of `width` planes. Where this is inlined, width is a constant for up to 4 planes. */
static inline uint64_t get_value(const uint8_t *plane, size_t nr, size_t at, unsigned int width)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < width; i++)
		value |= (uint64_t)plane[i * nr + at] << 8 * i;
	return value;
}

static inline uint64_t get_origins(struct fleet_rows *rows, const uint8_t *plane, unsigned int width)
{
	uint64_t next = 0;

	for (size_t i = 0; i < rows->nr; i++) {
		next += get_value(plane, rows->nr, i, width);
		rows->row[i].origin = next++;
	}
	return next;
}

#define DEFINE_GET_COSTS(name, field) \
	static inline uint64_t name(struct fleet_rows *rows, const uint8_t *plane, unsigned int width) \
	{ \
		uint64_t bits = 0; \
\
		for (size_t i = 0; i < rows->nr; i++) \
			bits |= rows->row[i].cost.field = get_value(plane, rows->nr, i, width); \
		return bits; \
	}

DEFINE_GET_COSTS(get_sizes, size)
DEFINE_GET_COSTS(get_counts, count)

/* Makes a loop of its own for each usual number of planes. */
#define GET_COLUMN(get, rows, plane, width) \
	((width) == 0 ? get(rows, plane, 0) : (width) == 1 ? get(rows, plane, 1) : \
	 (width) == 2 ? get(rows, plane, 2) : (width) == 3 ? get(rows, plane, 3) : \
	 (width) == 4 ? get(rows, plane, 4) : get(rows, plane, width))

static int report_damaged_rows(struct reason *why, const char *what)
{
	return reason_set(why, -EBADMSG, "the rows of a snapshot are damaged: %s", what);
}

static int get_spreads(struct fleet_rows *rows, const uint8_t *from, struct reason *why)
{
	bool good = true;

	for (size_t k = 0; k < DOUBLES; k++)
		for (size_t i = 0; i < rows->nr; i++, from += sizeof(double)) {
			double *to = (double *)&rows->spread[i] + k;

			memcpy(to, from, sizeof(double));
			good &= *to >= 0 && *to <= DBL_MAX;
		}
	return good ? 0 : report_damaged_rows(why, "a sum is no number");
}

static int get_columns(struct fleet_rows *rows, const uint8_t *from, const struct header *header,
		       uint32_t origin_nr, struct reason *why)
{
	const uint8_t *width = header->width;
	size_t nr = rows->nr;
	uint64_t bits;

	if (GET_COLUMN(get_origins, rows, from, width[COLUMN_ORIGIN]) > origin_nr)
		return report_damaged_rows(why, "an invalid origin");
	from += nr * width[COLUMN_ORIGIN];
	bits = GET_COLUMN(get_sizes, rows, from, width[COLUMN_SIZE]);
	from += nr * width[COLUMN_SIZE];
	bits |= GET_COLUMN(get_counts, rows, from, width[COLUMN_COUNT]);
	from += nr * width[COLUMN_COUNT];
	if (bits > INT64_MAX)
		return report_damaged_rows(why, "a cost below 0");
	return rows->spread ? get_spreads(rows, from, why) : 0;
}

static int check_rows_header(const struct header *header, uint32_t origin_nr, struct reason *why)
{
	static const uint8_t zero[sizeof(header->reserved)];

	if (header->version != VERSION)
		return reason_set(why, -EBADMSG, "the rows of a snapshot are of version %u, not %u",
				  header->version, VERSION);
	if (header->row_nr > origin_nr)
		return report_damaged_rows(why, "more than there are origins");
	for (int i = 0; i < COLUMN_NR; i++)
		if (header->width[i] > width_max[i])
			return report_damaged_rows(why, "a column is too wide");
	if (header->is_sampled > 1 || memcmp(header->reserved, zero, sizeof(zero)))
		return report_damaged_rows(why, "unknown flags");
	return 0;
}

static int decompress_rows(struct rows_scratch *scratch, size_t bytes, const void *from, size_t len,
			   struct reason *why)
{
	if (!scratch->decompress)
		scratch->decompress = ZSTD_createDCtx();
	if (!scratch->decompress)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	if (ZSTD_getFrameContentSize(from, len) != bytes ||
	    ZSTD_decompressDCtx(scratch->decompress, scratch->bytes, bytes, from, len) != bytes)
		return report_damaged_rows(why, "they do not decompress");
	return 0;
}

int fleet_rows_decode(const void *bytes, size_t len, uint32_t origin_nr, struct fleet_rows *rows,
		      struct reason *why)
{
	const char *payload = (const char *)bytes + sizeof(struct header);
	struct rows_scratch *scratch;
	struct header header;
	int err;

	if (len < sizeof(header))
		return report_damaged_rows(why, "too short");
	memcpy(&header, bytes, sizeof(header));
	if (header.checksum != rows_checksum(bytes, len))
		return report_damaged_rows(why, "wrong checksum");
	err = check_rows_header(&header, origin_nr, why);
	if (err)
		return err;
	rows->nr = 0;
	scratch = scratch_of(rows, columns_bytes(&header));
	if (!scratch || fleet_rows_reserve(rows, header.row_nr, header.is_sampled))
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	err = decompress_rows(scratch, columns_bytes(&header), payload, len - sizeof(header), why);
	if (err)
		return err;
	rows->nr = header.row_nr;
	err = get_columns(rows, scratch->bytes, &header, origin_nr, why);
	if (err)
		rows->nr = 0;
	return err;
}
