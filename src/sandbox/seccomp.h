/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_SECCOMP_H
#define ALLOCSNAP_SANDBOX_SECCOMP_H

/*
 * Steps by which a helper (helper/helper.h) gives up its rights before it reads untrusted data. They cannot be undone.
 * 0 or a negative errno: then the process must exit.
 */

#include <stdint.h>

/*
 * As root with CAP_SETUID and CAP_SETGID, becomes a user that no other process has, without groups. Gives up all
 * capabilities, for good. Prevents debuggers and core files.
 */
int confine_drop_rights(void);

/*
 * Limits the memory to this much more than the process has (0: no limit). Allows no files, no
 * processes, and only the system calls for reading, allocating memory and using existing sockets
 * (the list is in seccomp.c): others fail with EPERM.
 */
int confine_to_reading(uint64_t memory_bytes);

/*
 * For a process that downloads: as far as the kernel has Landlock, it can read system files only, execute nothing and open
 * nothing to write; and no file becomes larger than this.
 */
int confine_to_downloads(uint64_t file_bytes);

#endif
