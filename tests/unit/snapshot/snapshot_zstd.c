// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Compressed sections: written, read, damaged by chance and by intent. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <zstd.h>

#include "base/array.h"
#include "skip.h"
#include "snapshot/private.h"
#include "snapshot_sample.h"

static const struct snapshot_save_options compress = { .compress = true };

/* Long enough that every column gets smaller. */
static struct snapshot *long_snapshot(void)
{
	struct snapshot_builder *builder = sample_builder(SNAP_WITH_ALL);

	for (uint32_t i = 0; i < 2000; i++) {
		struct snap_trace trace = { i % 7, i, i * 16, i % 3, i % 2, 40 + i % 3 };

		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	return sample_finish(builder);
}

static struct snapshot *open_whole(const struct sample *sample)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open_memory(sample->bytes, sample->len, &why);

	cr_assert(snapshot, "%s", why.text);
	return snapshot;
}

Test(snapshot_zstd, restores_the_rows)
{
	struct snapshot *snapshot = long_snapshot(), *back;
	struct sample raw = sample_serialize(snapshot, NULL), packed = sample_serialize(snapshot, &compress);
	struct sample again;

	cr_expect_lt(packed.len, raw.len / 2);
	back = open_whole(&packed);
	cr_expect_gt(sample_walk(back), 0);
	again = sample_serialize(back, NULL);
	cr_assert_eq(again.len, raw.len);
	cr_expect_arr_eq(again.bytes, raw.bytes, raw.len);
	snapshot__close(back);
	snapshot__close(snapshot);
	sample_release(&raw);
	sample_release(&packed);
	sample_release(&again);
}

Test(snapshot_zstd, compresses_only_sections_that_get_smaller)
{
	struct snapshot *snapshot = long_snapshot();
	struct sample sample = sample_serialize(snapshot, &compress);

	cr_expect_eq(sample_section(&sample, SNAP_METADATA)->encoding, SNAP_RAW);
	cr_expect_eq(sample_section(&sample, SNAP_TRACEBACK_FRAMES)->encoding, SNAP_RAW);
	for (uint32_t type = SNAP_TRACE_SIZE; type <= SNAP_TRACE_THREAD; type++)
		cr_expect_eq(sample_section(&sample, type)->encoding, SNAP_ZSTD);
	snapshot__close(snapshot);
	sample_release(&sample);
}

Test(snapshot_zstd, detects_damage_of_every_byte)
{
	struct snapshot *snapshot = long_snapshot();
	struct sample sample = sample_serialize(snapshot, &compress);
	char what[32];

	for (size_t i = 0; i < sample.len; i++) {
		sample.bytes[i] ^= 0x41;
		snprintf(what, sizeof(what), "byte %zu", i);
		sample_expect_refused(&sample, what, sample_header(&sample)->version > 1 ?
				      ENOTSUP : EBADMSG, "snapshot: ");
		sample.bytes[i] ^= 0x41;
	}
	snapshot__close(snapshot);
	sample_release(&sample);
}

/* A file with valid checksums may open; then every id in it must be valid. */
Test(snapshot_zstd, survives_damage_of_every_byte_with_valid_checksums, .timeout = 600)
{
	struct snapshot *snapshot = long_snapshot();
	struct sample sample = sample_serialize(snapshot, &compress);
	size_t start = sample_section(&sample, SNAP_METADATA)->offset;

	for (size_t i = start; i < sample.len; i++) {
		struct snapshot *back;

		sample.bytes[i] ^= 0x41;
		sample_seal(&sample);
		back = snapshot__open_memory(sample.bytes, sample.len, NULL);
		if (back)
			sample_walk(back);
		snapshot__close(back);
		sample.bytes[i] ^= 0x41;
	}
	snapshot__close(snapshot);
	sample_release(&sample);
}

/* ---- frames made by hand ------------------------------------------------------------------ */

#define SIZES 32 /* bytes of the sample's column of sizes */
#define FRAME_MAX 256

/* A zstd frame for the column of sizes; returns its length. */
typedef size_t (*make_frame)(char frame[FRAME_MAX], const char rows[SIZES]);

static size_t make_with(char frame[FRAME_MAX], const char *rows, size_t len, ZSTD_cParameter what,
			int value)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	size_t made;

	cr_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(zstd, what, value)));
	made = ZSTD_compress2(zstd, frame, FRAME_MAX, rows, len);
	cr_assert(!ZSTD_isError(made));
	ZSTD_freeCCtx(zstd);
	return made;
}

static size_t whole(char frame[FRAME_MAX], const char rows[SIZES])
{
	return make_with(frame, rows, SIZES, ZSTD_c_compressionLevel, 1);
}

static size_t summed(char frame[FRAME_MAX], const char rows[SIZES])
{
	return make_with(frame, rows, SIZES, ZSTD_c_checksumFlag, 1);
}

static size_t wrongly_summed(char frame[FRAME_MAX], const char rows[SIZES])
{
	size_t len = summed(frame, rows);

	frame[len - 1] ^= 1;
	return len;
}

