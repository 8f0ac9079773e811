// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Identifies the file that a table is built from. statx() is called by its number, with the kernel's header: musl
 * has no such function before 1.2.5, and later versions have a structure without mount ids. That header conflicts
 * with sys/stat.h, so this is a separate file.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/idmap.h"
#include "collect/unwind/unwind_cache.h"

#ifndef STATX_MOUNT_ID_UNIQUE
#define STATX_MOUNT_ID_UNIQUE 0x4000 /* linux/stat.h since 6.8 */
#endif
#define SETTLED_SECONDS 2

static bool add_boot(struct unwind_cache_key *key)
{
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	key->word[8] = got > 0 ? hash_bytes(text, got, 1) : 0;
	key->word[9] = got > 0 ? hash_bytes(text, got, 2) : 0;
	return got > 0;
}

/* The numbers of a copy belong to no file. Other files in memory do not have this seal. */
static bool is_copy(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_WRITE;
}

bool unwind_cache__key(const struct unwind_cache *cache, int fd, struct unwind_cache_key *ret)
{
	struct statx st;
	struct timespec now;

	*ret = (struct unwind_cache_key){};
	if (!cache || is_copy(fd) ||
	    syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MOUNT_ID_UNIQUE, &st))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	if (st.stx_ctime.tv_sec > now.tv_sec - SETTLED_SECONDS)
		return false;
	ret->word[0] = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	ret->word[1] = st.stx_ino;
	ret->word[2] = st.stx_size;
	ret->word[3] = st.stx_mtime.tv_sec;
	ret->word[4] = st.stx_ctime.tv_sec;
	ret->word[5] = (uint64_t)st.stx_mtime.tv_nsec << 32 | st.stx_ctime.tv_nsec;
	if (st.stx_dev_major && st.stx_dev_major != LOOP_MAJOR)
		return true;
	ret->word[7] = st.stx_mnt_id;
	return st.stx_mask & STATX_MOUNT_ID_UNIQUE && add_boot(ret);
}
