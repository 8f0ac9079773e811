// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "formats/byte_buffer.h"
#include "formats/import.h"
#include "formats/pprof.h"
#include "snapshot.h"

static struct snapshot *imported(const char *bytes, size_t len)
{
	struct reason why = { "" };
	struct snapshot *snapshot = import_profile(bytes, len, "x.heap", &why);

	cr_assert_not_null(snapshot, "%s", why.text);
	return snapshot;
}

static struct cost total_of(const struct snapshot *snapshot, enum measure measure)
{
	struct engine_options options = { .key_type = KEY_TRACEBACK, .measure = measure };
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	struct cost total;

	cr_assert_eq(snapshot_statistics(snapshot, &options, &statistics, &why), 0, "%s", why.text);
	total = statistics->total;
	statistics_free(statistics);
	return total;
}

static void expect_refusal(const char *bytes, size_t len, int err, const char *words)
{
	struct reason why = { "" };

	cr_expect_null(import_profile(bytes, len, "x.heap", &why), "%s", words);
	cr_expect_eq(errno, -err, "%s: %d", words, errno);
	cr_expect(strstr(why.text, words), "'%s' is not in '%s'", words, why.text);
	cr_expect(strstr(why.text, "x.heap: "), "%s", why.text);
}

/* ---- text ------------------------------------------------------------------------------------------- */

static const char tcmalloc[] =
	"heap profile:  3: 50 [ 5: 70] @ heapprofile\n"
	"     2: 21 [  3: 40] @ 0x401005d 0x402006f 0x5\n"
	"     1: 29 [  2: 30] @ 0x401005d\n"
	"\n"
	"MAPPED_LIBRARIES:\n"
	"04010000-04011000 r-xp 00002000 08:01 77   /opt/a b\n"
	"04020000-04021000 r-xp 00000000 08:01 78   /lib/c.so\n"
	"7ffc0000-7ffd0000 rw-p 00000000 00:00 0    [stack]\n";

Test(formats_import, tcmalloc_text_is_exact)
{
	struct snapshot *snapshot = imported(tcmalloc, strlen(tcmalloc));
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	struct frame_view *frame;
	uint32_t nframe, total;

	cr_assert_eq(t->trace_nr, 3);
	cr_expect_eq(t->trace_size[0], 11); /* 21 bytes in 2 blocks */
	cr_expect_eq(t->trace_size[1], 10);
	cr_expect_eq(t->trace_size[2], 29);
	cr_expect_null(t->trace_weight);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).size, 50);
	cr_expect_eq(total_of(snapshot, MEASURE_ALLOCATED).size, 70);
	cr_expect_eq(total_of(snapshot, MEASURE_ALLOCATED).count, 5);
	cr_expect_str_eq(snapshot__metadata(snapshot, "source"), "tcmalloc heap profile");

	cr_assert_eq(traceback_read(snapshot, t->trace_traceback[0], &frame, &nframe, &total), 0);
	cr_assert_eq(nframe, 3);
	cr_expect_str_eq(frame[2].object, "/opt/a b"); /* the most recent call */
	cr_expect_eq(frame[2].offset, 0x205d);
	cr_expect_str_eq(frame[1].object, "/lib/c.so");
	cr_expect_eq(frame[1].offset, 0x6f);
	cr_expect_null(frame[0].object);
	cr_expect_eq(frame[0].offset, 5);
	free(frame);
	snapshot__close(snapshot);
}

