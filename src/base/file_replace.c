// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_replace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/units.h"

#define STALE_MAX 100 /* hidden files that earlier processes with the same pid may have left */

static int replace_errno(int result)
{
	return result < 0 ? -errno : 0;
}

static void hidden_name(struct atomic_file *draft, int nr)
{
	snprintf(draft->hidden, sizeof(draft->hidden), nr > 1 ? ".%.200s.tmp.%d-%d" :
		 ".%.200s.tmp.%d", draft->name, getpid(), nr);
}

static int open_nameless(struct atomic_file *draft)
{
	draft->fd = openat(draft->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return replace_errno(draft->fd);
}

static int open_hidden(struct atomic_file *draft)
{
	int err = -EEXIST;

	for (int i = 1; i <= STALE_MAX && err == -EEXIST; i++) {
		hidden_name(draft, i);
		draft->fd = openat(draft->dir_fd, draft->hidden,
				   O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
		err = replace_errno(draft->fd);
	}
	if (err)
		draft->hidden[0] = '\0';
	return err;
}

/*
 * File systems without O_TMPFILE report this by several errors. fchmod makes the mode independent
 * of the umask.
 */
int atomic_file_open(struct atomic_file *draft, int dir_fd, const char *name, bool named)
{
	int err;

	*draft = (struct atomic_file){ .dir_fd = dir_fd, .fd = -1, .name = name };
	err = named ? -EOPNOTSUPP : open_nameless(draft);
	if (err == -EOPNOTSUPP || err == -EISDIR || err == -EINVAL || err == -ENOENT)
		err = open_hidden(draft);
	return err ?: replace_errno(fchmod(draft->fd, 0600));
}

void atomic_file_close(struct atomic_file *draft)
{
	if (draft->hidden[0])
		unlinkat(draft->dir_fd, draft->hidden, 0);
	if (draft->fd >= 0)
		close(draft->fd);
}

int atomic_file_sync(const struct atomic_file *draft)
{
	return replace_errno(fsync(draft->fd));
}

/* The second way works without /proc, but needs CAP_DAC_READ_SEARCH. */
static int link_nameless(const struct atomic_file *draft, const char *name)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
	err = replace_errno(linkat(AT_FDCWD, path, draft->dir_fd, name, AT_SYMLINK_FOLLOW));
	if (err == -ENOENT || err == -ENOTDIR)
		err = replace_errno(linkat(draft->fd, "", draft->dir_fd, name, AT_EMPTY_PATH));
	return err;
}

/*
 * On file systems without links (FAT) this renames the file, without replacing another one (musl has
 * no function for this call). Either way only one name remains.
 */
static int link_hidden(struct atomic_file *draft, const char *name)
{
	int err = replace_errno(linkat(draft->dir_fd, draft->hidden, draft->dir_fd, name, 0));

	if (err != -EPERM && err != -EOPNOTSUPP)
		return err;
	err = replace_errno(syscall(SYS_renameat2, draft->dir_fd, draft->hidden, draft->dir_fd, name,
				  RENAME_NOREPLACE));
	if (!err)
		draft->hidden[0] = '\0';
	return err;
}

int atomic_file_link(struct atomic_file *draft, const char *name)
{
	return draft->hidden[0] ? link_hidden(draft, name) : link_nameless(draft, name);
}

/* rename replaces a file, link does not. So a nameless draft first gets a hidden name. */
static int hide(struct atomic_file *draft)
{
	int err = -EEXIST;

	for (int i = 1; i <= STALE_MAX && err == -EEXIST; i++) {
		hidden_name(draft, i);
		err = link_nameless(draft, draft->hidden);
	}
	if (err)
		draft->hidden[0] = '\0';
	return err;
}

int atomic_file_replace(struct atomic_file *draft)
{
	int err = draft->hidden[0] ? 0 : hide(draft);

	err = err ?: replace_errno(renameat(draft->dir_fd, draft->hidden, draft->dir_fd, draft->name));
	if (!err)
		draft->hidden[0] = '\0';
	return err;
}

int sync_dir(int dir_fd)
{
	int err = replace_errno(fsync(dir_fd));

	return err == -EINVAL || err == -EOPNOTSUPP ? 0 : err;
}

#define LINKS_MAX 40 /* the kernel's own limit */

struct writing {
	int (*write)(FILE *out, const void *what);
	const void *what;
	const struct file_version *old; /* the file that must have the name; NULL: any file, or none */
	const struct file_owner *owner; /* NULL: the caller */
};

struct file_version file_version_of(const struct stat *st)
{
	return (struct file_version){ st->st_dev, st->st_ino, st->st_size, st->st_mtim };
}

bool file_version_fits(const struct file_version *stamp, const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_dev == stamp->dev && st->st_ino == stamp->ino &&
	       st->st_size == stamp->size && st->st_mtim.tv_sec == stamp->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == stamp->mtime.tv_nsec;
}

int file_fill(int fd, int (*write)(FILE *out, const void *what), const void *what)
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
	err = write(out, what);
	if (!err && (fflush(out) || ferror(out)))
		err = -errno ?: -EIO;
	return replace_errno(fclose(out)) && !err ? -errno : err;
}

/* ---- the target of the path ---------------------------------------------------------------- */

/*
 * In a folder such as /tmp another user's link could make us replace any of our files. The kernel
 * does not follow such a link (fs.protected_symlinks), and neither does this. is_strict: in any folder, only a link of
 * ours or of root is followed.
 */
