// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/debug_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static bool climbs(const char *path)
{
	for (const char *up = strstr(path, ".."); up; up = strstr(up + 1, ".."))
		if ((up == path || up[-1] == '/') && (!up[2] || up[2] == '/'))
			return true;
	return false;
}

/* O_NONBLOCK: opening a FIFO must not block before fstat() has shown what it is. */
static int open_regular_debug_file(int root_fd, const char *path)
{
	struct stat st;
	int fd;

	while (*path == '/')
		path++;
	if (root_fd < 0 || !*path || climbs(path))
		return -1;
	fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -1;
}

bool debug_file__has_build_id(int fd, const void *want, size_t want_len)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
	const void *build_id;
	bool same = false;

	if (elf_kind(elf) == ELF_K_ELF)
		same = dwelf_elf_gnu_build_id(elf, &build_id) == (ssize_t)want_len &&
		       !memcmp(build_id, want, want_len);
	elf_end(elf);
	return same;
}

static int keep_if(bool right, int fd)
{
	if (fd >= 0 && !right) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool has_checksum(int fd, uint32_t want)
{
	uint8_t block[1 << 16];
	uLong sum = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t nr;

	while ((nr = pread(fd, block, sizeof(block), at)) > 0) {
		sum = crc32(sum, block, nr);
		at += nr;
	}
	return !nr && sum == want;
}

/* ---- candidates ---- */

static int open_by_build_id(int root_fd, const uint8_t *build_id, size_t len)
{
	char path[sizeof(".build-id//.debug") + 2 * BUILD_ID_MAX];
	size_t end;

	if (len < BUILD_ID_MIN || len > BUILD_ID_MAX)
		return -1;
	end = sprintf(path, ".build-id/%02x/", build_id[0]);
	for (size_t i = 1; i < len; i++)
		end += sprintf(path + end, "%02x", build_id[i]);
	strcpy(path + end, ".debug");
	return open_regular_debug_file(root_fd, path);
}

int debug_file__object(int root_fd, const char *build_id)
{
	char path[sizeof(".build-id//") + 2 * BUILD_ID_MAX];
	size_t len = strlen(build_id);

	if (len < 2 * BUILD_ID_MIN || len > 2 * BUILD_ID_MAX ||
	    build_id[strspn(build_id, "0123456789abcdef")])
		return -1;
	sprintf(path, ".build-id/%.2s/%s", build_id, build_id + 2);
	return open_regular_debug_file(root_fd, path);
}

static int open_by_link(int root_fd, const char *object_path, const char *name)
{
	const char *slash = strrchr(object_path, '/');
	char path[PATH_MAX];
	int len;

	if (!slash || object_path[0] != '/' || strchr(name, '/'))
		return -1;
	len = snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - object_path), object_path, name);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -1;
	return open_regular_debug_file(root_fd, path);
}

static int open_shared(int root_fd, const char *name)
{
	const char *below = strstr(name, ".dwz/");

	return below ? open_regular_debug_file(root_fd, below) : -1;
}

int debug_file__candidate(int root_fd, const char *object_path, const struct debug_want *want)
{
	switch (want->kind) {
	case DEBUG_BY_BUILD_ID:
		return open_by_build_id(root_fd, want->build_id, want->build_id_len);
	case DEBUG_BY_LINK:
		return open_by_link(root_fd, object_path, want->name);
	case DEBUG_SHARED:
		return open_shared(root_fd, want->name);
	}
	return -1;
}

/* ---- finding and checking ---- */

/* A candidate that fails the check does not hide the next one, which is in another directory. */
static int open_debug_candidate(const struct debug_opener *opener, const char *path, struct debug_want *want,
				uint32_t checksum)
{
	int fd = -1;

	for (want->nr = 0; fd < 0; want->nr++) {
		fd = opener->open(opener->self, path, want);
		if (fd < 0)
			break;
		fd = keep_if(want->kind == DEBUG_BY_LINK ?
				     has_checksum(fd, checksum) :
				     debug_file__has_build_id(fd, want->build_id, want->build_id_len), fd);
	}
	return fd;
}

int debug_file__open(const struct debug_opener *opener, Elf *object, const char *path)
{
	const void *build_id;
	ssize_t len = dwelf_elf_gnu_build_id(object, &build_id);
	struct debug_want by_id = { .kind = DEBUG_BY_BUILD_ID, .build_id = build_id };
	struct debug_want by_link = { .kind = DEBUG_BY_LINK };
	GElf_Word checksum;
	int fd = -1;

	if (len > 0) {
		by_id.build_id_len = len;
		fd = open_debug_candidate(opener, path, &by_id, 0);
	}
	if (fd >= 0)
		return fd;
	by_link.name = dwelf_elf_gnu_debuglink(object, &checksum);
	return by_link.name ? open_debug_candidate(opener, path, &by_link, checksum) : -1;
}

int debug_file__open_shared(const struct debug_opener *opener, const char *name,
			    const void *build_id, size_t build_id_len)
{
	struct debug_want by_id = {
		.kind = DEBUG_BY_BUILD_ID, .build_id = build_id, .build_id_len = build_id_len,
	};
	struct debug_want by_name = {
		.kind = DEBUG_SHARED, .name = name,
		.build_id = build_id, .build_id_len = build_id_len,
	};
	int fd = open_debug_candidate(opener, "", &by_id, 0);

	return fd < 0 ? open_debug_candidate(opener, "", &by_name, 0) : fd;
}
