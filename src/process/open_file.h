/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_OPEN_FILE_H
#define ALLOCSNAP_PROCESS_OPEN_FILE_H

/*
 * Opens the files of processes, whose file systems may never answer: FUSE, NFS. The recording itself opens only files
 * that the kernel serves alone, on a disk or in memory. A child opens all other files and copies them: within a time
 * limit, into memory that nothing can change. From then on the recording reads the copy.
 *
 *	recording ── O_PATH descriptor ──► worker ── open, read ──► file system
 *	    └───────── sealed copy ◄─────────┘
 *
 * Sometimes a worker that waits for a file system cannot even be killed (a FUSE daemon has its request and does not
 * answer it). The recording then abandons this worker and uses a new one (helper/spawner.h). A file system that did not
 * answer is not asked again for a minute, then for two minutes, and so on. Each timeout halves the time limit of the next
 * file.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shared/file_types.h"

struct file_opener;
struct helper;

/* Decides whether a file can be read without the risk that its file system never answers. */

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

#define OPEN_COPY_MAX (64ull << 20) /* a larger file is not copied */

struct opened_file {
	int fd; /* -1: errno says why */
	bool is_copy;
	bool is_first_silence; /* with ETIMEDOUT: the first time that this file system did not answer */
	struct unwind_file file; /* of a copy: the original, as the kernel side knows it */
	struct unwind_file below; /* of a file of a stacked file system: the lower file, whose pages are mapped; zeroed: not known */
	uint64_t dev, inode; /* of a copy: the numbers of the original in /proc/PID/maps */
	char type[FILE_SYSTEM_TYPE_MAX]; /* of the file's file system; "" if it is not known */
};

/* Forks. ask runs the program, or is a function of a test. NULL and errno on failure. */
struct file_opener *file_opener__new(file_system_fn ask);
void file_opener__free(struct file_opener *opener); /* NULL is allowed */

/* Sets the BPF program file_system_of. Until then a worker opens every file. */
void file_opener__use(struct file_opener *opener, int program_fd);

/* The process that starts workers. It ends early only because another process killed it. */
const struct helper *file_opener__helper(const struct file_opener *opener);

/*
 * Opens a regular file; ENODEV for others: opening a device or a FIFO could have effects. `at` is an O_PATH
 * descriptor, which opens nothing yet; it is closed. If it is -1, errno says why. ETIMEDOUT: the file system does
 * not answer. EFBIG: too large to copy. EWOULDBLOCK: a process holds a lease on it (fcntl(2), F_SETLEASE). Without an
 * opener (NULL) the file is opened directly.
 */
void open_file(struct file_opener *opener, int at, struct opened_file *ret);

/* Finds a path below root; no link leads out of root. An O_PATH descriptor for open_file(), or -1 and errno. */
int open_below(struct file_opener *opener, const char *root, const char *path);

/* The same, but no symbolic link may be in the path. */
int open_below_without_links(struct file_opener *opener, const char *root, const char *path);

/* Like strerror(), with this module's own texts for ETIMEDOUT, EWOULDBLOCK and EFBIG. */
const char *open_file_strerror(int errnum);

#endif
