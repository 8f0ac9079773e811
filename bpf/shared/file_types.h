/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FILE_TYPES_H
#define ALLOCSNAP_FILE_TYPES_H

/*
 * What the kernel has in memory about a file that we have open or map. fstat() and fstatfs() may ask a file
 * system that never answers; bpf/file_system.bpf.c asks none.
 */

#include "shared/unwind_types.h"

#define FILE_SYSTEM_TYPE_MAX 16

struct file_system {
	bpf_u64 address; /* the question: where we map the file; 0: we have it open as fd */
	bpf_u64 inode;
	bpf_u64 magic; /* linux/magic.h */
	bpf_u32 fd;
	bpf_u32 device; /* of the superblock, as the kernel has it: 20 bits of minor */
	bpf_u32 flags;  /* file_system_type.fs_flags */
	bpf_u32 mode;   /* of the file */
	struct unwind_file file; /* as the unwinder finds it in a process */
	char type[FILE_SYSTEM_TYPE_MAX]; /* "ext4"; cut where it is longer */
};

#define FILE_SYSTEM_HAS_DISK 1 /* of flags: FS_REQUIRES_DEV */

#endif
