// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which file is which object: decided by the opened file, also after writes to it. Needs root, as recording does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/probe/file_watch.h"
#include "process/mapping_events.h"
#include "process/mappings.h"
#include "process/objects.h"
#include "process/open_file.h"
#include "elf/elf_object.h"
#include "mappings_fixture.h"
#include "sandbox_fixture.h"

struct copied_file {
	struct objects objects;
	char folder[64], path[96];
	void *map;
	size_t bytes;
};

static void copy_file(const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command), "cat '%s' > '%s'", from, to); /* in place: the inode stays */
	cr_assert_eq(system(command), 0);
}

static struct copied_file copied;

static void begin(void)
{
	copied = (struct copied_file){ .objects.sandbox = parser_with(NULL, 0), .folder = "/tmp/allocsnap-unit-XXXXXX" };
	cr_assert_not_null(mkdtemp(copied.folder));
	snprintf(copied.path, sizeof(copied.path), "%s/program", copied.folder);
	copy_file("/bin/true", copied.path);
}

static void end(void)
{
	sandbox__close(copied.objects.sandbox);
	objects_release(&copied.objects);
	unlink(copied.path);
	rmdir(copied.folder);
}

TestSuite(objects, .init = begin, .fini = end);
TestSuite(file_watch, .init = begin, .fini = end);

static struct mapped_file map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct mapped_file file = { .pid = getpid(), .dev = 1, .inode = 2, .path = path };

	cr_assert(fd >= 0);
	copied.bytes = getpagesize();
	copied.map = mmap(NULL, copied.bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	cr_assert(copied.map != MAP_FAILED);
	close(fd);
	file.start = (uintptr_t)copied.map;
	file.end = file.start + copied.bytes;
	return file;
}

/* Maps the file and gets its object. The numbers in a mapping are the same for all files here. */
static uint32_t get_mapped(const char *path)
{
	const struct mapped_file file = map(path);
	uint32_t object;

	cr_assert_eq(objects_get(&copied.objects, &file, &object), 0);
	munmap(copied.map, copied.bytes);
	return object;
}

Test(objects, are_distinguished_when_mappings_have_the_same_numbers)
{
	uint32_t one = get_mapped(copied.path), other = get_mapped("/bin/true");

	cr_expect_neq(one, other);
	cr_expect_eq(get_mapped(copied.path), one);
	cr_expect_eq(get_mapped("/bin/true"), other);
}

Test(objects, become_new_objects_when_their_file_is_written_to)
{
	uint32_t old = get_mapped(copied.path), new;

	cr_expect(objects_check(&copied.objects, old));
	copy_file("/bin/false", copied.path);
	new = get_mapped(copied.path);
	cr_expect_neq(new, old);
	cr_expect(copied.objects.object[old]->has_changed);
	cr_expect_eq(copied.objects.changed_nr, 1);
	cr_expect(!objects_check(&copied.objects, old));
	cr_expect(objects_check(&copied.objects, new));
	cr_expect_str_neq(copied.objects.object[old]->probe_info->build_id, copied.objects.object[new]->probe_info->build_id);
	cr_expect_neq(copied.objects.object[old]->names_id, copied.objects.object[new]->names_id);
	cr_expect_eq(get_mapped(copied.path), new);
}

Test(objects, notice_a_write_without_a_mapping)
{
	uint32_t object = get_mapped(copied.path);
	char byte;

	copy_file("/bin/false", copied.path);
	cr_expect(!objects_check(&copied.objects, object));
	cr_expect_eq(object_read(copied.objects.object[object], 0, &byte, 1), 0, "nothing is read of it any more");
}

/* A package upgrade renames a new file over the old one. That changes the old inode, but not its bytes. */
Test(objects, stay_the_same_after_a_rename_or_a_link)
{
	uint32_t object = get_mapped(copied.path);
	char other[128];

	snprintf(other, sizeof(other), "%s/other", copied.folder);
	cr_assert_eq(link(copied.path, other), 0);
	cr_expect_eq(get_mapped(copied.path), object);
	cr_assert_eq(unlink(other), 0);
	cr_assert_eq(chmod(copied.path, 0700), 0);
	cr_expect(objects_check(&copied.objects, object));
	cr_expect_eq(get_mapped(copied.path), object);
	cr_expect_eq(copied.objects.changed_nr, 0);
}

