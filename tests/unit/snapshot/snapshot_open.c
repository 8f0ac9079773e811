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
