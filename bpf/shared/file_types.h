/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FILE_TYPES_H
#define ALLOCSNAP_FILE_TYPES_H

/*
 * Facts about a file that this process has open or maps, as the kernel has them in memory. fstat() and fstatfs() may
 * ask a file system that never answers; bpf/file_system.bpf.c asks no file system.
 */

#include "shared/unwind_types.h"

#define FILE_SYSTEM_TYPE_MAX 16

struct file_system {
	bpf_u64 address; /* the question: where the caller maps the file; 0: the caller has it open as fd */
	bpf_u64 inode;
	bpf_u64 magic; /* linux/magic.h */
	bpf_u32 fd;
	bpf_u32 device; /* the superblock's, in the kernel's encoding: 20 bits of minor */
	bpf_u32 flags;  /* file_system_type.fs_flags */
	bpf_u32 mode;   /* the file's */
	struct unwind_file file; /* its identity, as the unwinder finds it in a process */
	char type[FILE_SYSTEM_TYPE_MAX]; /* "ext4"; a longer name is cut */
};

#define FILE_SYSTEM_HAS_DISK 1 /* bit of flags: FS_REQUIRES_DEV */

#endif
