// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_stamp.h"

struct file_stamp file_stamp_of(const struct stat *st)
{
	return (struct file_stamp){ st->st_dev, st->st_ino, st->st_size, st->st_mtim };
}

bool file_stamp_fits(const struct file_stamp *stamp, const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_dev == stamp->dev && st->st_ino == stamp->ino &&
	       st->st_size == stamp->size && st->st_mtim.tv_sec == stamp->mtime.tv_sec &&
	       st->st_mtim.tv_nsec == stamp->mtime.tv_nsec;
}
