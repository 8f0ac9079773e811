/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_IDENTITY_H
#define ALLOCSNAP_SNAPSHOT_IDENTITY_H

/* Which snapshots belong together. */

#include "base/moment.h"

struct snapshot;

enum identity_scope {
	IDENTITY_PROCESS,   /* all snapshots of a process; a PID may be used again, also after a reboot */
	IDENTITY_IMAGE,	    /* …from one exec to the next */
	IDENTITY_RECORDING, /* …that one recording took */
};

/* A text that is equal for snapshots of one scope, and for no others. The caller frees it. NULL: no memory. */
char *snapshot_identity(const struct snapshot *snapshot, enum identity_scope scope);

/* When a snapshot was taken (base/moment.h), from its metadata. */

/* wall_ns 0: not known. */
struct moment snapshot_moment(const struct snapshot *snapshot);

/* Reads no more of a file than that takes. Returns 0, or a negative errno if the file cannot be read. */
int snapshot_moment_read(const char *path, struct moment *ret);

#endif