static size_t truncated(char frame[FRAME_MAX], const char rows[SIZES])
{
	return whole(frame, rows) - 1;
}

static size_t garbage_behind(char frame[FRAME_MAX], const char rows[SIZES])
{
	size_t len = whole(frame, rows);

	memcpy(frame + len, "garbage", 7);
	return len + 7;
}

static size_t two_frames(char frame[FRAME_MAX], const char rows[SIZES])
{
	size_t len = make_with(frame, rows, SIZES / 2, ZSTD_c_compressionLevel, 1);

	return len + make_with(frame + len, rows + SIZES / 2, SIZES / 2, ZSTD_c_compressionLevel, 1);
}

static size_t of_no_size(char frame[FRAME_MAX], const char rows[SIZES])
{
	return make_with(frame, rows, SIZES, ZSTD_c_contentSizeFlag, 0);
}

static size_t too_short(char frame[FRAME_MAX], const char rows[SIZES])
{
	return make_with(frame, rows, SIZES - 8, ZSTD_c_compressionLevel, 1);
}

static size_t too_long(char frame[FRAME_MAX], const char rows[SIZES])
{
	char more[SIZES + 1] = "";

	memcpy(more, rows, SIZES);
	return make_with(frame, more, sizeof(more), ZSTD_c_compressionLevel, 1);
}

static size_t no_frame(char frame[FRAME_MAX], const char rows[SIZES])
{
	memcpy(frame, rows, SIZES);
	return SIZES;
}

static size_t skippable(char frame[FRAME_MAX], const char rows[SIZES])
{
	const uint32_t head[] = { 0x184d2a50, SIZES };

	memcpy(mempcpy(frame, head, sizeof(head)), rows, SIZES);
	return sizeof(head) + SIZES;
}

/* The header by the words of RFC 8878: magic, descriptor, window, dictionary, content size. */
static size_t by_hand(char frame[FRAME_MAX], const char rows[SIZES], const char *header, size_t len)
{
	const char last_raw_block[] = { (char)(SIZES << 3 | 1), SIZES >> 5, 0 };
	char *end = mempcpy(frame, "\x28\xb5\x2f\xfd", 4);

	end = mempcpy(end, header, len);
	end = mempcpy(end, last_raw_block, sizeof(last_raw_block));
	return (char *)mempcpy(end, rows, SIZES) - frame;
}

static size_t with_a_dictionary(char frame[FRAME_MAX], const char rows[SIZES])
{
	return by_hand(frame, rows, "\x21\x07\x20", 3);
}

static size_t with_the_largest_window(char frame[FRAME_MAX], const char rows[SIZES])
{
	return by_hand(frame, rows, "\x80\xff\x20\0\0\0", 6);
}

/* 8 bytes of content size: more than the block holds. */
static size_t that_lies(char frame[FRAME_MAX], const char rows[SIZES])
{
	return by_hand(frame, rows, "\xe0\x20\0\0\0\1\0\0\0", 9);
}

static const struct {
	const char *name;
	make_frame make;
	const char *says; /* NULL: opens */
} frames[] = {
	{ "whole", whole, NULL },
	{ "with zstd's own checksum", summed, NULL },
	{ "wrong checksum", wrongly_summed, "zstd: " },
	{ "truncated", truncated, "zstd: " },
	{ "garbage behind", garbage_behind, "7 bytes behind its zstd frame" },
	{ "two frames", two_frames, " bytes behind its zstd frame" },
	{ "no size", of_no_size, "its zstd frame does not say its size" },
	{ "short", too_short, "4 rows in a zstd frame of 24 bytes" },
	{ "long", too_long, "4 rows in a zstd frame of 33 bytes" },
	{ "no frame", no_frame, "no zstd frame" },
	{ "skippable", skippable, "no zstd frame" },
	{ "dictionary", with_a_dictionary, "zstd: " },
	{ "window", with_the_largest_window, "zstd: " },
	{ "lies", that_lies, "4 rows in a zstd frame of 4294967328 bytes" },
};

/* The sample with another column of sizes, at the end of the file. */
static struct sample with_sizes(const char *bytes, size_t len)
{
	struct sample sample = sample_make();
	struct snap_section *first = (struct snap_section *)(sample_header(&sample) + 1);
	struct snap_section moved = *sample_section(&sample, SNAP_TRACE_SIZE);
	uint32_t nr = sample_header(&sample)->section_nr;

	sample_drop(&sample, SNAP_TRACE_SIZE);
	moved.encoding = SNAP_ZSTD;
	moved.offset = sample.len;
	moved.size = len;
	first[nr - 1] = moved;
	sample_header(&sample)->section_nr = nr;
	sample_header(&sample)->file_size += len;
	sample.bytes = realloc(sample.bytes, sample.len + len);
	cr_assert(sample.bytes);
	if (len)
		memcpy(sample.bytes + sample.len, bytes, len);
	sample.len += len;
	sample_seal(&sample);
	return sample;
}

