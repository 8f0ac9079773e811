/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_CONFINE_H
#define ALLOCSNAP_PARSER_CONFINE_H

/*
 * What a process gives up before it reads what others have written. Both are for a process that has
 * just been forked, and can't be undone. 0 or a negative errno: then it must not go on.
 */

#include <stdint.h>

#include "base/child.h"

#define CONFINED_FD CHILD_FD

/*
 * Keeps no descriptor but fd, as CONFINED_FD; heeds no signal that can be ignored; becomes a user
 * that no other process is, without groups, where it is root and may (CAP_SETUID, CAP_SETGID); gives up all capabilities, for good; is
 * closed to debuggers and core files.
 */
int confine_drop_rights(int fd);

/*
 * No more memory than this besides what it has (0: any), no files, no processes, and no system call but those that
 * reading, allocating memory and using the sockets that are there take (the list in confine.c): the
 * others fail with EPERM. Ends with its parent.
 */
int confine_to_reading(uint64_t memory_bytes, int parent);

#endif
