/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_FIND_RUNNING_PROCESS_H
#define ALLOCSNAP_CLI_FIND_RUNNING_PROCESS_H

#include <sys/types.h>

/*
 * Finds a running process by a PID, or by its name: its comm, as ps shows it, or the name of its program's file. If
 * several processes have the name, it lists them with their command lines. Returns an exit status: EXIT_FAILED,
 * reported, if no process or several have the name; EXIT_REFUSED if a number is no PID. A PID is not looked up.
 */
int find_running_process(const char *text, pid_t *ret_pid);

/*
 * Reports that the program's file has another name than the process, because the name that it was started by is a link:
 * frames have the name of the file. Debian's redis-server is /usr/bin/redis-check-rdb.
 */
void log_other_file_name(pid_t pid);

#endif