/* touch -r: the owner can set the modification time back, but not the change time. */
Test(objects, notice_a_write_whose_modification_time_was_set_back)
{
	uint32_t object = get_mapped(copied.path);
	struct timespec times[2];
	struct stat before;
	int fd = open(copied.path, O_RDWR | O_CLOEXEC);

	cr_assert(fd >= 0 && !fstat(fd, &before));
	cr_assert(ftruncate(fd, 0) == 0 && ftruncate(fd, before.st_size) == 0);
	times[0] = before.st_atim;
	times[1] = before.st_mtim;
	cr_assert_eq(futimens(fd, times), 0);
	close(fd);
	cr_expect(!objects_check(&copied.objects, object));
}

Test(objects, with_the_same_path_and_bytes_share_their_names)
{
	uint32_t first = get_mapped(copied.path), second;

	cr_assert_eq(unlink(copied.path), 0); /* it is another file, as in another container */
	copy_file("/bin/true", copied.path);
	second = get_mapped(copied.path);
	cr_expect_neq(first, second);
	cr_expect_eq(copied.objects.object[first]->names_id, copied.objects.object[second]->names_id);
}

/* Other bytes at its end, as its build-id and its size are the same. */
static void spoil(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && lseek(fd, -1, SEEK_END) > 0 && write(fd, "\1", 1) == 1);
	close(fd);
}

/* Any user can give a file the build-id of another one. */
Test(objects, with_equal_build_ids_may_differ)
{
	uint32_t first = get_mapped(copied.path), second;

	cr_assert_eq(unlink(copied.path), 0);
	copy_file("/bin/true", copied.path);
	spoil(copied.path);
	second = get_mapped(copied.path);
	cr_expect_str_eq(copied.objects.object[first]->probe_info->build_id, copied.objects.object[second]->probe_info->build_id);
	cr_expect_neq(copied.objects.object[first]->names_id, copied.objects.object[second]->names_id);
}

/* ---- copies ---- */

static int log_remote(int, struct file_system *asked)
{
	*asked = (struct file_system){ .type = "nfs4", .device = 41, .inode = 17 };
	return 0;
}

static uint32_t get_told(const struct mapped_file *told)
{
	struct mapped_file file = map(copied.path);
	uint32_t object;

	file.dev = told->dev;
	file.inode = told->inode;
	file.build_id = told->build_id;
	cr_assert_eq(objects_get(&copied.objects, &file, &object), 0);
	munmap(copied.map, copied.bytes);
	return object;
}

/* The event has another build-id than the copy; lines of maps have numbers only. */
Test(objects, that_are_copies_are_identified_by_the_copied_bytes)
{
	const struct mapped_file line = { .dev = 41, .inode = 17 }, event = { .build_id = "another" };
	uint32_t old, new;

	copied.objects.opener = file_opener__new(log_remote);
	old = get_told(&line);
	cr_assert(copied.objects.object[old]->is_copy);
	cr_expect_eq(get_told(&line), old);
	cr_expect_eq(get_told(&event), old, "the bytes are the same");
	spoil(copied.path);
	new = get_told(&event);
	cr_expect_neq(new, old);
	cr_expect(copied.objects.object[old]->has_changed);
	cr_expect_neq(copied.objects.object[old]->names_id, copied.objects.object[new]->names_id);
	cr_expect_eq(get_told(&line), new);
	file_opener__free(copied.objects.opener);
}

