// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STALE_MAX 100 /* hidden files that earlier processes with the same pid may have left */

static int atomic_file_errno(int result)
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
	draft->fd = openat(draft->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return atomic_file_errno(draft->fd);
}

static int open_hidden(struct atomic_file *draft)
{
	int err = -EEXIST;

	for (int i = 1; i <= STALE_MAX && err == -EEXIST; i++) {
		hidden_name(draft, i);
		draft->fd = openat(draft->dir_fd, draft->hidden,
				   O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
		err = atomic_file_errno(draft->fd);
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
	return err ?: atomic_file_errno(fchmod(draft->fd, 0600));
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
	return atomic_file_errno(fsync(draft->fd));
}

/* The second way works without /proc, but needs CAP_DAC_READ_SEARCH. */
static int link_nameless(const struct atomic_file *draft, const char *name)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
	err = atomic_file_errno(linkat(AT_FDCWD, path, draft->dir_fd, name, AT_SYMLINK_FOLLOW));
	if (err == -ENOENT || err == -ENOTDIR)
		err = atomic_file_errno(linkat(draft->fd, "", draft->dir_fd, name, AT_EMPTY_PATH));
	return err;
}

/*
 * On file systems without links (FAT) this renames the file, without replacing another one (musl has
 * no function for this call). Either way only one name remains.
 */
static int link_hidden(struct atomic_file *draft, const char *name)
{
	int err = atomic_file_errno(linkat(draft->dir_fd, draft->hidden, draft->dir_fd, name, 0));

	if (err != -EPERM && err != -EOPNOTSUPP)
		return err;
	err = atomic_file_errno(syscall(SYS_renameat2, draft->dir_fd, draft->hidden, draft->dir_fd, name,
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

	err = err ?: atomic_file_errno(renameat(draft->dir_fd, draft->hidden, draft->dir_fd, draft->name));
	if (!err)
		draft->hidden[0] = '\0';
	return err;
}

int sync_dir(int dir_fd)
{
	int err = atomic_file_errno(fsync(dir_fd));

	return err == -EINVAL || err == -EOPNOTSUPP ? 0 : err;
}
