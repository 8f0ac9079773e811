// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "snapshot/format.h"
#include "snapshot_sample.h"

/* Files that are damaged by chance (checksums) and by intent (everything else). */

/* `width` bytes become `value`, and the checksums are made right. */
struct damage {
	const char *name;
	uint32_t type; /* of the section */
	uint32_t row;
	size_t offset, width; /* in its row, or in its entry of the section table */
	uint64_t value;
	const char *says;
	int err; /* 0: EBADMSG */
};

#define IN(type, row, field) (row), offsetof(type, field), sizeof(((type *)0)->field)
#define HUGE_COUNT (1ull << 63)

#define PAIR(row, field) SNAP_METADATA, IN(struct snap_pair, row, field)
#define COUNTER(row, field) SNAP_COUNTERS, IN(struct snap_counter, row, field)
#define PROBE(row, field) SNAP_PROBES, IN(struct snap_probe, row, field)
#define OBJECT(row, field) SNAP_OBJECTS, IN(struct snap_object, row, field)
#define FRAME(row, field) SNAP_FRAMES, IN(struct snap_frame, row, field)
#define TRACEBACK(row, field) SNAP_TRACEBACKS, IN(struct snap_traceback, row, field)
#define START(row) SNAP_STRING_START, (row), 0, 8
#define BYTE(row) SNAP_STRING_BYTES, (row), 0, 1
#define ID(type, row) (type), (row), 0, 4

static const struct damage row_damages[] = {
	{ "key", PAIR(1, key), 999, "metadata: row 1: string id 999 of ", 0 },
	{ "value", PAIR(1, value), UINT32_MAX, "metadata: row 1: string id 4294967295 of ", 0 },
	{ "no key", PAIR(0, key), 0, "metadata: row 0 has no name", 0 },
	{ "counter name", COUNTER(0, name), 999, "counters: row 0: string id 999", 0 },
	{ "no counter name", COUNTER(1, name), 0, "counters: row 1 has no name", 0 },
	{ "counter kind", COUNTER(1, kind), 3, "counters: row 1: unknown kind 3", 0 },
	{ "no counter kind", COUNTER(1, kind), 0, "counters: row 1: unknown kind 0", 0 },
	{ "probe object", PROBE(0, object), 3, "probes: row 0: object id 3 of 3", 0 },
	{ "probe function", PROBE(0, function), 999, "probes: row 0: string id 999", 0 },
	{ "probe instruction", PROBE(0, instruction), 999, "probes: row 0: string id 999", 0 },
	{ "string 0", START(0), 1, "string 0 is not empty", 0 },
	{ "string 0 has bytes", BYTE(0), 'x', "string 0 is not empty", 0 },
	{ "descending", START(2), 0, "string starts: string 1 from 1 to 0", 0 },
	{ "empty range", START(2), 1, "string starts: string 1 from 1 to 1", 0 },
	{ "far", START(3), 1ull << 62, "string starts: string 2 from 14", 0 },
	{ "inner NUL", BYTE(3), 0, "strings: string 1 does not end at its NUL", 0 },
	{ "no NUL", BYTE(13), 'x', "strings: string 1 does not end at its NUL", 0 },
	{ "object 0", OBJECT(0, path), 1, "objects: row 0 is not zero", 0 },
	{ "path", OBJECT(2, path), 999, "objects: row 2: string id 999", 0 },
	{ "build id", OBJECT(1, build_id), 999, "objects: row 1: string id 999", 0 },
	{ "no hex", OBJECT(2, build_id), 1, "objects: row 2: the build id is not one", 0 },
	{ "frame 0", FRAME(0, lineno), 1, "frames: row 0 is not zero", 0 },
	{ "filename", FRAME(1, filename), 999, "frames: row 1: string id 999", 0 },
	{ "function", FRAME(2, function), 999, "frames: row 2: string id 999", 0 },
	{ "object", FRAME(3, object), 3, "frames: row 3: object id 3 of 3", 0 },
	{ "frame flags", FRAME(3, flags), 32, "frames: row 3: unknown flags", 0 },
	{ "frame reserved", FRAME(3, reserved), 1, "frames: row 3: unknown flags", 0 },
	{ "traceback 0", TRACEBACK(0, total_nframe), 1, "tracebacks: row 0 is not zero", 0 },
	{ "overlap", TRACEBACK(2, first), 2, "tracebacks: row 2 starts at 2, not at 3", 0 },
	{ "cycle", TRACEBACK(2, first), 0, "tracebacks: row 2 starts at 0, not at 3", 0 },
	{ "gap", TRACEBACK(2, first), 4, "tracebacks: row 2 starts at 4, not at 3", 0 },
	{ "far first", TRACEBACK(2, first), UINT64_MAX, "tracebacks: row 2 starts at 1844674", 0 },
	{ "shorter", TRACEBACK(2, nframe), 1, "tracebacks: they end at 4 of 5 frames", 0 },
	{ "longer", TRACEBACK(2, nframe), 3, "tracebacks: they end at 6 of 5 frames", 0 },
	{ "deep", TRACEBACK(2, nframe), 65536, "row 2: 65536 frames are too many", 0 },
	{ "traceback flags", TRACEBACK(1, flags), 4, "tracebacks: row 1: unknown flags", 0 },
	{ "traceback reserved", TRACEBACK(1, reserved), 1, "tracebacks: row 1: unknown flags", 0 },
	{ "no frame", ID(SNAP_TRACEBACK_FRAMES, 4), 0, "frames: row 4: frame id 0 of 4", 0 },
	{ "frame", ID(SNAP_TRACEBACK_FRAMES, 0), 4, "traceback frames: row 0: frame id 4 of 4", 0 },
	{ "traceback", ID(SNAP_TRACE_TRACEBACK, 3), 3,
	  "section trace tracebacks: row 3: traceback id 3 of 3", 0 },
	{ "far traceback", ID(SNAP_TRACE_TRACEBACK, 0), UINT32_MAX, "id 4294967295 of 3", 0 },
};

