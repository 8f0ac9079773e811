/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROC_H
#define ALLOCSNAP_COLLECT_PROC_H

/* Reading /proc/PID. Its text comes from the process: nothing in it is taken for granted. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct reason;

/*
 * The whole of /proc/PID/NAME (pid 0: /proc/NAME) with a NUL added, in memory that the caller
 * frees; at most 8 MiB of it. NULL and errno on failure. *ret_len may be NULL.
 */
char *proc_read(pid_t pid, const char *name, size_t *ret_len);

/* The same file as a stream. NULL and errno. */
FILE *proc_open(pid_t pid, const char *name);

/* What proc_read() gives, without its last newline; "" where it can't be read. NULL is ENOMEM. */
char *proc_text(pid_t pid, const char *name);

/* The path in the unified cgroup hierarchy, "" where there is none. */
char *proc_cgroup(pid_t pid);

/* Where the symbolic link /proc/PID/NAME points to; "" as above. */
char *proc_link(pid_t pid, const char *name);

/* Arguments that each end with a NUL as one line, parted by spaces. NULL is ENOMEM. */
char *proc_join_args(const char *args, size_t len);

/*
 * /proc/PID/cmdline like that. A process can say that any of its memory is its arguments: of more than
 * PROC_CMDLINE_MAX bytes it is the whole arguments among the first ones, and PROC_CMDLINE_CUT.
 */
#define PROC_CMDLINE_MAX 4096
#define PROC_CMDLINE_CUT " […]"
char *proc_cmdline(pid_t pid);

/* A number from a "Name:\tvalue" line of /proc/PID/status. 0 or -ENOENT. */
int proc_status(pid_t pid, const char *field, uint64_t *ret_value);

/* Start time in clock ticks since boot: with the pid, it names a process for good. 0 or -errno. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks);

/* A thread of the process that still runs; the leader if it does. 0 if there is none. */
pid_t proc_live_thread(pid_t pid);

#endif