Test(objects, of_an_exited_process_are_opened_in_its_root)
{
	uint32_t known = get_mapped(copied.path), object;
	struct mapped_file gone = {
		.pid = NO_PROCESS, .start = 4096, .end = 8192, .path = copied.path, .root = "/",
		.build_id = copied.objects.object[known]->probe_info->build_id,
	};

	cr_assert_eq(objects_get(&copied.objects, &gone, &object), 0);
	cr_expect_eq(object, known);
	gone.root = copied.folder; /* has no such path: another mount namespace */
	cr_assert_eq(objects_get(&copied.objects, &gone, &object), 0);
	cr_expect_neq(object, known, "the build-id and the path are not enough");
	cr_expect_not_null(copied.objects.object[object]->unreadable);
}

Test(objects, reuse_the_index_of_a_removed_object)
{
	uint32_t first = get_mapped(copied.path), second;

	get_mapped("/bin/true");
	objects_drop(&copied.objects, first);
	second = get_mapped("/bin/false");
	cr_expect_eq(second, first);
	cr_expect_eq(copied.objects.object_nr, 2);
}

/* ---- watches ---- */

static void expect_told(struct file_watch *watch, int number)
{
	cr_expect_eq(file_watch_next(watch), number);
	while (file_watch_next(watch) == number)
		;
	cr_expect_eq(file_watch_next(watch), FILE_WATCH_NONE);
}

Test(file_watch, reports_the_first_write)
{
	int fd = open(copied.path, O_RDONLY | O_CLOEXEC), writer, number;
	struct file_watch watch;

	cr_assert_eq(file_watch_open(&watch), 0);
	number = file_watch_add(&watch, fd);
	cr_assert(number > 0);
	cr_expect_eq(file_watch_add(&watch, fd), number, "one for a file");
	cr_expect_eq(file_watch_next(&watch), FILE_WATCH_NONE);
	writer = open(copied.path, O_WRONLY | O_TRUNC | O_CLOEXEC); /* as cp begins */
	expect_told(&watch, number);
	cr_assert_eq(write(writer, "x", 1), 1);
	expect_told(&watch, number);
	close(writer);
	expect_told(&watch, number);
	file_watch_remove(&watch, number);
	copy_file("/bin/true", copied.path);
	cr_expect_eq(file_watch_next(&watch), FILE_WATCH_NONE);
	close(fd);
	file_watch_close(&watch);
}

/* ---- shares ---- */

static uint32_t get_of_user(uint32_t user, int nr)
{
	char path[128];
	struct mapped_file file;
	uint32_t object;

	snprintf(path, sizeof(path), "%s/user%u.%d", copied.folder, user, nr);
	copy_file("/dev/null", path);
	cr_assert_eq(truncate(path, getpagesize()), 0);
	file = map(path);
	file.user = user;
	cr_assert_eq(objects_get(&copied.objects, &file, &object), 0);
	munmap(copied.map, copied.bytes);
	unlink(path);
	return object;
}

/* One user gets at most three quarters; the rest serves the next user. */
Test(objects, of_one_user_leave_room_for_objects_of_another)
{
	uint32_t last = OBJECT_NONE, others = 0;

	copied.objects.files_most = 40;
	for (int i = 0; i < 100; i++)
		last = get_of_user(7, i);
	cr_expect_eq(copied.objects.user_files[7], 30);
	cr_expect_eq(copied.objects.object[last]->fd, -1);
	cr_expect_not_null(copied.objects.object[last]->unreadable);
	cr_expect_eq(copied.objects.object_nr, 31, "one object for all that are beyond it");
	for (int i = 0; i < 5; i++)
		others += copied.objects.object[get_of_user(8, i)]->fd >= 0;
	cr_expect_eq(others, 5);
	objects_drop(&copied.objects, 0);
	cr_expect_eq(copied.objects.user_files[7], 29);
	cr_expect_eq(copied.objects.files_nr, 34);
}

/* An event names the file; its file system has other numbers for a mapping than for the file. */
static uint32_t get_of_event(const char *path, const char *told)
{
	struct mapped_file file = map(path);
	uint32_t object;

	unlink(path);
	file.root = "/";
	file.path = told;
	cr_assert_eq(objects_get(&copied.objects, &file, &object), 0);
	munmap(copied.map, copied.bytes);
	return object;
}

