/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_SNAPSHOT_FOLDER_H
#define ALLOCSNAP_COLLECT_BUILD_SNAPSHOT_FOLDER_H

/* The folders of snapshots: DIR/HOST/COMM.PID/TIME.snap. */

#include <sys/types.h>

struct reason;

/* Makes a directory and its parents with mode 0700. An existing directory is left as it is. */
int store_make_dir(const char *path, struct reason *why);

/* Makes the directory, and checks that files can be written there: called before a recording begins. */
int store_check(const char *path, struct reason *why);

/*
 * Returns DIR/HOST/COMM.PID, made if it is missing; the caller frees it. HOST and COMM keep [A-Za-z0-9._-]; other
 * bytes and a leading dot become '_'. NULL and errno on failure.
 */
char *store_folder(const char *dir, const char *host, const char *comm, pid_t pid,
		   struct reason *why);

#endif
