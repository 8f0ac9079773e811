/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_SECCOMP_H
#define ALLOCSNAP_SANDBOX_SECCOMP_H

/*
 * Steps by which a process gives up its rights before it reads untrusted data. Both are for a
 * process that was just forked, and cannot be undone. 0 or a negative errno: then the process must
 * exit.
 */

#include <stdint.h>

#include "helper/helper.h"

#define CONFINED_FD CHILD_FD

/*
 * Closes all descriptors except fd, which becomes CONFINED_FD. Ignores all signals that can be
 * ignored. As root with CAP_SETUID and CAP_SETGID, becomes a user that no other process has,
 * without groups. Gives up all capabilities, for good. Prevents debuggers and core files.
 */
int confine_drop_rights(int fd);

/*
 * Limits the memory to this much more than the process has (0: no limit). Allows no files, no
 * processes, and only the system calls for reading, allocating memory and using existing sockets
 * (the list is in seccomp.c): others fail with EPERM. The process ends with its parent.
 */
int confine_to_reading(uint64_t memory_bytes, int parent);

#endif
