// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbolize/ordinary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/array.h"

/* linux/magic.h lacks these. */
#define CONFIGFS_MAGIC 0x62656570
#define MQUEUE_MAGIC 0x19800202
#define RPC_PIPEFS_MAGIC 0x67596969
#define NFSD_MAGIC 0x6e667364
#define FUSE_CONTROL_MAGIC 0x65735543

static const uint32_t made_up[] = {
	PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, DEBUGFS_MAGIC, SECURITYFS_MAGIC,
	CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, CONFIGFS_MAGIC, EFIVARFS_MAGIC,
	BINFMTFS_MAGIC, PSTOREFS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC, AAFS_MAGIC, NSFS_MAGIC,
	XENFS_SUPER_MAGIC, OPENPROM_SUPER_MAGIC, USBDEVICE_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
	MQUEUE_MAGIC, RPC_PIPEFS_MAGIC, NFSD_MAGIC, RDTGROUP_SUPER_MAGIC, PIPEFS_MAGIC,
	SOCKFS_MAGIC, FUSE_SUPER_MAGIC, FUSE_CONTROL_MAGIC,
};

static bool is_made_up(uint32_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++)
		if (made_up[i] == type)
			return true;
	return false;
}

/* Checks the file system first: if a process serves it, even fstat() may wait for that process. */
static int check_is_regular(int path_fd)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(path_fd, &fs))
		return -errno;
	if (is_made_up(fs.f_type))
		return -EXDEV;
	if (fstat(path_fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

int open_ordinary(int path_fd)
{
	char path[64];
	int fd, err = check_is_regular(path_fd);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

const char *why_not_ordinary(int err)
{
	if (err == -EINVAL)
		return "it is no regular file";
	if (err == -EXDEV)
		return "its file system is the kernel's own, or a process serves it";
	return strerror(-err);
}