#define ENTRY(type, field) (type), IN(struct snap_section, 0, field)

static const struct damage section_damages[] = {
	{ "type 0", ENTRY(SNAP_PROBES, type), 0, "a section without a type", 0 },
	{ "unknown type", ENTRY(SNAP_PROBES, type), SNAP_SECTION_TYPE_MAX,
	  "later allocsnap: section type 23 is not known here", ENOTSUP },
	{ "huge type", ENTRY(SNAP_PROBES, type), UINT32_MAX, "type 4294967295", ENOTSUP },
	{ "twice", ENTRY(SNAP_FRAMES, type), SNAP_OBJECTS, "objects: it is there twice", 0 },
	{ "encoding", ENTRY(SNAP_FRAMES, encoding), 2, "frames: encoding 2 is not known", ENOTSUP },
	{ "not packed", ENTRY(SNAP_FRAMES, encoding), 1, "frames: no zstd frame", 0 },
	{ "unaligned", ENTRY(SNAP_FRAMES, offset), 1004, "frames: offset 1004 is not aligned", 0 },
	{ "in the header", ENTRY(SNAP_METADATA, offset), 0, "metadata: it overlaps", 0 },
	{ "overlap", ENTRY(SNAP_COUNTERS, offset), 640, "counters: it overlaps", 0 },
	{ "beyond", ENTRY(SNAP_FRAMES, offset), 1ull << 40, "frames: it reaches beyond", 0 },
	{ "wraps", ENTRY(SNAP_FRAMES, offset), -8ull, "frames: it reaches beyond", 0 },
	{ "large", ENTRY(SNAP_FRAMES, size), 1ull << 40, "frames: it reaches beyond", 0 },
	{ "wrapping size", ENTRY(SNAP_FRAMES, size), UINT64_MAX, "frames: it reaches beyond", 0 },
	{ "empty", ENTRY(SNAP_FRAMES, size), 0, "frames: 4 rows in 0 bytes", 0 },
	{ "part of a row", ENTRY(SNAP_FRAMES, size), 127, "frames: 4 rows in 127 bytes", 0 },
	{ "fewer rows", ENTRY(SNAP_TRACE_SIZE, count), 3, "trace sizes: 3 rows in 32 bytes", 0 },
	{ "2^63 rows", ENTRY(SNAP_FRAMES, count), HUGE_COUNT, "9223372036854775808 rows", 0 },
	{ "2^63 + 4 rows", ENTRY(SNAP_FRAMES, count), HUGE_COUNT + 4, "rows in 128 bytes", 0 },
	{ "2^63 string bytes", ENTRY(SNAP_STRING_BYTES, count), HUGE_COUNT, "rows in", 0 },
};

#define HEADER(field) 0, IN(struct snap_header, 0, field)