/* The profiler's figure: 1 / (1 - e^(-300000/524288)) = 2.2950… for each of the two samples of 300,000 bytes. */
Test(formats_import, jemalloc_text_is_of_samples)
{
	static const char text[] = "heap_v2/524288\n"
				   "  t*: 3: 600001 [0: 0]\n"
				   "  t0: 3: 600001 [0: 0]\n"
				   "@ 0x10 0x20\n"
				   "  t*: 2: 600000 [0: 0]\n"
				   "  t0: 2: 600000 [0: 0]\n"
				   "@ 0x30\n"
				   "  t*: 0: 0 [0: 0]\n"
				   "\nMAPPED_LIBRARIES:\n";
	struct snapshot *snapshot = imported(text, strlen(text));
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert_eq(t->trace_nr, 2);
	cr_assert_not_null(t->trace_weight);
	cr_expect_float_eq(t->trace_weight[0], 2.29505, 0.00001);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).count, 5);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).size, 1377031, "%" PRId64, total_of(snapshot, MEASURE_LIVE).size);
	cr_expect_null(t->churn);
	cr_expect_str_eq(snapshot__metadata(snapshot, "sample_bytes"), "524288");
	snapshot__close(snapshot);
}

Test(formats_import, refuses_damaged_text)
{
	static const struct {
		const char *text;
		int err;
		const char *words;
	} row[] = {
		{ "heap profile: 1: 2 [3: 4] @ growthz\n", -EBADMSG, "line 1: not 'heap profile" },
		{ "heap profile: 1: 2 [3: 4\n", -EBADMSG, "line 1: " },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n1: 2 3: 4] @ 0x1\n", -EBADMSG, "line 2: not 'COUNT" },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n1: 2 [3: 4] @ x\n", -EBADMSG, "line 2: not an address" },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n1: 99999999999999999999 [3: 4] @ 1\n", -EBADMSG, "line 2: " },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n1: 18446744073709551617 [3: 4] @ 1\n", -EBADMSG, "line 2: " },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n99999999999: 2 [3: 4] @ 1\n", -EFBIG, "more than 67108864 blocks" },
		{ "heap_v2/x\n", -EBADMSG, "line 1: not 'heap_v2/RATE'" },
		{ "heap_v2/1\n@ 1\n", -EBADMSG, "line 2: not 't*:" },
		{ "heap_v2/1\n t*: 1: 2 [3: 4]\n@ 1\n t*: 1: 2\n", -EBADMSG, "line 4: not 't*:" },
		{ "heap_v2/1\n t*: 1: 2 [3: 4]\nwhat\n", -EBADMSG, "line 3: neither" },
		{ "not a profile", -EBADMSG, "neither pprof's" },
		{ "", -EBADMSG, "neither pprof's" },
		{ "\x1f\x8b\x08 broken", -EBADMSG, "damaged, or not whole: gzip" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		expect_refusal(row[i].text, strlen(row[i].text), row[i].err, row[i].words);
	expect_refusal(row[0].text, (1u << 30) + 1, -EFBIG, "more than 1024 MiB");
}

Test(formats_import, allocated_bytes_without_a_count_are_counted)
{
	static const char text[] = "heap profile:  1: 10 [ 1: 70] @ heapprofile\n"
				   "     1: 10 [  0: 40] @ 0x401005d\n"
				   "     0: 0 [  1: 30] @ 0x401005e\n";
	struct snapshot *snapshot = imported(text, strlen(text));

	cr_expect_eq(snapshot__counter(snapshot, "allocations_uncounted"), 1);
	cr_expect_eq(total_of(snapshot, MEASURE_ALLOCATED).size, 30);
	snapshot__close(snapshot);
}

/* ---- pprof ------------------------------------------------------------------------------------------ */

/* A message of numbers: field 1, 2… */
static void put_row(struct byte_buffer *buffer, uint32_t field, const uint64_t *number, size_t nr)
{
	struct byte_buffer message = {};

	for (size_t i = 0; i < nr; i++)
		protobuf_put_number(&message, i + 1, number[i]);
	protobuf_put_message(buffer, field, &message);
	buffer_release(&message);
}

#define PUT(buffer, field, ...) \
	put_row(buffer, field, (const uint64_t[]){ __VA_ARGS__ }, ARRAY_SIZE(((const uint64_t[]){ __VA_ARGS__ })))

enum { S_EMPTY, S_OBJECTS, S_COUNT, S_SPACE, S_BYTES, S_LEAF, S_MAIN, S_FILE, S_PATH, S_NR };

/* One location with an inlined call, and two samples of which the second has unpacked numbers. */
static void put_profile(struct byte_buffer *buffer, uint64_t period, int64_t count, int64_t bytes)
{
	static const char *const string[S_NR] = { "", "inuse_objects", "count", "inuse_space", "bytes", "leaf", "main",
						  "a.c", "/bin/a" };
	struct byte_buffer sample = {}, values = {}, location = {};

	PUT(buffer, PPROF_PERIOD_TYPE, S_SPACE, S_BYTES);
	PUT(buffer, PPROF_SAMPLE_TYPE, S_OBJECTS, S_COUNT);
	PUT(buffer, PPROF_SAMPLE_TYPE, S_SPACE, S_BYTES);
	protobuf_put_bytes(&sample, PPROF_SAMPLE_LOCATION, "\x09\x08", 2);
	protobuf_put_packed(&values, count);
	protobuf_put_packed(&values, bytes);
	protobuf_put_message(&sample, PPROF_SAMPLE_VALUE, &values);
	protobuf_put_message(buffer, PPROF_SAMPLE, &sample);
	protobuf_put_number(&sample, PPROF_SAMPLE_LOCATION, 8);
	buffer_add(&sample, "\x10\x03\x10\x1e", 4); /* 3 blocks, 30 bytes */
	protobuf_put_message(buffer, PPROF_SAMPLE, &sample);
	PUT(buffer, PPROF_MAPPING, 1, 0x1000, 0x9000, 0x200, S_PATH);
	PUT(buffer, PPROF_LOCATION, 8, 1, 0x1010);
	protobuf_put_number(&location, PPROF_LOCATION_ID, 9);
	protobuf_put_number(&location, PPROF_LOCATION_MAPPING, 1);
	protobuf_put_number(&location, PPROF_LOCATION_ADDRESS, 0x1020);
	PUT(&location, PPROF_LOCATION_LINE, 5, 12);
	PUT(&location, PPROF_LOCATION_LINE, 6, 34);
	protobuf_put_message(buffer, PPROF_LOCATION, &location);
	PUT(buffer, PPROF_FUNCTION, 5, S_LEAF, S_LEAF, S_FILE);
	PUT(buffer, PPROF_FUNCTION, 6, S_MAIN, S_MAIN, S_FILE);
	for (size_t i = 0; i < S_NR; i++)
		protobuf_put_bytes(buffer, PPROF_STRING_TABLE, string[i], strlen(string[i]));
	protobuf_put_number(buffer, PPROF_PERIOD, period);
	buffer_release(&sample);
	buffer_release(&values);
	buffer_release(&location);
}

Test(formats_import, pprof_has_frames_and_sums)
{
	struct byte_buffer profile = {}, packed = {};
	struct frame_view *frame;
	struct snapshot *snapshot;
	uint32_t nframe, total;

	put_profile(&profile, 1, 2, 101);
	cr_assert_eq(gzip_compress(profile.byte, profile.byte_nr, &packed), 0);
	snapshot = imported((char *)packed.byte, packed.byte_nr);
	cr_expect_eq(snapshot__tables(snapshot)->trace_nr, 5);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).size, 131);
	cr_expect_null(snapshot__tables(snapshot)->trace_weight);
	cr_assert_eq(traceback_read(snapshot, snapshot__tables(snapshot)->trace_traceback[0], &frame, &nframe, &total), 0);
	cr_assert_eq(nframe, 3);
	cr_expect_str_eq(frame[2].function, "leaf");
	cr_expect_str_eq(frame[2].filename, "a.c");
	cr_expect_eq(frame[2].lineno, 12);
	cr_expect(frame[2].is_inlined);
	cr_expect_str_eq(frame[1].function, "main");
	cr_expect_eq(frame[1].lineno, 34);
	cr_expect(!frame[1].is_inlined);
	cr_expect_str_eq(frame[0].object, "/bin/a");
	cr_expect_eq(frame[0].offset, 0x210);
	cr_expect_null(frame[0].function);
	free(frame);
	snapshot__close(snapshot);
	buffer_release(&profile);
	buffer_release(&packed);
}

