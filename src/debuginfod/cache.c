// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "debuginfod/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/debug_file.h"

#define UNUSED_S (7 * 86400) /* libdebuginfod's default */

/* False: nothing says where it is. */
static bool find_folder(char path[PATH_MAX])
{
	const char *folder = getenv("DEBUGINFOD_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int len = 0;

	if (folder && *folder)
		len = snprintf(path, PATH_MAX, "%s", folder);
	else if (cache && *cache)
		len = snprintf(path, PATH_MAX, "%s/debuginfod_client", cache);
	else if (home && *home)
		len = snprintf(path, PATH_MAX, "%s/.cache/debuginfod_client", home);
	return len > 0 && len < PATH_MAX;
}

static void make_with_parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash && slash != path) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	mkdir(path, 0700);
}

static void remove_unused(int folder_fd, const char *build_id, time_t oldest)
{
	static const char *const name[] = { "debuginfo", "executable" };
	int fd = openat(folder_fd, build_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool is_unused = fd >= 0 && !fstat(fd, &st) && st.st_mtime < oldest;

	for (size_t i = 0; fd >= 0 && i < sizeof(name) / sizeof(name[0]); i++)
		if (!fstatat(fd, name[i], &st, AT_SYMLINK_NOFOLLOW) && st.st_atime < oldest)
			is_unused |= !unlinkat(fd, name[i], 0);
	if (fd >= 0)
		close(fd);
	if (is_unused)
		unlinkat(folder_fd, build_id, AT_REMOVEDIR); /* if it is empty */
}

/* libdebuginfod takes the time from such a file, too. */
static unsigned long unused_seconds(int folder_fd)
{
	int fd = openat(folder_fd, "max_unused_age_s", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	char text[24] = "";
	bool is_given = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;

	if (fd >= 0)
		close(fd);
	return is_given ? strtoul(text, NULL, 10) : UNUSED_S;
}

static void clean_folder(int folder_fd)
{
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	time_t oldest = time(NULL) - unused_seconds(folder_fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strlen(entry->d_name) >= 2 * BUILD_ID_MIN && !entry->d_name[strspn(entry->d_name, "0123456789abcdef")])
			remove_unused(folder_fd, entry->d_name, oldest);
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

int cache_open(struct reason *why)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!find_folder(path)) {
		reason_set(why, 0, "neither DEBUGINFOD_CACHE_PATH nor HOME is set");
		return -1;
	}
	make_with_parent(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		reason_set(why, 0, "%s: %s", path, strerror(errno));
	} else if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH)) {
		reason_set(why, 0, "another user can write into %s", path);
	} else {
		clean_folder(fd);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

int cache_find(int cache_fd, const char *build_id, const char *name)
{
	const struct timespec used_now[] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	char path[NAME_MAX];
	struct stat st;
	int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", build_id, name);
	if (cache_fd >= 0)
		fd = openat(cache_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0)
		return -1;
	/* libdebuginfod keeps an empty file for what a server does not have. */
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		close(fd);
		return -1;
	}
	futimens(fd, used_now);
	return fd;
}

int cache_begin(struct cache_place *place, int cache_fd, const char *build_id, const char *name)
{
	*place = (struct cache_place){ .dir_fd = -1, .is_kept = cache_fd >= 0, .file.fd = -1 };
	if (!place->is_kept) {
		place->dir_fd = open(CACHE_TEMPORARY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		mkdirat(cache_fd, build_id, 0700);
		place->dir_fd = openat(cache_fd, build_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return place->dir_fd < 0 ? -errno : atomic_file_open(&place->file, place->dir_fd, name, false);
}

int cache_end(struct cache_place *place)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place->file.fd);
	if (place->is_kept && atomic_file_replace(&place->file))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

void cache_leave(struct cache_place *place)
{
	if (place->file.fd >= 0)
		atomic_file_close(&place->file);
	if (place->dir_fd >= 0)
		close(place->dir_fd);
}
