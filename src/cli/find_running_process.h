/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_FIND_RUNNING_PROCESS_H
#define ALLOCSNAP_CLI_FIND_RUNNING_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct capture_options;
struct collector;

/*
 * Finds a running process by a PID, or by its name: its comm, as ps shows it, or the name of its program's file. If
 * several processes have the name, it lists them with their command lines. Returns an exit status: EXIT_FAILED,
 * reported, if no process or several have the name; EXIT_REFUSED if a number is no PID. A PID is not looked up.
 */
int find_running_process(const char *text, pid_t *ret_pid);

/* Running processes. */
struct process_ids {
	pid_t *pid;
	size_t pid_nr, pid_alloc;
};

bool process_ids_have(const struct process_ids *ids, pid_t pid);

/* Returns an exit status. The caller frees ids->pid, also after a failure. */
int process_ids_add(struct process_ids *ids, pid_t pid);

/*
 * Reports that the program's file has another name than the process, because the name that it was started by is a link:
 * frames have the name of the file. Debian's redis-server is /usr/bin/redis-check-rdb.
 */
void log_other_file_name(pid_t pid);

/* Children of recorded processes that ran before the recording began: nothing follows them by itself. */

/*
 * To be called when the processes are recorded. With --children starts to record their children, the children of these
 * and so on; one that cannot be recorded is named, and is no failure. Otherwise says how many are not recorded. Returns
 * an exit status; logs failures.
 */
int start_running_children(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr);

#endif