/* Weights are whole numbers, so that the sums equal the profile's to the byte. */
Test(formats_import, pprof_of_samples_keeps_its_sums)
{
	struct byte_buffer profile = {};
	struct snapshot *snapshot;

	put_profile(&profile, 524288, 1000000007, 99999999999);
	snapshot = imported((char *)profile.byte, profile.byte_nr);
	cr_expect_eq(snapshot__tables(snapshot)->trace_nr, 3);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).size, 99999999999 + 30);
	cr_expect_eq(total_of(snapshot, MEASURE_LIVE).count, 1000000007 + 3);
	snapshot__close(snapshot);
	buffer_release(&profile);
}

Test(formats_import, refuses_damaged_pprof)
{
	struct byte_buffer profile = {};

	put_profile(&profile, 1, -2, 101);
	expect_refusal((char *)profile.byte, profile.byte_nr, -ERANGE, "a negative value");
	profile.byte_nr = 0;
	put_profile(&profile, 1, INT64_MAX, 101);
	expect_refusal((char *)profile.byte, profile.byte_nr, -EFBIG, "more than 67108864 blocks");
	profile.byte_nr = 0;
	put_profile(&profile, 1, 2, 101);
	for (size_t len = 5; len < profile.byte_nr - 3; len++) { /* the last field may be missing */
		struct reason why = { "" };
		struct snapshot *snapshot = import_profile((char *)profile.byte, len, "x", &why);

		cr_expect_null(snapshot, "%zu bytes", len);
		cr_expect(*why.text, "%zu bytes", len);
		snapshot__close(snapshot);
	}
	buffer_release(&profile);
}

