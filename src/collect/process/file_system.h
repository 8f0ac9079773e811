/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILE_SYSTEM_H
#define ALLOCSNAP_COLLECT_FILE_SYSTEM_H

/* Whether a file can be read without the danger that its file system never answers. */

#include "shared/file_types.h"

enum file_system_kind {
	FILE_SYSTEM_LOCAL,   /* on a disk or in memory: answered by the kernel */
	FILE_SYSTEM_STACKED, /* on others: which, is known when the file is mapped */
	FILE_SYSTEM_REMOTE,  /* a process or another machine answers, or stops to */
};

/*
 * Fills in an answer (file_types.h). 0 or a negative errno. program_fd is of the BPF program
 * file_system_of; -1: there is none, and no answer.
 */
typedef int (*file_system_fn)(int program_fd, struct file_system *asked);
int file_system_ask(int program_fd, struct file_system *asked);

/* What no row knows is remote. */
enum file_system_kind file_system_kind(const struct file_system *of);

#endif