Test(snapshot_zstd, accepts_or_refuses_hand_made_frames)
{
	static const uint64_t rows[] = { 100, 200, 300, 0 };
	char frame[FRAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		size_t len = frames[i].make(frame, (const char *)rows);
		struct sample sample = with_sizes(frame, len);
		struct snapshot *snapshot = NULL;

		if (frames[i].says) {
			sample_expect_refused(&sample, frames[i].name, EBADMSG, frames[i].says);
			sample_expect_refused(&sample, frames[i].name, EBADMSG,
					      "snapshot: damaged: section trace sizes: ");
		} else {
			snapshot = open_whole(&sample);
			cr_expect_eq(snapshot__tables(snapshot)->trace_size[2], 300);
		}
		snapshot__close(snapshot);
		sample_release(&sample);
	}
}

/* ---- what expands too much ------------------------------------------------------------------- */

static const struct {
	uint64_t count;
	const char *says;
} counts[] = {
	{ 1ull << 28, "trace sizes: 268435456 rows are too many for a file of " },
	{ 1ull << 60, "trace sizes: 1152921504606846976 rows are too many for a file of " },
	{ 1ull << 61, "trace sizes: 2305843009213693952 rows in " },
	{ UINT64_MAX, "trace sizes: 18446744073709551615 rows in " },
};

Test(snapshot_zstd, refuses_absurd_counts)
{
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct sample sample = with_sizes("packed", 6);

		sample_section(&sample, SNAP_TRACE_SIZE)->count = counts[i].count;
		sample_seal(&sample);
		sample_expect_refused(&sample, "bomb", EBADMSG, counts[i].says);
		sample_release(&sample);
	}
}

/* Names are compared with each other, so there are not many. */
Test(snapshot_zstd, refuses_too_many_names)
{
	static const uint32_t types[] = { SNAP_METADATA, SNAP_COUNTERS };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct sample sample = sample_make();
		struct snap_section *section = sample_section(&sample, types[i]);

		section->encoding = SNAP_ZSTD;
		section->count = 4097;
		sample_seal(&sample);
		sample_expect_refused(&sample, "names", EBADMSG, "4097 rows are too many");
		sample_release(&sample);
	}
}

/* A frame that honestly holds `len` zeros. */
static struct sample bomb(uint64_t len)
{
	static char zeros[1 << 20];
	size_t room = 1 << 20;
	char *frame = malloc(room);
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	ZSTD_outBuffer out = { frame, room, 0 };
	struct sample sample;

	cr_assert(!ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(zstd, len)));
	for (uint64_t done = 0; done < len; done += sizeof(zeros)) {
		ZSTD_inBuffer in = { zeros, sizeof(zeros), 0 };
		ZSTD_EndDirective end = done + sizeof(zeros) < len ? ZSTD_e_continue : ZSTD_e_end;

		cr_assert_eq(ZSTD_compressStream2(zstd, &out, &in, end) && end == ZSTD_e_end, 0);
	}
	ZSTD_freeCCtx(zstd);
	sample = with_sizes(frame, out.pos);
	free(frame);
	sample_section(&sample, SNAP_TRACE_SIZE)->count = len / 8;
	sample_seal(&sample);
	return sample;
}

Test(snapshot_zstd, reports_a_lack_of_memory)
{
	struct sample sample;
	struct rlimit limit;

#ifdef __SANITIZE_ADDRESS__
	skip_because("the sanitizer's own memory is more than the limit");
#endif
	sample = bomb(900ull << 20);
	limit = (struct rlimit){ 512 << 20, 512 << 20 };
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	sample_expect_refused(&sample, "no memory", ENOMEM, "snapshot: Cannot allocate memory");
	sample_release(&sample);
}

/* A section that a reader would refuse to unpack is written raw. The zeros are never written to: they need no pages. */
Test(snapshot_zstd, leaves_sections_raw_that_could_not_be_read_back, .timeout = 600)
{
	const uint64_t nr = 80 << 20, len = nr * 8;
	void *zeros = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct snapshot snapshot = { 0 };
	struct snap_image image;

	cr_assert_neq(zeros, MAP_FAILED);
	snapshot.rows[SNAP_TRACE_SIZE] = (struct snap_rows){ zeros, nr };
	cr_assert_eq(snap_image_make(&image, &snapshot, &compress), 0);
	cr_expect(image.section[0].encoding == SNAP_ZSTD && image.header.file_size < len / 1000);
	snap_image_release(&image);
	snapshot.rows[SNAP_TRACE_BIRTH] = (struct snap_rows){ zeros, nr };
	cr_assert_eq(snap_image_make(&image, &snapshot, &compress), 0);
	cr_expect(image.section[0].encoding == SNAP_ZSTD && image.section[1].encoding == SNAP_RAW);
	snap_image_release(&image);
	munmap(zeros, len);
}