Test(formats_import, refuses_a_function_that_is_too_long)
{
	static const char zeros[5000];
	struct byte_buffer profile = {};

	put_profile(&profile, 1, 2, 101);
	protobuf_put_bytes(&profile, PPROF_FUNCTION, zeros, sizeof(zeros));
	expect_refusal((char *)profile.byte, profile.byte_nr, -EBADMSG, "more than 4096 bytes");
	buffer_release(&profile);
}

/* ---- pprof of other writers ------------------------------------------------------------------------- */

/* Fields of one number keep their order; the numbers come in any. */
static void put_fields(struct byte_buffer *to, const struct byte_buffer *from, uint32_t number)
{
	struct protobuf_reader reader = { from->byte, from->byte + from->byte_nr };
	struct protobuf_field field;

	for (const uint8_t *at = reader.at; protobuf_next(&reader, &field) == 1; at = reader.at)
		if (field.number == number)
			buffer_add(to, at, reader.at - at);
}

Test(formats_import, pprof_has_its_fields_in_any_order)
{
	static const uint32_t number[] = {
		PPROF_SAMPLE_TYPE, PPROF_SAMPLE, PPROF_MAPPING, PPROF_LOCATION, PPROF_FUNCTION, PPROF_STRING_TABLE,
		PPROF_PERIOD_TYPE, PPROF_PERIOD,
	};
	const size_t nr = ARRAY_SIZE(number);
	struct byte_buffer usual = {};

	put_profile(&usual, 1, 2, 101);
	for (size_t first = 0; first < 2 * nr; first++) {
		struct byte_buffer profile = {};
		struct snapshot *snapshot;

		for (size_t i = 0; i < nr; i++)
			put_fields(&profile, &usual, number[first < nr ? (first + i) % nr : (first - i) % nr]);
		cr_assert_eq(profile.byte_nr, usual.byte_nr);
		cr_expect(import_knows((char *)profile.byte, profile.byte_nr), "%zu", first);
		snapshot = imported((char *)profile.byte, profile.byte_nr);
		cr_expect_eq(total_of(snapshot, MEASURE_LIVE).size, 131);
		snapshot__close(snapshot);
		buffer_release(&profile);
	}
	buffer_release(&usual);
}