static const struct damage header_damages[] = {
	{ "magic", HEADER(magic), 0, "snapshot: not a snapshot", 0 },
	{ "version 0", HEADER(version), 0, "format version 0", 0 },
	{ "version 2", HEADER(version), 2,
	  "written by a later allocsnap: format version 2, this one reads up to 1", ENOTSUP },
	{ "header size", HEADER(header_size), 48, "a header of 48 bytes", 0 },
	{ "no header size", HEADER(header_size), 0, "a header of 0 bytes", 0 },
	{ "shorter", HEADER(file_size), 8, "bytes long, written as 8", 0 },
	{ "longer", HEADER(file_size), UINT64_MAX, "written as 18446744073709551615", 0 },
	{ "no sections", HEADER(section_nr), 0, "string starts: it is missing", 0 },
	{ "one section less", HEADER(section_nr), 14, "the padding before it is not zero", 0 },
	{ "more sections", HEADER(section_nr), UINT32_MAX, "4294967295 sections do not fit", 0 },
	{ "reserved", HEADER(reserved), 1, "a reserved field of the header is not zero", 0 },
};

static void inflict(struct sample *sample, char *base, const struct damage *damage)
{
	sample_poke(sample, base + damage->offset, damage->value, damage->width);
	sample_seal(sample);
	sample_expect_refused(sample, damage->name, damage->err ?: EBADMSG, damage->says);
	sample_release(sample);
}

Test(snapshot_damage, of_rows_is_detected)
{
	for (size_t i = 0; i < ARRAY_SIZE(row_damages); i++) {
		struct sample sample = sample_make();
		struct snap_section *section = sample_section(&sample, row_damages[i].type);
		size_t row_size = section->size / section->count;

		inflict(&sample, sample.bytes + section->offset + row_damages[i].row * row_size,
			&row_damages[i]);
	}
}

Test(snapshot_damage, of_sections_is_detected)
{
	for (size_t i = 0; i < ARRAY_SIZE(section_damages); i++) {
		struct sample sample = sample_make();

		inflict(&sample, (char *)sample_section(&sample, section_damages[i].type),
			&section_damages[i]);
	}
}

Test(snapshot_damage, of_the_header_is_detected)
{
	for (size_t i = 0; i < ARRAY_SIZE(header_damages); i++) {
		struct sample sample = sample_make();

		inflict(&sample, sample.bytes, &header_damages[i]);
	}
}

Test(snapshot_damage, by_duplicate_names_is_detected)
{
	struct sample sample = sample_make();
	char *rows = sample.bytes + sample_section(&sample, SNAP_METADATA)->offset;
	struct snap_pair *pair = (struct snap_pair *)rows;

	pair[1].key = pair[0].key;
	sample_seal(&sample);
	sample_expect_refused(&sample, "same id", EBADMSG, "metadata: pid is there twice");
	sample_release(&sample);
}

/* Two strings of equal text are not two names. */
Test(snapshot_damage, by_duplicate_texts_is_detected)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct sample sample;
	void *bytes;
	char *text;

	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "los\x1b", 1), 0);
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "lost", 1), 0);
	cr_assert_eq(snapshot_builder__serialize(builder, &bytes, &sample.len), 0);
	snapshot_builder__free(builder);
	sample.bytes = bytes;
	text = memmem(bytes, sample.len, "lost", 4);
	cr_assert(text);
	text[3] = '\x1b';
	sample_seal(&sample);
	sample_expect_refused(&sample, "same text", EBADMSG, "counters: los\\x1b is there twice");
	sample_release(&sample);
}

static const struct {
	uint32_t type;
	const char *says; /* NULL: may be missing */
} absences[] = {
	{ SNAP_METADATA, NULL },
	{ SNAP_COUNTERS, NULL },
	{ SNAP_PROBES, NULL },
	{ SNAP_STRING_START, "string starts: it is missing" },
	{ SNAP_STRING_BYTES, "strings: it is missing" },
	{ SNAP_OBJECTS, "objects: it is missing" },
	{ SNAP_FRAMES, "frames: it is missing" },
	{ SNAP_TRACEBACKS, "tracebacks: it is missing" },
	{ SNAP_TRACEBACK_FRAMES, "they end at 5 of 0 frames" },
	{ SNAP_TRACE_SIZE, "trace sizes: it is missing" },
	{ SNAP_TRACE_TRACEBACK, "trace tracebacks: it is missing" },
	{ SNAP_TRACE_DOMAIN, NULL },
	{ SNAP_TRACE_BIRTH, NULL },
	{ SNAP_TRACE_ADDRESS, NULL },
	{ SNAP_TRACE_THREAD, NULL },
};

