/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FILE_BPF_H
#define ALLOCSNAP_FILE_BPF_H

/* Identity of a mapped file, with its last change: a file that is written to gets other unwind tables. */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "shared/unwind_types.h"

static __always_inline __u64 modified_ns(struct inode *inode)
{
	struct inode___with_timespec *newer = (void *)inode;
	struct inode___older *older = (void *)inode;

	if (bpf_core_field_exists(inode->i_mtime_sec))
		return BPF_CORE_READ(inode, i_mtime_sec) * 1000000000ULL + BPF_CORE_READ(inode, i_mtime_nsec);
	if (bpf_core_field_exists(newer->__i_mtime))
		return BPF_CORE_READ(newer, __i_mtime.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(newer, __i_mtime.tv_nsec);
	return BPF_CORE_READ(older, i_mtime.tv_sec) * 1000000000ULL + BPF_CORE_READ(older, i_mtime.tv_nsec);
}

#define FILE_MULTIPLIER 0x9e3779b97f4a7c15ULL

static __always_inline void note_inode(struct inode *inode, struct unwind_file *ret)
{
	__u64 version = (modified_ns(inode) * FILE_MULTIPLIER ^ BPF_CORE_READ(inode, i_size)) * FILE_MULTIPLIER ^
			BPF_CORE_READ(inode, i_generation);

	ret->inode = (__u64)inode;
	ret->number = (__u32)BPF_CORE_READ(inode, i_ino) | ((version * FILE_MULTIPLIER) & ~0xffffffffULL);
}

static __always_inline void note_file(const struct file *file, struct unwind_file *ret)
{
	note_inode(BPF_CORE_READ(file, f_inode), ret);
}

#endif
