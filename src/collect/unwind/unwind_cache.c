// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind/unwind_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"

#define FOLDER "/var/cache/allocsnap"

struct unwind_cache {
	int dir_fd;
	uint64_t bytes; /* total size of its files */
	uint64_t bytes_max;
};

/* ---- the folder ---- */

static bool is_ours_alone(int fd, mode_t kind, mode_t others)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == kind && st.st_uid == geteuid() &&
	       !(st.st_mode & others);
}

/* Opens the folder, and creates it if it is missing; -1 if another user has access to it. */
static int open_folder(int at, const char *name)
{
	int fd;

	mkdirat(at, name, 0700);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !is_ours_alone(fd, S_IFDIR, 0077)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

struct cached {
	char name[40];
	struct timespec used;
	uint64_t bytes;
};

struct listing {
	struct cached *file;
	size_t file_nr, file_alloc;
	uint64_t bytes;
};

static void list_cached_tables(const struct unwind_cache *cache, struct listing *ret)
{
	int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		struct cached file = {};

		if (strlen(entry->d_name) >= sizeof(file.name) ||
		    fstatat(cache->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		strcpy(file.name, entry->d_name);
		file.used = st.st_mtim;
		file.bytes = st.st_size;
		ret->bytes += file.bytes;
		if (array_push(ret, file, file))
			break;
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

static int open_cache(void)
{
	const char *folder = getenv("ALLOCSNAP_CACHE_DIR") ?: FOLDER;
	int above = *folder ? open_folder(AT_FDCWD, folder) : -1;
	int fd = above < 0 ? -1 : open_folder(above, "unwind");

	if (above >= 0)
		close(above);
	return fd;
}

struct unwind_cache *unwind_cache__open(uint64_t bytes_max)
{
	struct unwind_cache *cache = calloc(1, sizeof(*cache));
	struct listing listing = {};

	if (!cache)
		return NULL;
	cache->bytes_max = bytes_max ?: UNWIND_CACHE_BYTES_MAX;
	cache->dir_fd = open_cache();
	if (cache->dir_fd < 0) {
		free(cache);
		return NULL;
	}
	list_cached_tables(cache, &listing);
	cache->bytes = listing.bytes;
	free(listing.file);
	return cache;
}

void unwind_cache__close(struct unwind_cache *cache)
{
	if (!cache)
		return;
	close(cache->dir_fd);
	free(cache);
}

/* ---- files ---- */

static void name_of(const struct unwind_cache_key *key, char name[40])
{
	snprintf(name, 40, "%016" PRIx64 "%016" PRIx64, hash_bytes(key->word, sizeof(key->word), 1),
		 hash_bytes(key->word, sizeof(key->word), 2));
}

/* Reads the whole file; NULL if another user can write to it, or on any other failure. */
static void *read_whole(int fd, size_t *ret_bytes)
{
	struct stat st;
	char *text;

	if (!is_ours_alone(fd, S_IFREG, 0022) || fstat(fd, &st) ||
	    (uint64_t)st.st_size > PACKED_TABLE_BYTES_MAX)
		return NULL;
	text = malloc(st.st_size + 1);
	if (text && pread(fd, text, st.st_size, 0) != st.st_size) {
		free(text);
		text = NULL;
	}
	*ret_bytes = st.st_size;
	return text;
}

struct unwind_table *unwind_cache__load(const struct unwind_cache *cache,
				       const struct unwind_cache_key *key)
{
	struct unwind_table *table = NULL;
	size_t bytes = 0;
	char name[40];
	void *text;
	int fd;

	name_of(key, name);
	fd = openat(cache->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	text = read_whole(fd, &bytes);
	if (text && packed_table_open(text, bytes, key->word, &table))
		unlinkat(cache->dir_fd, name, 0);
	if (table)
		futimens(fd, NULL); /* marks it as just used */
	free(text);
	close(fd);
	return table;
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct cached *)a)->used;
	const struct timespec *y = &((const struct cached *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Shrinks the cache to three quarters, so that not every new table causes this work. */
static void remove_least_used_tables(struct unwind_cache *cache)
{
	struct listing listing = {};

	list_cached_tables(cache, &listing);
	if (listing.file_nr)
		qsort(listing.file, listing.file_nr, sizeof(*listing.file), by_use);
	cache->bytes = listing.bytes;
	for (size_t i = 0; i < listing.file_nr && cache->bytes > cache->bytes_max / 4 * 3; i++)
		if (!unlinkat(cache->dir_fd, listing.file[i].name, 0))
			cache->bytes -= listing.file[i].bytes;
	free(listing.file);
}

/* The file has another name until it is complete: another recording may read it at any time. */
static bool write_whole(const struct unwind_cache *cache, const char *name, const void *text,
			size_t bytes)
{
	char new[40];
	bool is_whole;
	int fd;

	snprintf(new, sizeof(new), "new.%d", getpid());
	unlinkat(cache->dir_fd, new, 0);
	fd = openat(cache->dir_fd, new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	is_whole = write(fd, text, bytes) == (ssize_t)bytes;
	is_whole = !close(fd) && is_whole && !renameat(cache->dir_fd, new, cache->dir_fd, name);
	if (!is_whole)
		unlinkat(cache->dir_fd, new, 0);
	return is_whole;
}

void unwind_cache__store(struct unwind_cache *cache, const struct unwind_cache_key *key, int fd,
			const struct unwind_table *table)
{
	struct unwind_cache_key now;
	struct packed_table *packed;
	char name[40];

	if (!unwind_cache__key(cache, fd, &now) || memcmp(&now, key, sizeof(now)) ||
	    packed_table_make(table, key->word, &packed))
		return;
	name_of(key, name);
	if (write_whole(cache, name, packed, packed->bytes))
		cache->bytes += packed->bytes;
	free(packed);
	if (cache->bytes > cache->bytes_max)
		remove_least_used_tables(cache);
}
