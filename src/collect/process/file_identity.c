// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/file_identity.h"

#include <errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h> /* C libraries differ in their declarations of statx() */
#include <sys/syscall.h>
#include <unistd.h>

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