static int check_link(const char *path, int dir_len, int link_fd, bool is_strict)
{
	char *dir = dir_len ? strndup(path, dir_len) : strdup(".");
	struct stat folder, link;
	int err = dir ? replace_errno(stat(dir, &folder)) ?: replace_errno(fstat(link_fd, &link)) : -ENOMEM;

	free(dir);
	if (!err && is_strict)
		return link.st_uid == geteuid() || !link.st_uid ? 0 : -EACCES;
	if (err || !(folder.st_mode & S_ISVTX) || !(folder.st_mode & S_IWOTH))
		return err;
	return link.st_uid == geteuid() || link.st_uid == folder.st_uid ? 0 : -EACCES;
}

/* Replaces the path by the link's target, which may be relative to the link's folder. */
static int follow(char **path, int link_fd, bool is_strict)
{
	char target[PATH_MAX], *slash = strrchr(*path, '/'), *next;
	ssize_t len = readlinkat(link_fd, "", target, sizeof(target) - 1);
	int dir_len = slash ? slash + 1 - *path : 0;
	int err = len < 0 ? -errno : check_link(*path, dir_len, link_fd, is_strict);

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

static int resolve_links(char **path, bool is_strict, bool *ret_direct)
{
	for (int i = 0; i <= LINKS_MAX; i++) {
		int fd = open(*path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		bool is_link = false;
		int err;

		if (fd < 0)
			return errno == ENOENT && **path ? 0 : -errno;
		err = read_path_kind(fd, &is_link, ret_direct);
		if (!err && is_link)
			err = follow(path, fd, is_strict);
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
	int err = fd < 0 ? -errno : file_fill(fd, writing->write, writing->what);

	if (fd >= 0)
		close(fd);
	return err;
}

static int stat_old(int fd, const struct file_version *old, struct stat *ret)
{
	if (fd < 0)
		return errno == ELOOP ? -ESTALE : -errno;
	if (fstat(fd, ret))
		return -errno;
	return file_version_fits(old, ret) ? 0 : -ESTALE;
}

static int copy_attribute(int from, int to, const char *name)
{
	char *value = malloc(XATTR_SIZE_MAX);
	ssize_t len = value ? fgetxattr(from, name, value, XATTR_SIZE_MAX) : 0;
	int err = !value ? -ENOMEM : len < 0 ? -errno : replace_errno(fsetxattr(to, name, value, len, 0));

	free(value);
	return err;
}

/* Copies the ACL and all extended attributes but the security modules' attributes: a checksum would be wrong. */
static int copy_attributes(int from, int to)
{
	char *names = malloc(XATTR_LIST_MAX);
	ssize_t len = names ? flistxattr(from, names, XATTR_LIST_MAX) : 0;
	int err = !names ? -ENOMEM : len < 0 && errno != ENOTSUP ? -errno : 0;

	for (ssize_t at = 0; at < len && !err; at += strlen(names + at) + 1)
		if (strncmp(names + at, "security.", strlen("security.")))
			err = copy_attribute(from, to, names + at);
	free(names);
	return err;
}

/*
 * Sets the owner first, because a change of the owner clears some bits of the mode. Bits such as
 * set-user-ID are not kept. With an ACL the group bits are its mask: the group gets no rights before
 * the ACL is there, which sets the bits again.
 */
static int keep_owner_and_mode(const struct atomic_file *draft, const struct file_version *old)
{
	int fd = openat(draft->dir_fd, draft->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int err = stat_old(fd, old, &st);
	mode_t mode = !err && fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0 ? 0707 : 0777;

	if (!err)
		err = replace_errno(fchown(draft->fd, st.st_uid, st.st_gid)) ?:
		      replace_errno(fchmod(draft->fd, st.st_mode & mode)) ?: copy_attributes(fd, draft->fd);
	if (fd >= 0)
		close(fd);
	return err;
}

static int keep_time(const struct atomic_file *draft, const struct file_version *old)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, old->mtime };

	return replace_errno(futimens(draft->fd, times));
}

static int check_old(const struct atomic_file *draft, const struct file_version *old)
{
	struct stat st;
	int err = replace_errno(fstatat(draft->dir_fd, draft->name, &st, AT_SYMLINK_NOFOLLOW));

	return !err && !file_version_fits(old, &st) ? -ESTALE : err;
}

static int finish(struct atomic_file *draft, const struct file_version *old)
{
	int err = old ? keep_time(draft, old) : 0;

	err = err ?: atomic_file_sync(draft);
	if (!err && old)
		err = check_old(draft, old);
	return err ?: atomic_file_replace(draft);
}

static int replace_in(int dir_fd, const char *name, const struct writing *writing)
{
	struct atomic_file draft;
	int err = atomic_file_open(&draft, dir_fd, name, false);

	if (!err && writing->old)
		err = keep_owner_and_mode(&draft, writing->old);
	if (!err && writing->owner)
		err = replace_errno(fchown(draft.fd, writing->owner->uid, writing->owner->gid));
	if (!err)
		err = file_fill(draft.fd, writing->write, writing->what) ?: finish(&draft, writing->old);
	atomic_file_close(&draft);
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
	return file_replace_for(path, NULL, write, what, why);
}

int file_replace_for(const char *path, const struct file_owner *owner, int (*write)(FILE *out, const void *what),
		     const void *what, struct reason *why)
{
	const struct writing writing = { write, what, .owner = owner };

	return replace_or_write_file(path, &writing, why);
}

int file_rewrite(const char *path, const struct file_version *read,
		 int (*write)(FILE *out, const void *what), const void *what, struct reason *why)
{
	const struct writing writing = { write, what, .old = read };

	return replace_or_write_file(path, &writing, why);
}
