// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Snapshots that are written one after another and get their names together. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "snapshot.h"

static char folder[] = "/tmp/allocsnap-batch.XXXXXX";

static void enter(void)
{
	cr_assert_not_null(mkdtemp(folder));
}

static int count_files(const char *dir)
{
	DIR *open = opendir(dir);
	int nr = 0;

	cr_assert_not_null(open);
	for (const struct dirent *entry; (entry = readdir(open));)
		nr += *entry->d_name != '.';
	closedir(open);
	return nr;
}

static void leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(snapshot_batch, .init = enter, .fini = leave);

static void add(struct snapshot_batch *batch, const char *name, uint64_t tag)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct reason why = {};

	cr_assert_eq(snapshot_batch__add(batch, builder, folder, name, NULL, tag, &why), 0, "%s",
		     why.text);
	snapshot_builder__free(builder);
}

struct told {
	int nr, failed;
	char path[4][256];
	uint64_t tag[4];
};

static void tell(void *what, uint64_t tag, const char *path, int err, const struct reason *why)
{
	struct told *told = what;

	cr_assert_lt(told->nr, 4);
	told->failed += err != 0;
	cr_expect(!err == !!path && (!err || *why->text));
	told->tag[told->nr] = tag;
	snprintf(told->path[told->nr++], 256, "%s", path ? path : "");
}

Test(snapshot_batch, creates_names_when_it_is_published)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct told told = {};
	struct snapshot *snapshot;

	add(batch, "a", 7);
	add(batch, "b", 8);
	cr_expect_eq(snapshot_batch__nr(batch), 2);
	cr_expect_eq(count_files(folder), 0);
	snapshot_batch__publish(batch, tell, &told);
	cr_expect_eq(snapshot_batch__nr(batch), 0);
	cr_expect_eq(told.nr, 2);
	cr_expect_eq(told.failed, 0);
	cr_expect(told.tag[0] == 7 && told.tag[1] == 8);
	for (int i = 0; i < told.nr; i++) {
		snapshot = snapshot__open(told.path[i], NULL);
		cr_assert_not_null(snapshot, "%s", told.path[i]);
		snapshot__close(snapshot);
	}
	snapshot_batch__free(batch);
}

Test(snapshot_batch, numbers_a_name_that_exists)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct told told = {};

	add(batch, "a", 1);
	add(batch, "a", 2);
	snapshot_batch__publish(batch, tell, &told);
	cr_expect(strstr(told.path[0], "/a.snap"));
	cr_expect(strstr(told.path[1], "/a-2.snap"));
	snapshot_batch__free(batch);
}

Test(snapshot_batch, leaves_nothing_when_it_is_not_published)
{
	struct snapshot_batch *batch = snapshot_batch__new();

	add(batch, "a", 1);
	snapshot_batch__free(batch);
	cr_expect_eq(count_files(folder), 0);
	snapshot_batch__free(NULL);
}

Test(snapshot_batch, reports_a_failed_file_and_publishes_the_others)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct told told = {};
	struct reason why = {};
	char gone[128];

	add(batch, "a", 1);
	cr_expect_eq(snapshot_batch__add(batch, builder, folder, "../b", NULL, 2, &why), -EINVAL);
	cr_expect(*why.text);
	snprintf(gone, sizeof(gone), "%s/gone", folder);
	cr_expect_eq(snapshot_batch__add(batch, builder, gone, "b", NULL, 3, &why), -ENOENT);
	cr_assert_eq(mkdir(gone, 0700), 0);
	cr_assert_eq(snapshot_batch__add(batch, builder, gone, "c", NULL, 4, &why), 0);
	cr_assert_eq(rmdir(gone), 0); /* it has no place for the name any more */
	snapshot_batch__publish(batch, tell, &told);
	cr_expect_eq(told.nr, 2);
	cr_expect_eq(told.failed, 1);
	cr_expect(*told.path[0] && !*told.path[1]);
	cr_expect_eq(count_files(folder), 1);
	snapshot_builder__free(builder);
	snapshot_batch__free(batch);
}
