/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OPEN_FILE_H
#define ALLOCSNAP_COLLECT_OPEN_FILE_H

/*
 * Opens the files of processes, whose file systems may never answer: FUSE, NFS. The recording opens only what
 * the kernel itself answers for, on a disk or in memory. Anything else a child opens, and copies: within
 * a time limit, in memory that nothing can change. From then on the recording reads the copy.
 *
 *	recording ── O_PATH descriptor ──► worker ── open, read ──► file system
 *	    └───────── sealed copy ◄─────────┘
 *
 * A worker that waits for a file system may not even be killed (a FUSE daemon has its request and does not
 * answer it). So it is left behind, and another worker goes on; a small process starts them, which is forked
 * before there are BPF maps and threads (as the keeper, keeper.h). What has not answered is left alone for a
 * minute, then for two, and so on; each failure leaves the next file half of the time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/process/file_system.h"

struct file_opener;

struct opened_file {
	int fd; /* -1: see errno */
	bool is_copy;
	bool is_first_silence; /* with ETIMEDOUT: the file system has answered until now, or was not asked */
	struct unwind_file file; /* of what was copied, as the kernel's side knows it */
	uint64_t dev, inode; /* of what was copied, as /proc/PID/maps has them */
	char type[FILE_SYSTEM_TYPE_MAX]; /* of its file system, "" where that is not known */
};

/* Forks. ask is file_system_ask(), or a test's. NULL and errno. */
struct file_opener *file_opener__new(file_system_fn ask);
void file_opener__free(struct file_opener *opener); /* NULL is allowed */

/* The BPF program file_system_of. Before that each file is opened by a worker. */
void file_opener__use(struct file_opener *opener, int program_fd);

/* Readable when the process that starts workers has ended, because another process has killed it. */
int file_opener__end_fd(const struct file_opener *opener);
bool file_opener__has_ended(const struct file_opener *opener);

/*
 * A regular file: opening a device or a FIFO could have effects (ENODEV). `at` is an O_PATH descriptor, which
 * opens nothing yet; it is closed; -1: errno says why. ETIMEDOUT: its file system does not answer.
 * EFBIG: too large to copy. Without an opener (NULL) it is opened at once.
 */
void open_file(struct file_opener *opener, int at, struct opened_file *ret);

/* An O_PATH descriptor for open_file(). No link in that tree leads out of it. -1 and errno. */
int open_below(struct file_opener *opener, const char *root, const char *path);

/* strerror(), but for what this module means by it. */
const char *open_file_strerror(int errnum);

#endif