/* A first field that is longer than what is looked at, and texts that begin as a field does. */
Test(formats_import, pprof_is_told_from_text)
{
	static const char *const text[] = {
		"{\"traces\": []}", "\n{\"traces\": []}", "2026-11-29 07:00:00 a log", "* a list\n* of two lines, and of some more words",
		"2\n12345678901234567890", "\"a\",\"b\"\n1,2\n", "12\n", "", "a", "<html>\n", "zzzzzzzzzzzzzzzz",
	};
	static char spaces[10000];
	struct byte_buffer profile = {};

	for (size_t i = 0; i < ARRAY_SIZE(text); i++)
		cr_expect(!import_knows(text[i], strlen(text[i])), "'%s'", text[i]);
	memset(spaces, ' ', sizeof(spaces));
	protobuf_put_bytes(&profile, PPROF_COMMENT, spaces, sizeof(spaces));
	put_profile(&profile, 1, 2, 101);
	cr_expect(import_knows((char *)profile.byte, 4096 + 1));
	snapshot__close(imported((char *)profile.byte, profile.byte_nr));
	buffer_release(&profile);
}

enum { L_EMPTY, L_SPACE, L_BYTES, L_FILE, L_NAME, L_OTHER, L_NR };

/* One sample of 7 bytes with a location of one line: of a function with these strings, at a line. */
static struct snapshot *imported_line(const uint64_t function[4], uint64_t line, struct frame_view *ret, uint32_t *ret_nr)
{
	static const char *const string[L_NR] = { "", "space", "bytes", "page.html", "<module>", "_Zother" };
	struct byte_buffer profile = {}, sample = {}, location = {};
	struct snapshot *snapshot;
	struct frame_view *frame;
	uint32_t total;

	PUT(&profile, PPROF_SAMPLE_TYPE, L_SPACE, L_BYTES);
	protobuf_put_number(&sample, PPROF_SAMPLE_LOCATION, 1);
	protobuf_put_number(&sample, PPROF_SAMPLE_VALUE, 7);
	protobuf_put_message(&profile, PPROF_SAMPLE, &sample);
	protobuf_put_number(&location, PPROF_LOCATION_ID, 1);
	PUT(&location, PPROF_LOCATION_LINE, 1, line);
	protobuf_put_message(&profile, PPROF_LOCATION, &location);
	put_row(&profile, PPROF_FUNCTION, function, 4);
	for (size_t i = 0; i < L_NR; i++)
		protobuf_put_bytes(&profile, PPROF_STRING_TABLE, string[i], strlen(string[i]));
	snapshot = imported((char *)profile.byte, profile.byte_nr);
	cr_assert_eq(traceback_read(snapshot, snapshot__tables(snapshot)->trace_traceback[0], &frame, ret_nr, &total), 0);
	*ret = frame[0];
	free(frame);
	buffer_release(&profile);
	buffer_release(&sample);
	buffer_release(&location);
	return snapshot;
}