Test(snapshot_damage, by_missing_sections_is_detected)
{
	for (size_t i = 0; i < ARRAY_SIZE(absences); i++) {
		struct sample sample = sample_make();
		struct snapshot *snapshot = NULL;
		struct reason why = { "" };

		sample_drop(&sample, absences[i].type);
		sample_seal(&sample);
		if (absences[i].says) {
			sample_expect_refused(&sample, "missing", EBADMSG, absences[i].says);
		} else {
			snapshot = snapshot__open_memory(sample.bytes, sample.len, &why);
			cr_expect(snapshot, "without %u: %s", absences[i].type, why.text);
		}
		snapshot__close(snapshot);
		sample_release(&sample);
	}
}

Test(snapshot_damage, by_empty_tables_is_detected)
{
	struct sample sample = sample_make();
	struct snap_section *section = sample_section(&sample, SNAP_FRAMES);

	memset(sample.bytes + section->offset, 0, section->size);
	section->size = section->count = 0;
	sample_seal(&sample);
	sample_expect_refused(&sample, "no row 0", EBADMSG, "section frames: it is empty");
	sample_release(&sample);
}

Test(snapshot_damage, by_columns_of_different_lengths_is_detected)
{
	struct sample sample = sample_make();
	struct snap_section *section = sample_section(&sample, SNAP_TRACE_THREAD);

	section->size = 8;
	section->count = 2;
	memset(sample.bytes + section->offset + 8, 0, 8);
	sample_seal(&sample);
	sample_expect_refused(&sample, "short", EBADMSG, "trace threads: 2 rows for 4 traces");
	sample_drop(&sample, SNAP_TRACE_SIZE);
	sample_drop(&sample, SNAP_TRACE_TRACEBACK);
	sample_seal(&sample);
	sample_expect_refused(&sample, "alone", EBADMSG, "trace domains: 4 rows for 0 traces");
	sample_release(&sample);
}

Test(snapshot_damage, of_padding_is_detected)
{
	struct sample sample = sample_make();
	struct snap_section *section = sample_section(&sample, SNAP_TRACEBACK_FRAMES);

	sample.bytes[section->offset + section->size] = 1;
	sample_seal(&sample);
	sample_expect_refused(&sample, "between", EBADMSG, "the padding before it is not zero");
	sample.bytes[section->offset + section->size] = 0;
	sample_drop(&sample, SNAP_TRACE_THREAD);
	sample.bytes[sample.len - 1] = 1;
	sample_seal(&sample);
	sample_expect_refused(&sample, "end", EBADMSG, "the padding at the end is not zero");
	sample_release(&sample);
}

/* A change of any byte, to any value, is noticed. */
Test(snapshot_damage, of_every_byte_is_detected)
{
	static const unsigned char flips[] = { 0x01, 0x80, 0xff };
	struct sample sample = sample_make();
	char what[32];
	int err;

	for (size_t i = 0; i < sample.len * ARRAY_SIZE(flips); i++) {
		char *byte = &sample.bytes[i / ARRAY_SIZE(flips)];
		char before = *byte;

		*byte ^= flips[i % ARRAY_SIZE(flips)];
		snprintf(what, sizeof(what), "byte %zu", i / ARRAY_SIZE(flips));
		err = sample_header(&sample)->version > SNAP_VERSION ? ENOTSUP : EBADMSG;
		sample_expect_refused(&sample, what, err, "snapshot: ");
		*byte = before;
	}
	sample_release(&sample);
}

/* The copies are as long as they say, so that ASan sees a step too far. */
static void expect_length_refused(const struct sample *whole, size_t len, bool sealed)
{
	struct sample cut = { .bytes = calloc(1, len ?: 1), .len = len };
	char what[32];

	memcpy(cut.bytes, whole->bytes, len < whole->len ? len : whole->len);
	if (sealed) {
		sample_header(&cut)->file_size = len;
		sample_seal(&cut);
	}
	snprintf(what, sizeof(what), "length %zu%s", len, sealed ? ", sealed" : "");
	sample_expect_refused(&cut, what, EBADMSG, len ? "damaged: " : "the file is empty");
	sample_release(&cut);
}

Test(snapshot_damage, by_every_wrong_length_is_detected)
{
	struct sample sample = sample_make();

	for (size_t len = 0; len < sample.len; len++)
		expect_length_refused(&sample, len, false);
	for (size_t len = sizeof(struct snap_header); len < sample.len; len++)
		expect_length_refused(&sample, len, true);
	for (size_t more = 1; more <= 16; more++)
		expect_length_refused(&sample, sample.len + more, false);
	sample_release(&sample);
}

