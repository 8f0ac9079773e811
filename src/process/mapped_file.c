// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/stat.h> /* C libraries differ in their declarations of statx() */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/units.h"
#include "process/open_file.h"

/* ---- file identity ---- */

static struct file_time convert_statx_time(const struct statx_timestamp *time)
{
	return (struct file_time){ time->tv_sec, time->tv_nsec };
}

int file_identity_read(int fd, struct file_identity *ret)
{
	struct statx st;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME, &st))
		return -errno;
	*ret = (struct file_identity){
		.device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
		.inode = st.stx_ino,
		.bytes = st.stx_size,
		.modified = convert_statx_time(&st.stx_mtime),
		.changed = convert_statx_time(&st.stx_ctime),
	};
	if (st.stx_mask & STATX_BTIME)
		ret->born = convert_statx_time(&st.stx_btime);
	return 0;
}

static bool is_same_time(const struct file_time *a, const struct file_time *b)
{
	return a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

bool file_identity_is_same_inode(const struct file_identity *a, const struct file_identity *b)
{
	return a->inode == b->inode && a->device == b->device && is_same_time(&a->born, &b->born);
}

bool file_identity_is_unwritten(const struct file_identity *a, const struct file_identity *b)
{
	return file_identity_is_same_inode(a, b) && a->bytes == b->bytes &&
	       is_same_time(&a->modified, &b->modified);
}

bool file_identity_is_same(const struct file_identity *a, const struct file_identity *b)
{
	return file_identity_is_unwritten(a, b) && is_same_time(&a->changed, &b->changed);
}

/* ---- mapped file ---- */

/*
 * Mapped files stay open. A quarter of the descriptors is reserved for work that must continue when there are too
 * many files: snapshots are files, too.
 */
static int keep_spare(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd < limit.rlim_cur / 4 * 3)
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

void close_opened(struct opened *opened)
{
	if (opened->fd >= 0)
		close(opened->fd);
	opened->fd = -1;
}

/* A copy has the file's size, but a device and an inode of its own. */
static int identify_opened(struct opened *opened, const struct opened_file *file)
{
	struct file_identity own;
	int err = file_identity_read(opened->fd, &own);

	if (err)
		return err;
	opened->identity = !file->is_copy ? own : (struct file_identity){
		.device = file->dev, .inode = file->inode, .bytes = own.bytes,
	};
	opened->kernel_file = file->file;
	opened->below = file->below;
	return 0;
}

/*
 * `at` is an O_PATH descriptor, which opens nothing yet; it is closed. 0 or a negative errno, with a line in
 * ret->why.
 */
static int open_at(struct file_opener *opener, int at, struct opened *ret)
{
	struct opened_file file;
	int err;

	open_file(opener, at, &file);
	*ret = (struct opened){ .fd = keep_spare(file.fd), .is_copy = file.is_copy };
	err = ret->fd < 0 ? -errno : identify_opened(ret, &file);
	if (!err)
		return 0;
	ret->is_silent = err == -ETIMEDOUT;
	ret->is_first_silence = file.is_first_silence;
	reason_set(&ret->why, err, "%s", open_file_strerror(-err));
	close_opened(ret);
	return err;
}

static const char deleted[] = " (deleted)";

bool is_path_of_mapping(const char *path, const char *told)
{
	size_t len = strlen(path);

	return !strncmp(told, path, len) && (!told[len] || !strcmp(told + len, deleted));
}

/* Some file systems have other numbers for a mapping. A process in a container sees another path. */
static bool is_file_of_event(const struct mapped_file *file, const struct opened *opened, const char *link)
{
	char path[PATH_MAX];
	ssize_t bytes;

	if (opened->identity.device == file->dev)
		return opened->identity.inode == file->inode;
	bytes = readlink(link, path, sizeof(path) - 1);
	path[bytes < 0 ? 0 : bytes] = '\0';
	return is_path_of_mapping(path_name(file->path), path_name(path));
}

/* A process may have mapped another file there since the event. */
int open_mapped(struct file_opener *opener, const struct mapped_file *file, struct opened *ret)
{
	char link[128];
	int err;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, file->pid,
		 file->start, file->end);
	err = open_at(opener, open(link, O_PATH | O_CLOEXEC), ret);
	if (!err && file->root && file->inode && !is_file_of_event(file, ret, link)) {
		close_opened(ret);
		err = -ENOENT;
	}
	return err == -ESRCH || err == -ENOENT ? err : 0;
}

char *path_of_mapping(const char *path)
{
	size_t len = strlen(path), tail = sizeof(deleted) - 1;

	if (len > tail && !strcmp(path + len - tail, deleted))
		len -= tail;
	return strndup(path, len);
}

void open_by_path(struct file_opener *opener, const struct mapped_file *file, struct opened *ret)
{
	char *path = path_of_mapping(file->path);

	errno = ENOMEM;
	open_at(opener, path ? open_below(opener, file->root, path) : -1, ret);
	ret->is_by_path = true;
	free(path);
}

static char *real_path(int at)
{
	char link[64], path[PATH_MAX];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
	bytes = readlink(link, path, sizeof(path));
	return bytes > 0 && bytes < (ssize_t)sizeof(path) ? strndup(path, bytes) : NULL;
}

/* Links in the path are followed: the kernel reports a file to processes by its real path. */
int open_own_path(struct file_opener *opener, const char *path, struct opened *ret, char **ret_path)
{
	int at = open_below(opener, "/", path), err;
	char *real = at < 0 ? NULL : real_path(at);

	err = open_at(opener, at, ret);
	ret->is_by_path = true;
	if (!err && !real)
		err = -ENAMETOOLONG;
	if (err) {
		close_opened(ret);
		free(real);
		return err;
	}
	*ret_path = real;
	return 0;
}
