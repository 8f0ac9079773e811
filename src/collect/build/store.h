/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_STORE_H
#define ALLOCSNAP_COLLECT_STORE_H

/* Where snapshots lie: DIR/HOST/COMM.PID/TIME.snap. */

#include <sys/types.h>

struct reason;

/* Makes a directory and those above it, mode 0700; one that exists is left as it is. */
int store_make_dir(const char *path, struct reason *why);

/* The same, and looks whether files can be written there: asked before a recording begins. */
int store_check(const char *path, struct reason *why);

/*
 * DIR/HOST/COMM.PID, made if it is missing; the caller frees it. HOST and COMM keep
 * [A-Za-z0-9._-]; other bytes and a leading dot become '_'. NULL and errno on failure.
 */
char *store_folder(const char *dir, const char *host, const char *comm, pid_t pid,
		   struct reason *why);

#endif
