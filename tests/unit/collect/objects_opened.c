// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which file a mapping is, and which files are not opened. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_object.h"
#include "collect/process/mapping_events.h"
#include "mappings_fixture.h"

/* The build-id of this very program. */
static void read_own_build_id(char text[BUILD_ID_TEXT_MAX])
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_object *elf = elf_object__open(fd, NULL);

	cr_assert_not_null(elf);
	snprintf(text, BUILD_ID_TEXT_MAX, "%s", elf_object__build_id(elf));
	cr_assert_neq(*text, '\0');
	elf_object__close(elf);
	close(fd);
}

static char own_path[4096];

static const struct object *get(struct objects *objects, const char *path, const char *build_id)
{
	const struct mapped_file file = { .pid = NO_PROCESS, .start = 0x1000, .end = 0x2000,
					  .dev = build_id ? 0 : 1, .inode = build_id ? 0 : 1,
					  .path = path, .build_id = build_id, .root = "/" };
	uint32_t object;

	cr_assert_eq(objects_get(objects, &file, &object), 0);
	cr_assert_neq(object, OBJECT_NONE);
	return objects->object[object];
}

static void find_ourselves(char build_id[BUILD_ID_TEXT_MAX])
{
	read_own_build_id(build_id);
	cr_assert_gt(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1), 0);
}

Test(objects, of_an_exited_process_are_opened_by_path)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();
	const struct object *object;

	find_ourselves(build_id);
	object = get(&objects, own_path, build_id);
	cr_expect_not_null(object->facts);
	cr_expect_null(object->unreadable);
	cr_expect_eq(get(&objects, own_path, build_id), object, "opened once");
	release_objects(&objects);
}

Test(objects, are_not_the_file_that_replaced_them_at_their_path)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();
	const struct object *object;

	find_ourselves(build_id);
	build_id[0] = build_id[0] == '0' ? '1' : '0';
	object = get(&objects, own_path, build_id);
	cr_expect_null(object->facts);
	cr_expect_not_null(object->unreadable);
	cr_expect_str_eq(object->path, own_path);
	object = get(&objects, own_path, NULL);
	cr_expect_null(object->facts, "a path alone says nothing");
	release_objects(&objects);
}

/* A program was built anew between two runs, and both runs were over before the file was opened. */
Test(objects, that_were_replaced_differ_from_their_successors)
{
	char build_id[BUILD_ID_TEXT_MAX], old_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();
	const struct object *old, *new;

	find_ourselves(build_id);
	strcpy(old_id, build_id);
	old_id[0] = build_id[0] == '0' ? '1' : '0';
	old = get(&objects, own_path, old_id);
	new = get(&objects, own_path, build_id);
	cr_expect_neq(old, new);
	cr_expect_null(old->facts);
	cr_expect_not_null(new->facts);
	cr_expect_eq(get(&objects, own_path, old_id), old, "its names are not those of the new one");
	cr_expect_eq(objects.object_nr, 2);
	release_objects(&objects);
}

/* Where our code is mapped, as /proc/PID/maps has it. */
static struct mapped_file own_line(void)
{
	struct mapped_file file = { .pid = getpid(), .path = own_path };
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int major, minor;
	char line[8192];

	cr_assert_not_null(maps);
	while (!file.inode && fgets(line, sizeof(line), maps))
		if (!strstr(line, own_path) ||
		    sscanf(line, "%lx-%lx r-xp %*x %x:%x %lu", &file.start, &file.end, &major,
			   &minor, &file.inode) != 5)
			file.inode = 0;
	fclose(maps);
	cr_assert_neq(file.inode, 0);
	file.dev = (uint64_t)major << 32 | minor;
	return file;
}

/* First an event reports the file, with a build-id; then the maps do, with an inode. */
Test(objects, are_opened_once_whether_found_by_event_or_by_maps)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();
	struct mapped_file line;
	uint32_t object;

	find_ourselves(build_id);
	get(&objects, own_path, build_id);
	line = own_line();
	cr_assert_eq(objects_get(&objects, &line, &object), 0);
	cr_expect_eq(object, 0);
	line.pid = NO_PROCESS;
	cr_expect_eq(objects_get(&objects, &line, &object), -ENOENT, "a number is no file");
	release_objects(&objects);
}

Test(objects, are_not_opened_when_they_are_a_fifo_or_a_device)
{
	char path[] = "/tmp/allocsnap-unit-XXXXXX", fifo[64], build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();

	read_own_build_id(build_id);
	cr_assert_not_null(mkdtemp(path));
	snprintf(fifo, sizeof(fifo), "%s/fifo", path);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	cr_expect_not_null(get(&objects, fifo, build_id)->unreadable);
	cr_expect_not_null(get(&objects, "/dev/zero", build_id)->unreadable);
	cr_expect_not_null(get(&objects, "/no/such/file", build_id)->unreadable);
	release_objects(&objects);
	unlink(fifo);
	rmdir(path);
}

Test(objects, that_are_not_mapped_any_more_are_not_found)
{
	const struct mapped_file gone = { .pid = NO_PROCESS, .start = 0x1000, .end = 0x2000,
					  .dev = 1, .inode = 2, .path = "/bin/true" };
	const struct mapped_file unmapped = { .pid = getpid(), .start = 0x1000, .end = 0x2000,
					      .dev = 1, .inode = 2, .path = "/bin/true" };
	struct objects objects = fixture_objects();
	uint32_t object;

	cr_expect_eq(objects_get(&objects, &gone, &object), -ENOENT);
	cr_expect_eq(objects_get(&objects, &unmapped, &object), -ENOENT);
	cr_expect_eq(objects.object_nr, 0);
	release_objects(&objects);
}
