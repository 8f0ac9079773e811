// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Unwind tables that are kept on disk. */
#include "collect/unwind/unwind_cache.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "skip.h"

static char folder[64], file[128];
static struct unwind_cache *cache;
static struct unwind_table *table;
static struct unwind_cache_key key;
static int libc_fd;

static void open_one(uint64_t bytes_max)
{
	unwind_cache__close(cache);
	cache = unwind_cache__open(bytes_max);
}

static void begin(void)
{
	strcpy(folder, "/var/tmp/allocsnap-unit.XXXXXX"); /* not on a tmpfs */
	cr_assert(mkdtemp(folder));
	setenv("ALLOCSNAP_CACHE_DIR", folder, 1);
	open_one(0);
	libc_fd = open("/usr/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(unwind_table__from_file(libc_fd, &table, NULL), 0);
	cr_assert(cache && unwind_cache__key(cache, libc_fd, &key));
}

static void end(void)
{
	char command[128];

	unwind_cache__close(cache);
	unwind_table__free(table);
	close(libc_fd);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(unwind_cache, .init = begin, .fini = end);

/* Counts the cached files; `file` gets the path of the last one. */
static int files_nr(void)
{
	char unwind[80];
	struct dirent *entry;
	int nr = 0;
	DIR *dir;

	snprintf(unwind, sizeof(unwind), "%s/unwind", folder);
	dir = opendir(unwind);
	cr_assert(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			snprintf(file, sizeof(file), "%s/%.40s", unwind, entry->d_name);
			nr++;
		}
	closedir(dir);
	return nr;
}

static bool is_kept(void)
{
	struct unwind_table *kept = unwind_cache__load(cache, &key);
	bool is = kept;

	if (kept) {
		cr_expect_eq(kept->row_nr, table->row_nr);
		cr_expect(!memcmp(kept->row, table->row, table->row_nr * sizeof(*table->row)));
		cr_expect(!memcmp(kept->rule, table->rule, table->rule_nr * sizeof(*table->rule)));
	}
	unwind_table__free(kept);
	return is;
}

static void store(void)
{
	unwind_cache__store(cache, &key, libc_fd, table);
	cr_assert_eq(files_nr(), 1);
}

Test(unwind_cache, keeps_a_table)
{
	struct stat st;

	cr_expect(!is_kept());
	store();
	cr_expect(is_kept());
	open_one(0);
	cr_expect(is_kept(), "for the next recording, too");
	cr_assert(!stat(file, &st));
	cr_expect_eq(st.st_mode & 07777, 0600);
}

Test(unwind_cache, distinguishes_files)
{
	for (int i = 0; i < PACKED_TABLE_KEY_WORDS; i++) {
		key.word[i] ^= 1;
		cr_expect(!is_kept());
		unwind_cache__store(cache, &key, libc_fd, table);
		cr_expect_eq(files_nr(), 0, "it had another key when it was read");
		key.word[i] ^= 1;
	}
}

/* A file with another key's name contains our key. */
Test(unwind_cache, checks_the_key_in_the_file)
{
	struct unwind_cache_key another = key;
	char name[128];

	store();
	strcpy(name, file);
	another.word[1]++;
	cr_assert_null(unwind_cache__load(cache, &another));
	cr_assert_eq(files_nr(), 1);
	cr_expect(is_kept());
}

Test(unwind_cache, does_not_keep_the_table_of_a_file_that_has_just_changed)
{
	char path[128];
	struct unwind_cache_key fresh;
	int fd;

	snprintf(path, sizeof(path), "%s/new", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_expect(!unwind_cache__key(cache, fd, &fresh));
	close(fd);
}

static int run(const char *command)
{
	char line[256];

	snprintf(line, sizeof(line), "cd %s && PATH=$PATH:/usr/sbin && %s", folder, command);
	return system(line);
}

static bool key_in_image(struct unwind_cache_key *ret)
{
	char path[128];
	bool is_kept;
	int fd;

	snprintf(path, sizeof(path), "%s/mounted/unwind", folder);
	cr_assert_eq(run("mount -o loop,ro image mounted"), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0);
	is_kept = unwind_cache__key(cache, fd, ret);
	close(fd);
	cr_assert_eq(run("umount mounted"), 0);
	return is_kept;
}

/* An image's maker chooses inodes and times, and a later image gets the same device number. Their keys must differ. */
Test(unwind_cache, distinguishes_images_mounted_one_after_the_other)
{
	struct unwind_cache_key first, second;
	bool is_kept;

	if (geteuid() || unshare(CLONE_NEWNS) || run("mount --make-rprivate /"))
		skip_because("mounting takes root");
	if (run("mkdir mounted && truncate -s 1M image && mkfs.ext4 -q -d . image 2>/dev/null"))
		skip_because("mkfs.ext4 cannot make an image");
	if (run("mount -o loop,ro image mounted && umount mounted"))
		skip_because("there are no loop devices");
	sleep(3); /* new files are not cached anyway */
	is_kept = key_in_image(&first);
	cr_expect_eq(key_in_image(&second), is_kept);
	cr_expect(!is_kept || memcmp(&first, &second, sizeof(first)));
}

static void flip(off_t at)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	cr_assert_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x40;
	cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

Test(unwind_cache, refuses_damaged_tables, .timeout = 120)
{
	struct stat st;

	store();
	cr_assert(!stat(file, &st));
	for (off_t at = 0; at < st.st_size; at += at < 600 ? 1 : 4999) {
		flip(at);
		cr_expect(!is_kept(), "byte %ld", (long)at);
		cr_expect_eq(files_nr(), 0, "it is not looked at again");
		store();
	}
	for (off_t bytes = 0; bytes < st.st_size; bytes += 9973) {
		cr_assert(!truncate(file, bytes));
		cr_expect(!is_kept(), "%ld bytes", (long)bytes);
		store();
	}
	cr_assert(!truncate(file, st.st_size + 1));
	cr_expect(!is_kept());
}

/* The checksum is right, so the table was made on purpose. */
Test(unwind_cache, refuses_an_invalid_table_with_a_valid_checksum)
{
	table->row_nr--; /* the last page leads to rows that are not there */
	store();
	table->row_nr++;
	cr_expect(!is_kept());
}

Test(unwind_cache, refuses_files_that_other_users_may_write)
{
	char unwind[80];

	store();
	cr_assert(!chmod(file, 0622));
	cr_expect(!is_kept(), "others may write the file");
	cr_assert(!chmod(file, 0600));
	cr_expect(is_kept());
	if (!geteuid()) {
		cr_assert(!chown(file, 65534, 65534));
		cr_expect(!is_kept(), "it is somebody else's");
		cr_assert(!chown(file, 0, 0));
	}
	snprintf(unwind, sizeof(unwind), "%s/unwind", folder);
	cr_assert(!chmod(unwind, 0755));
	open_one(0);
	cr_expect_null(cache);
	cr_expect(!unwind_cache__key(cache, libc_fd, &key));
}

Test(unwind_cache, follows_no_links)
{
	char elsewhere[128];

	store();
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", folder);
	cr_assert(!rename(file, elsewhere));
	cr_assert(!symlink(elsewhere, file));
	cr_expect(!is_kept());
}

Test(unwind_cache, removes_the_oldest_table_when_it_is_full)
{
	struct stat st;
	char old[128];

	store();
	cr_assert(!stat(file, &st));
	snprintf(old, sizeof(old), "%s/unwind/old", folder);
	cr_assert(!rename(file, old));
	cr_assert(!utimensat(AT_FDCWD, old, (struct timespec[2]){ { 1 }, { 1 } }, 0));
	open_one(st.st_size * 3 / 2);
	unwind_cache__store(cache, &key, libc_fd, table);
	cr_expect_eq(files_nr(), 1);
	cr_expect(access(old, F_OK), "the one unused longest goes");
	cr_expect(is_kept());
}

Test(unwind_cache, that_cannot_be_opened_is_not_used)
{
	setenv("ALLOCSNAP_CACHE_DIR", "/proc/nowhere", 1);
	open_one(0);
	cr_expect_null(cache);
	setenv("ALLOCSNAP_CACHE_DIR", "", 1);
	open_one(0);
	cr_expect_null(cache);
}
