// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The walk through a folder: links, folders that change or cannot be read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/walk.h"
#include "archive_fixture.h"
#include "skip.h"

TestSuite(archive_walk, .init = archive_enter, .fini = archive_leave, .timeout = 60);

/* Visits, one letter each, with the path of what is not the first folder. */
struct visits {
	char text[400];
	const char *passed_over, *replaced;
	int err;
};

static int visit(void *visits_, const struct archive_entry *entry)
{
	static const char letter[] = {
		[WALK_FOLDER] = '+', [WALK_LEFT] = '-', [WALK_UNREADABLE] = '!', [WALK_FILE] = 'f', [WALK_LINK] = 'l',
		[WALK_OTHER] = 'o',
	};
	struct visits *visits = visits_;
	size_t len = strlen(visits->text);
	struct stat st;

	cr_expect_str_eq(entry->name, entry->depth ? strrchr(entry->path, '/') + 1 : entry->path);
	cr_expect(entry->kind != WALK_FILE || !archive_entry_stat(entry, &st));
	snprintf(visits->text + len, sizeof(visits->text) - len, "%c%s ", letter[entry->kind], entry->path);
	if (visits->replaced && entry->kind == WALK_FOLDER && !strcmp(entry->path, visits->replaced))
		cr_assert(!rename(entry->path, "moved") && !symlink("../moved", entry->path));
	if (visits->passed_over && !strcmp(entry->path, visits->passed_over))
		return WALK_PASS_OVER;
	return entry->kind == WALK_FILE ? visits->err : 0;
}

Test(archive_walk, visits_what_is_there)
{
	struct visits visits = {};

	cr_assert_eq(mkdir("d/a", 0700) ?: mkdir("d/a/b", 0700), 0);
	put_file("d/a/b/.hidden", 0);
	cr_assert_eq(archive_walk("d//", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a +d/a/b fd/a/b/.hidden -d/a/b -d/a -d ");
	visits = (struct visits){ .passed_over = "d/a" };
	cr_assert_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a -d ");
	visits = (struct visits){ .err = -EIO };
	cr_expect_eq(archive_walk("d", visit, &visits), -EIO);
	cr_expect_eq(archive_walk("none", visit, &visits), -ENOENT);
	cr_expect_eq(archive_walk("d/a/b/.hidden", visit, &visits), -ENOTDIR);
}

/* The first folder may be a link. */
Test(archive_walk, follows_no_link_below_the_first_folder)
{
	struct visits visits = {};

	put_file("elsewhere/x.snap", 0);
	cr_assert_eq(symlink("../elsewhere", "d/link") ?: symlink("d", "first"), 0);
	cr_assert_eq(archive_walk("first", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+first lfirst/link -first ");
}

/* Between the visit and the opening, another user puts a link in the folder's place. */
Test(archive_walk, does_not_enter_a_folder_that_has_become_a_link)
{
	struct visits visits = { .replaced = "d/a" };

	put_file("d/a/x.snap", 0);
	cr_assert_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a -d/a -d ");
}

Test(archive_walk, reports_a_folder_that_cannot_be_opened)
{
	struct visits visits = {};

	if (geteuid())
		skip_because("only root can give the folder to another user");
	put_file("d/a/x.snap", 0);
	cr_assert_eq(chmod(".", 0711) | chmod("d", 0755) | seteuid(65534), 0);
	cr_expect_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a !d/a -d/a -d ");
	cr_assert_eq(seteuid(0), 0);
}
