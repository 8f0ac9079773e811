/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_MAKE_H
#define ALLOCSNAP_ARCHIVE_MAKE_H

/*
 * The folders of snapshots: DIR/HOST/COMM.PID, made with mode 0700. DIR is the user's own word and may lead over
 * symbolic links; HOST and COMM.PID must not be links. An owner gets folders that were made here
 * in the owner's own folders or in the current one, and no others; owner NULL: they stay with the caller.
 */

#include <sys/types.h>

struct reason;
struct snapshot_file_owner;

/* Makes a directory, and those above it, and checks that files can be made in it: before a program is started or changed. */
int archive_check_folder(const char *path, const struct snapshot_file_owner *owner, struct reason *why);

/*
 * Makes DIR/HOST/COMM.PID. HOST and COMM are cleaned so that they are names of files. The caller frees the path, and
 * closes *ret_fd, which refers to the folder (O_PATH). NULL with errno and a line in *why.
 */
char *archive_make_folder(const char *dir, const char *host, const char *comm, pid_t pid,
			  const struct snapshot_file_owner *owner, int *ret_fd, struct reason *why);

#endif