/* Any value in any word, with good checksums: it may open, but then every id in it holds. */
Test(snapshot_damage, of_every_word_with_valid_checksums_does_no_harm)
{
	static const uint32_t values[] = { 0, 1, 2, 5, 0x7fffffff, 0x80000000, UINT32_MAX };
	struct sample sample = sample_make();

	for (size_t i = 0; i < sample.len / 4 * ARRAY_SIZE(values); i++) {
		struct sample copy = { .bytes = malloc(sample.len), .len = sample.len };
		struct snapshot *snapshot;

		memcpy(copy.bytes, sample.bytes, sample.len);
		memcpy(copy.bytes + i / ARRAY_SIZE(values) * 4, &values[i % ARRAY_SIZE(values)], 4);
		sample_seal(&copy);
		snapshot = snapshot__open_memory(copy.bytes, copy.len, NULL);
		if (snapshot)
			sample_walk(snapshot);
		snapshot__close(snapshot);
		sample_release(&copy);
	}
	sample_release(&sample);
}

static char home[PATH_MAX];
static char directory[] = "/tmp/snapshot_open.XXXXXX";

/* Each test runs in a process of its own; relative names are in a directory of their own. */
static void enter(void)
{
	cr_assert(getcwd(home, sizeof(home)));
	cr_assert(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
}

static void leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir(home) || system(command))
		abort();
}

TestSuite(snapshot_open, .init = enter, .fini = leave, .timeout = 600);

static void write_file(const char *path, const void *bytes, size_t len)
{
	FILE *file = fopen(path, "w");

	cr_assert(file && fwrite(bytes, 1, len, file) == len);
	cr_assert_eq(fclose(file), 0);
}

static void expect_refused(const char *path, int err, const char *says)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open(path, &why);

	cr_expect_null(snapshot, "%s: was opened", path);
	cr_expect_eq(errno, err, "%s: errno %d: %s", path, errno, why.text);
	cr_expect_str_eq(why.text, says);
	cr_expect_null(snapshot__open(path, NULL));
	cr_expect_eq(errno, err, "%s: errno %d without a reason", path, errno);
}

Test(snapshot_open, accepts_a_file)
{
	struct sample sample = sample_make();
	struct snapshot *snapshot;

	write_file("a.snap", sample.bytes, sample.len);
	sample_release(&sample);
	snapshot = snapshot__open("a.snap", NULL);
	cr_assert(snapshot);
	write_file("a.snap", "", 0); /* an open snapshot does not change any more */
	cr_expect_str_eq(snapshot__metadata(snapshot, "pid"), "4711");
	cr_expect_eq(snapshot__tables(snapshot)->trace_size[2], 300);
	cr_expect_gt(sample_walk(snapshot), 0);
	snapshot__close(snapshot);
	snapshot__close(NULL);
}

Test(snapshot_open, refuses_paths_that_are_not_files)
{
	cr_assert_eq(mkdir("dir.snap", 0700), 0);
	cr_assert_eq(mkfifo("fifo.snap", 0600), 0);
	expect_refused("none.snap", ENOENT, "none.snap: No such file or directory");
	expect_refused("", ENOENT, ": No such file or directory");
	expect_refused("dir.snap", EISDIR, "dir.snap: Is a directory");
	expect_refused("fifo.snap", EINVAL, "fifo.snap: not a regular file");
	expect_refused("/dev/zero", EINVAL, "/dev/zero: not a regular file");
	expect_refused("/proc/self/status", EBADMSG,
		       "/proc/self/status: not a snapshot: the file is empty");
}

static const struct {
	const char *name, *bytes;
	const char *says;
} texts[] = {
	{ "empty", "", "empty: not a snapshot: the file is empty" },
	{ "short", "x", "short: not a snapshot" },
	{ "text", "The quick brown fox jumps over the lazy dog, twice.", "text: not a snapshot" },
	{ "magic", "ALOCSNAP", "magic: damaged: the file ends in its header" },
	{ "begin", "ALOC", "begin: damaged: the file ends in its header" },
	{ "two\nlines\x1b[31m", "x", "two\\x0alines\\x1b[31m: not a snapshot" },
};

Test(snapshot_open, refuses_files_that_are_not_snapshots)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		write_file(texts[i].name, texts[i].bytes, strlen(texts[i].bytes));
		expect_refused(texts[i].name, EBADMSG, texts[i].says);
	}
}