Test(objects, of_an_event_may_be_deleted_since)
{
	uint32_t object = get_of_event(copied.path, copied.path);

	cr_expect_not_null(copied.objects.object[object]->probe_info, "%s", copied.objects.object[object]->unreadable);
	copy_file("/bin/true", copied.path);
	object = get_of_event(copied.path, "/srv/progra");
	cr_expect_null(copied.objects.object[object]->probe_info, "another file may be mapped there since");
}

/* A process may map ever more files. */
Test(objects, with_a_heap_without_names_have_a_limited_number_of_notes)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "echo 'char t[] = \"<jemalloc>: Malformed conf string\"; void _start(void) {}' | gcc -static -nostdlib -s -x c -o %s -",
		 copied.path);
	cr_assert_eq(system(command), 0);
	for (int i = 0; i < 40; i++) {
		snprintf(command, sizeof(command), "cp %s %s/copy && echo %d >> %s/copy", copied.path, copied.folder, i, copied.folder);
		cr_assert_eq(system(command), 0);
		snprintf(command, sizeof(command), "%s/copy", copied.folder);
		get_mapped(command);
		unlink(command);
	}
	cr_expect_geq(copied.objects.object_nr, 40);
	cr_expect_eq(copied.objects.note_nr, 32);
	cr_expect_not_null(strstr(copied.objects.note[0], "/copy has jemalloc in it"));
}

/* ---- objects path ---- */

/* Files that are opened by their path, before any process is known to map them. */

static char own_path[4096];

static void find_own_path(void)
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
	struct objects objects = fixture_objects();
	struct mappings mappings = { .objects = &objects };
	uint32_t own = OBJECT_NONE;

	find_own_path();
	cr_assert_eq(objects_get_path(&objects, own_path, &own, NULL), 0);
	cr_expect_not_null(objects.object[own]->probe_info);
	cr_assert_eq(mappings_refresh(&mappings, getpid(), NULL), 0);
	cr_expect(uses(&mappings, own), "it is another object");
	mappings_release(&mappings);
	release_objects(&objects);
}

/* The path is the one that the kernel reports, whichever link led there. */
Test(objects_path, is_resolved_through_links)
{
	char folder[] = "/tmp/allocsnap-unit-XXXXXX", link[64];
	struct objects objects = fixture_objects();
	uint32_t own = OBJECT_NONE, again = OBJECT_NONE;

	find_own_path();
	cr_assert_not_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	cr_assert_eq(symlink(own_path, link), 0);
	cr_assert_eq(objects_get_path(&objects, link, &own, NULL), 0);
	cr_expect_str_eq(objects.object[own]->path, own_path);
	cr_assert_eq(objects_get_path(&objects, own_path, &again, NULL), 0);
	cr_expect_eq(again, own);
	release_objects(&objects);
	unlink(link);
	rmdir(folder);
}

static void expect_refused(const char *path)
{
	struct objects objects = fixture_objects();
	struct reason why = {};
	uint32_t object;

	cr_expect_lt(objects_get_path(&objects, path, &object, &why), 0, "%s", path);
	cr_expect(*why.text, "%s", path);
	for (size_t i = 0; i < objects.object_nr; i++)
		cr_expect_null(objects.object[i]);
	release_objects(&objects);
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

/* ---- objects opened ---- */

/* Which file a mapping is, and which files are not opened. */

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
	find_own_path();
}

Test(objects, of_an_exited_process_are_opened_by_path)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = fixture_objects();
	const struct object *object;

	find_ourselves(build_id);
	object = get(&objects, own_path, build_id);
	cr_expect_not_null(object->probe_info);
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
	cr_expect_null(object->probe_info);
	cr_expect_not_null(object->unreadable);
	cr_expect_str_eq(object->path, own_path);
	object = get(&objects, own_path, NULL);
	cr_expect_null(object->probe_info, "a path alone says nothing");
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
	cr_expect_null(old->probe_info);
	cr_expect_not_null(new->probe_info);
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
