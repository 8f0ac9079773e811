/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_PROC_H
#define ALLOCSNAP_COLLECT_PROCESS_PROC_H

/* Reads /proc/PID. The process controls some of this text, so every reader checks it. */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct reason;

/*
 * The content of /proc/PID/NAME (pid 0: /proc/NAME) with a NUL added, for the caller to free; at most 8 MiB of
 * it. ret_len may be NULL. NULL and errno on failure.
 */
char *proc_read(pid_t pid, const char *name, size_t *ret_len);

/* The same file as a stream. NULL and errno on failure. */
FILE *proc_open(pid_t pid, const char *name);

/* The text of proc_read() without its last newline; "" if the file can't be read. NULL is ENOMEM. */
char *proc_text(pid_t pid, const char *name);

/* The path in the unified cgroup hierarchy, "" if there is none. NULL is ENOMEM. */
char *proc_cgroup(pid_t pid);

/* The target of the symbolic link /proc/PID/NAME; "" if it can't be read. NULL is ENOMEM. */
char *proc_link(pid_t pid, const char *name);

/* Joins arguments that each end with a NUL to one line, separated by spaces. NULL is ENOMEM. */
char *proc_join_args(const char *args, size_t len);

/*
 * /proc/PID/cmdline as one line. A process can declare any of its memory as its arguments. If they have more than
 * PROC_CMDLINE_MAX bytes, only the whole arguments within that limit are kept, followed by PROC_CMDLINE_CUT.
 */
#define PROC_CMDLINE_MAX 4096
#define PROC_CMDLINE_CUT " […]"
char *proc_cmdline(pid_t pid);

/* A number from a "Name:\tvalue" line of /proc/PID/status. 0 or -ENOENT. */
int proc_status(pid_t pid, const char *field, uint64_t *ret_value);

/* The same for a mask of signals or capabilities. */
int proc_status_mask(pid_t pid, const char *field, uint64_t *ret_mask);

/* The start time in clock ticks since boot. Together with the pid it identifies a process for good. 0 or -errno. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks);

/* Its parent. 0: the process has ended, or has none that can be seen from here. */
pid_t proc_parent(pid_t pid);

/* An entry of the auxiliary vector: what the kernel has told the program at its start (getauxval(3)). 0: none. */
uint64_t proc_auxv(pid_t pid, uint64_t type);

/* The list of its threads, for closedir(), and the next thread in it. NULL and errno on failure; 0: there are no more. */
DIR *proc_open_threads(pid_t pid);
pid_t proc_next_thread(DIR *threads);

/* A thread of the process that is still running, the leader if it is. 0 if no thread is. */
pid_t proc_live_thread(pid_t pid);

/* Whether each thread of the process waits for something in the kernel: none runs, could run, or is stopped. */
bool proc_is_asleep(pid_t pid);

#endif
