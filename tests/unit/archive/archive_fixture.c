// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive_fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "reason.h"

static char home[PATH_MAX];
static char directory[] = "/tmp/archive.XXXXXX";

void archive_enter(void)
{
	cr_assert(getcwd(home, sizeof(home)));
	cr_assert(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
	cr_assert_eq(mkdir("d", 0700), 0);
	cr_assert(freopen("log", "a", stderr));
}

void archive_leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir(home) || system(command))
		abort();
}

uint64_t wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

void make_dirs_of(const char *path)
{
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		cr_assert(!mkdir(copy, 0700) || errno == EEXIST, "%s: %s", copy, strerror(errno));
		*slash = '/';
	}
}

void put_file(const char *path, uint64_t bytes)
{
	static const char zeros[64 * KIB];
	int fd;

	make_dirs_of(path);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	for (uint64_t done = 0, part; done < bytes; done += part) {
		part = bytes - done < sizeof(zeros) ? bytes - done : sizeof(zeros);
		cr_assert_eq(write(fd, zeros, part), (ssize_t)part);
	}
	cr_assert(bytes < 64 * KIB || !fsync(fd)); /* then the disk's blocks are known */
	close(fd);
}

static const char *time_text(uint64_t ms)
{
	static char text[64];
	time_t seconds = ms / 1000;
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &utc);
	snprintf(text + len, sizeof(text) - len, ".%03uZ", (unsigned int)(ms % 1000));
	return text;
}

const char *put_snapshot(const char *folder, uint64_t ms, uint64_t bytes)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "d/host/%s/%s.snap", folder, time_text(ms));
	put_file(path, bytes);
	return path;
}

static uint64_t walked_bytes;

static int add_bytes(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)path, (void)kind, (void)at;
	walked_bytes += st->st_blocks * 512;
	return 0;
}

uint64_t disk_bytes(void)
{
	walked_bytes = 0;
	cr_assert_eq(nftw("d", add_bytes, 16, FTW_PHYS), 0);
	return walked_bytes;
}

uint64_t frame_bytes(void)
{
	struct stat d, host;

	cr_assert(!stat("d", &d) && !stat("d/host", &host));
	return (d.st_blocks + host.st_blocks) * 512;
}

int snapshot_nr(const char *folder)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "d/host/%s", folder);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return nr;
}

void expect_minutes(const char *folder, const int *minutes)
{
	char path[PATH_MAX];
	int nr = 0;

	for (; minutes[nr] >= 0; nr++) {
		snprintf(path, sizeof(path), "d/host/%s/%s.snap", folder,
			 time_text(NOON_MS + minutes[nr] * 60000ULL));
		cr_expect(is_there(path), "minute %d of %s", minutes[nr], folder);
	}
	cr_expect_eq(snapshot_nr(folder), nr, "%d snapshots of %s, not %d", snapshot_nr(folder),
		     folder, nr);
}

struct archive *open_archive(uint64_t max_disk_bytes, uint64_t keep_ns)
{
	const struct archive_bounds bounds = { max_disk_bytes, keep_ns };
	struct reason why = { "" };
	struct archive *archive = archive__open("d", &bounds, &why);

	cr_assert(archive, "%s", why.text);
	return archive;
}

void expect_bytes(const struct archive *archive)
{
	struct archive_totals totals;

	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.bytes, disk_bytes(), "%ju counted, %ju there", (uintmax_t)totals.bytes,
		     (uintmax_t)disk_bytes());
}

const char *next_log(void)
{
	static FILE *log;
	static char line[1024];

	log = log ?: fopen("log", "r");
	cr_assert(log && !fflush(stderr));
	clearerr(log); /* it may have grown */
	if (!fgets(line, sizeof(line), log))
		return "";
	line[strcspn(line, "\n")] = '\0';
	return line + strlen("allocsnap: ");
}

void expect_log(const char *line)
{
	cr_expect_str_eq(next_log(), line);
}

bool is_there(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}
