// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_replace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/file_attributes.h"
#include "base/file_stamp.h"
#include "base/units.h"

#define LINKS_MAX 40 /* the kernel's own limit */

struct writing {
	int (*write)(FILE *out, const void *what);
	const void *what;
	const struct file_stamp *old; /* the file that must have the name; NULL: any file, or none */
};

static int replace_errno(int result)
{
	return result < 0 ? -errno : 0;
}

/* Writes through a separate stream on the same open file; the caller keeps the descriptor. */
static int write_to(int fd, const struct writing *writing)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0), err;
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (!out) {
		err = -errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	errno = 0;
	err = writing->write(out, writing->what);
	if (!err && (fflush(out) || ferror(out)))
		err = -errno ?: -EIO;
	return replace_errno(fclose(out)) && !err ? -errno : err;
}

/* ---- the target of the path ---------------------------------------------------------------- */

/* For file_rewrite(): links must be ours or root's, in any folder. */
static int check_owner(int link_fd)
{
	struct stat link;
	int err = replace_errno(fstat(link_fd, &link));

	return err || link.st_uid == geteuid() || !link.st_uid ? err : -EACCES;
}

/*
 * In a folder such as /tmp another user's link could make us replace any of our files. The kernel
 * does not follow such a link (fs.protected_symlinks), and neither does this.
 */
static int check_link(const char *path, int dir_len, int link_fd)
{
	char *dir = dir_len ? strndup(path, dir_len) : strdup(".");
	struct stat folder, link;
	int err = dir ? replace_errno(stat(dir, &folder)) ?: replace_errno(fstat(link_fd, &link)) : -ENOMEM;

	free(dir);
	if (err || !(folder.st_mode & S_ISVTX) || !(folder.st_mode & S_IWOTH))
		return err;
	return link.st_uid == geteuid() || link.st_uid == folder.st_uid ? 0 : -EACCES;
}

/* Replaces the path by the link's target, which may be relative to the link's folder. */
static int follow(char **path, int link_fd, bool ours_only)
{
	char target[PATH_MAX], *slash = strrchr(*path, '/'), *next;
	ssize_t len = readlinkat(link_fd, "", target, sizeof(target) - 1);
	int dir_len = slash ? slash + 1 - *path : 0;
	int err = len < 0 ? -errno : ours_only ? check_owner(link_fd) :
						 check_link(*path, dir_len, link_fd);

	if (err)
		return err;
	target[len] = '\0';
	if (asprintf(&next, "%.*s%s", target[0] == '/' ? 0 : dir_len, *path, target) < 0)
		return -ENOMEM;
	free(*path);
	*path = next;
	return 0;
}

/*
 * Sets *ret_direct if the file must be written to instead of replaced. The links of /proc/self/fd
 * are our open files, not other names of those files; /dev/stdout leads there.
 */
static int read_path_kind(int fd, bool *ret_link, bool *ret_direct)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*ret_direct = S_ISLNK(st.st_mode) ? fs.f_type == PROC_SUPER_MAGIC : !S_ISREG(st.st_mode);
	*ret_link = S_ISLNK(st.st_mode) && !*ret_direct;
	return 0;
}

static int resolve_links(char **path, bool ours_only, bool *ret_direct)
{
	for (int i = 0; i <= LINKS_MAX; i++) {
		int fd = open(*path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		bool is_link = false;
		int err;

		if (fd < 0)
			return errno == ENOENT && **path ? 0 : -errno;
		err = read_path_kind(fd, &is_link, ret_direct);
		if (!err && is_link)
			err = follow(path, fd, ours_only);
		close(fd);
		if (err || !is_link)
			return err;
	}
	return -ELOOP;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* O_APPEND: a file that /dev/stdout is redirected to keeps its content. */
static int write_directly(const char *path, const struct writing *writing)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
	int err = fd < 0 ? -errno : write_to(fd, writing);

	if (fd >= 0)
		close(fd);
	return err;
}

static int keep_attributes(const struct draft *draft, const struct file_stamp *old)
{
	int fd = openat(draft->dir_fd, draft->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int err;

	if (fd < 0)
		return -errno;
	err = replace_errno(fstat(fd, &st));
	if (!err && !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err && !file_stamp_fits(old, &st))
		err = -ESTALE;
	if (!err)
		err = file_attributes_copy(draft->fd, fd, &st);
	close(fd);
	return err;
}

static int keep_time(const struct draft *draft, const struct file_stamp *old)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, old->mtime };

	return replace_errno(futimens(draft->fd, times));
}

static int finish(struct draft *draft, const struct file_stamp *old)
{
	if (!old)
		return draft_sync(draft) ?: draft_replace(draft);
	return keep_time(draft, old) ?: draft_sync(draft) ?: draft_replace_only(draft, old);
}

static int replace_in(int dir_fd, const char *name, const struct writing *writing)
{
	struct draft draft;
	int err = draft_open(&draft, dir_fd, name, false);

	if (!err && writing->old)
		err = keep_attributes(&draft, writing->old);
	if (!err)
		err = write_to(draft.fd, writing) ?: finish(&draft, writing->old);
	draft_close(&draft);
	return err ?: sync_dir(dir_fd);
}

static int replace_resolved_path(char *path, const struct writing *writing)
{
	char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *dir = slash == path ? "/" : slash ? path : ".";
	int dir_fd, err;

	if (!*name)
		return -EISDIR;
	if (slash)
		*slash = '\0';
	dir_fd = open(*dir ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	err = replace_in(dir_fd, name, writing);
	close(dir_fd);
	return err;
}

static int replace_or_write_file(const char *path, const struct writing *writing, struct reason *why)
{
	char *real = strdup(path);
	char clean[256];
	bool direct = false;
	int err = real ? resolve_links(&real, writing->old, &direct) : -ENOMEM;

	if (!err && direct && writing->old)
		err = -EINVAL;
	if (!err)
		err = direct ? write_directly(real, writing) : replace_resolved_path(real, writing);
	free(real);
	if (!err)
		return 0;
	return reason_set(why, err, "%s: cannot write: %s",
			  clean_path(clean, sizeof(clean), path),
			  err == -ESTALE ? "it is not the file that was read any more" :
					   strerror(-err));
}

int file_replace(const char *path, int (*write)(FILE *out, const void *what), const void *what,
		 struct reason *why)
{
	const struct writing writing = { write, what };

	return replace_or_write_file(path, &writing, why);
}

int file_rewrite(const char *path, const struct file_stamp *read,
		 int (*write)(FILE *out, const void *what), const void *what, struct reason *why)
{
	const struct writing writing = { write, what, .old = read };

	return replace_or_write_file(path, &writing, why);
}
