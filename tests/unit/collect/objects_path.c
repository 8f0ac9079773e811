// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Files that are opened by their path, before any process is known to map them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/process/mappings.h"
#include "parser_fixture.h"

static struct objects new_objects(void)
{
	return (struct objects){ .parser = parser_with(NULL, 0) };
}

static void release(struct objects *objects)
{
	parser__close(objects->parser);
	objects_release(objects);
}

static char own_path[4096];

static void find_ourselves(void)
{
	cr_assert_gt(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1), 0);
}

static bool uses(const struct mappings *mappings, uint32_t object)
{
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (mappings->used[i] == object)
			return true;
	return false;
}

Test(objects_path, leads_to_the_object_that_a_process_maps_later)
{
	struct objects objects = new_objects();
	struct mappings mappings = { .objects = &objects };
	uint32_t own = OBJECT_NONE;

	find_ourselves();
	cr_assert_eq(objects_get_path(&objects, own_path, &own, NULL), 0);
	cr_expect_not_null(objects.object[own]->facts);
	cr_assert_eq(mappings_refresh(&mappings, getpid(), NULL), 0);
	cr_expect(uses(&mappings, own), "it is another object");
	mappings_release(&mappings);
	release(&objects);
}

/* The path is the one that the kernel reports, whichever link led there. */
Test(objects_path, is_resolved_through_links)
{
	char folder[] = "/tmp/allocsnap-unit-XXXXXX", link[64];
	struct objects objects = new_objects();
	uint32_t own = OBJECT_NONE, again = OBJECT_NONE;

	find_ourselves();
	cr_assert_not_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	cr_assert_eq(symlink(own_path, link), 0);
	cr_assert_eq(objects_get_path(&objects, link, &own, NULL), 0);
	cr_expect_str_eq(objects.object[own]->path, own_path);
	cr_assert_eq(objects_get_path(&objects, own_path, &again, NULL), 0);
	cr_expect_eq(again, own);
	release(&objects);
	unlink(link);
	rmdir(folder);
}

static void expect_refused(const char *path)
{
	struct objects objects = new_objects();
	struct reason why = {};
	uint32_t object;

	cr_expect_lt(objects_get_path(&objects, path, &object, &why), 0, "%s", path);
	cr_expect(*why.text, "%s", path);
	for (size_t i = 0; i < objects.object_nr; i++)
		cr_expect_null(objects.object[i]);
	release(&objects);
}

Test(objects_path, must_be_a_program_or_a_library)
{
	char folder[] = "/tmp/allocsnap-unit-XXXXXX", fifo[64];

	cr_assert_not_null(mkdtemp(folder));
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	expect_refused(fifo);
	expect_refused("/dev/zero");
	expect_refused("/no/such/file");
	expect_refused("/etc/passwd");
	unlink(fifo);
	rmdir(folder);
}
