/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_FILE_SYSTEM_H
#define ALLOCSNAP_COLLECT_PROCESS_FILE_SYSTEM_H

/* Decides whether a file can be read without the risk that its file system never answers. */

#include "shared/file_types.h"

enum file_system_kind {
	FILE_SYSTEM_LOCAL,   /* on a disk or in memory: the kernel answers */
	FILE_SYSTEM_STACKED, /* on top of other file systems: the lower one is known once the file is mapped */
	FILE_SYSTEM_REMOTE,  /* a process or another machine answers, or stops answering */
};

/*
 * Fills in an answer (file_types.h). 0 or a negative errno. program_fd is the BPF program file_system_of; with -1
 * there is no program, and the call fails.
 */
typedef int (*file_system_fn)(int program_fd, struct file_system *asked);
int file_system_ask(int program_fd, struct file_system *asked);

/* A file system that the table does not name, and that has no disk, is remote. */
enum file_system_kind file_system_kind(const struct file_system *of);

#endif