Test(formats_import, pprof_keeps_what_is_known_of_a_frame)
{
	static const struct {
		uint64_t function[4]; /* id, name, system name, file */
		uint64_t line;
		const char *filename, *name;
		uint32_t lineno;
	} row[] = {
		{ { 1, L_NAME, L_NAME, L_FILE }, 12, "page.html", "<module>", 12 },
		{ { 1, L_NAME, 0, L_FILE }, 0, "page.html", "<module>", 0 },
		{ { 1, 0, 0, L_FILE }, 12, "page.html", NULL, 12 },
		{ { 1, 0, 0, L_FILE }, 0, "page.html", NULL, 0 },
		{ { 1, L_FILE, 0, L_FILE }, 0, "page.html", NULL, 0 },
		{ { 1, 0, L_OTHER, L_FILE }, 12, "page.html", "_Zother", 12 },
		{ { 1, L_NAME, L_OTHER, 0 }, 12, "<unknown>", "<module>", 0 },
		{ { 1, 0, 0, 0 }, 12, "<unknown>", NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct frame_view frame;
		uint32_t nr;
		struct snapshot *snapshot = imported_line(row[i].function, row[i].line, &frame, &nr);

		cr_assert_eq(nr, 1, "row %zu", i);
		cr_expect_str_eq(frame.filename, row[i].filename, "row %zu", i);
		cr_expect_eq(frame.lineno, row[i].lineno, "row %zu", i);
		cr_expect_str_eq(frame.function ?: "", row[i].name ?: "", "row %zu", i);
		snapshot__close(snapshot);
	}
}

/* An unknown frame is one, too, if there are others: its bytes are not its caller's. */
Test(formats_import, pprof_keeps_an_unknown_frame_among_others)
{
	struct byte_buffer profile = {}, location = {};
	struct snapshot *snapshot;
	struct frame_view *frame;
	uint32_t nframe, total;

	put_profile(&profile, 1, 2, 101);
	protobuf_put_bytes(&location, PPROF_SAMPLE_LOCATION, "\x07\x08", 2);
	protobuf_put_bytes(&location, PPROF_SAMPLE_VALUE, "\x01\x05", 2);
	protobuf_put_message(&profile, PPROF_SAMPLE, &location);
	PUT(&profile, PPROF_FUNCTION, 7);
	protobuf_put_number(&location, PPROF_LOCATION_ID, 7);
	PUT(&location, PPROF_LOCATION_LINE, 7);
	protobuf_put_message(&profile, PPROF_LOCATION, &location);
	snapshot = imported((char *)profile.byte, profile.byte_nr);
	cr_assert_eq(snapshot__tables(snapshot)->trace_nr, 6);
	cr_assert_eq(traceback_read(snapshot, snapshot__tables(snapshot)->trace_traceback[5], &frame, &nframe, &total), 0);
	cr_assert_eq(nframe, 2);
	cr_expect_str_eq(frame[1].filename, "<unknown>");
	free(frame);
	snapshot__close(snapshot);
	buffer_release(&profile);
	buffer_release(&location);
}

/* Only values that are used matter. */
Test(formats_import, refuses_pprof_of_other_types)
{
	static const char *const string[] = { "", "cpu", "nanoseconds", "inuse_space", "kilobytes", "bytes" };
	struct byte_buffer profile = {}, sample = {};

	for (size_t i = 0; i < ARRAY_SIZE(string); i++)
		protobuf_put_bytes(&profile, PPROF_STRING_TABLE, string[i], strlen(string[i]));
	expect_refusal((char *)profile.byte, profile.byte_nr, -EBADMSG, "it has no types of values");
	PUT(&profile, PPROF_SAMPLE_TYPE, 1, 2);
	PUT(&profile, PPROF_SAMPLE_TYPE, 3, 4);
	expect_refusal((char *)profile.byte, profile.byte_nr, -EBADMSG,
		       "without inuse_space/bytes or space/bytes; it has cpu/nanoseconds, inuse_space/kilobytes");
	PUT(&profile, PPROF_SAMPLE_TYPE, 3, 5);
	protobuf_put_number(&sample, PPROF_SAMPLE_VALUE, -1);
	protobuf_put_number(&sample, PPROF_SAMPLE_VALUE, -1);
	protobuf_put_number(&sample, PPROF_SAMPLE_VALUE, 7);
	protobuf_put_message(&profile, PPROF_SAMPLE, &sample);
	snapshot__close(imported((char *)profile.byte, profile.byte_nr));
	buffer_release(&profile);
	buffer_release(&sample);
}

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