Test(snapshot_open, refuses_a_later_version)
{
	struct sample sample = sample_make();

	sample_header(&sample)->version = 7;
	write_file("later.snap", sample.bytes, sample.len);
	expect_refused("later.snap", ENOTSUP, "later.snap: written by a later allocsnap: "
		       "format version 7, this one reads up to 1");
	sample_release(&sample);
}

Test(snapshot_open, refuses_damaged_files)
{
	struct sample sample = sample_make();
	char says[128];

	write_file("cut.snap", sample.bytes, 200);
	snprintf(says, sizeof(says), "cut.snap: damaged: 200 bytes long, written as %zu",
		 sample.len);
	expect_refused("cut.snap", EBADMSG, says);
	sample.bytes[sample_section(&sample, SNAP_FRAMES)->offset + 40] ^= 1;
	write_file("bit.snap", sample.bytes, sample.len);
	expect_refused("bit.snap", EBADMSG, "bit.snap: damaged: section frames: wrong checksum");
	sample_release(&sample);
}

/* A size in a header is not believed; a file that is really large is checked before memory is allocated. */
Test(snapshot_open, refuses_absurd_sizes)
{
	struct sample sample = sample_make();

	sample_header(&sample)->file_size = 1ull << 60;
	sample_seal(&sample);
	write_file("claims.snap", sample.bytes, sample.len);
	sample_release(&sample);
	write_file("sparse.snap", "no", 2);
	cr_assert_eq(truncate("sparse.snap", 1ll << 40), 0);
	expect_refused("sparse.snap", EBADMSG, "sparse.snap: not a snapshot");
	cr_expect_null(snapshot__open("claims.snap", NULL));
	cr_expect_eq(errno, EBADMSG);
}

/* A message keeps the end of a long path, and has room for the reason. */
Test(snapshot_open, shortens_a_long_path_in_its_error)
{
	struct reason why = { "" };
	char path[3000];

	for (size_t i = 0; i < sizeof(path); i += 2)
		memcpy(path + i, "./", 2);
	strcpy(path + sizeof(path) - 8, "text.sn");
	write_file(path, "nothing", 7);
	cr_expect_null(snapshot__open(path, &why));
	cr_expect(strstr(why.text, "./text.sn: not a snapshot"), "%s", why.text);
}

Test(snapshot_open, refuses_unaligned_memory)
{
	struct sample sample = sample_make();
	char *moved = malloc(sample.len + 1);
	struct reason why = { "" };

	memcpy(moved + 1, sample.bytes, sample.len);
	cr_expect_null(snapshot__open_memory(moved + 1, sample.len, &why));
	cr_expect_eq(errno, EINVAL);
	cr_expect_str_eq(why.text, "snapshot: not aligned in memory");
	free(moved);
	sample_release(&sample);
}

Test(snapshot_open, refuses_empty_memory)
{
	struct reason why = { "" };

	cr_expect_null(snapshot__open_memory(NULL, 0, &why));
	cr_expect_eq(errno, EBADMSG);
	cr_expect_str_eq(why.text, "snapshot: not a snapshot: the file is empty");
}

/* Two threads read the file: each section is checked, and the error names the first bad section. */
Test(snapshot_open, checks_each_section_of_a_big_file)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	const struct snap_section *section;
	struct snap_header *header;
	struct snapshot *snapshot;
	char says[128];
	size_t len;
	char *bytes;

	cr_assert(builder);
	for (uint64_t i = 0; i < 400000; i++) {
		struct snap_trace trace = { .size = i, .birth_ns = i, .address = i, .thread = 1,
					    .domain = i & 1 };

		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
	cr_assert_eq(snapshot_builder__serialize(builder, (void **)&bytes, &len), 0);
	snapshot_builder__free(builder);
	cr_assert_gt(len, 12 << 20);
	header = (struct snap_header *)bytes;
	section = (const struct snap_section *)(header + 1);
	write_file("big", bytes, len);
	snapshot = snapshot__open("big", NULL);
	cr_assert(snapshot);
	cr_expect_eq(snapshot__tables(snapshot)->trace_size[399999], 399999);
	snapshot__close(snapshot);
	for (uint32_t i = header->section_nr; i--;) {
		if (!section[i].size)
			continue;
		bytes[section[i].offset + section[i].size - 1] ^= 64;
		write_file("big", bytes, len);
		snprintf(says, sizeof(says), "big: damaged: section %s: wrong checksum",
			 snap_shapes[section[i].type].name);
		expect_refused("big", EBADMSG, says);
	}
	free(bytes);
}
