/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_PROCESS_IDENTITY_H
#define ALLOCSNAP_COLLECT_PROCESS_PROCESS_IDENTITY_H

/* Which process it is, and what snapshots call it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process;

struct process_identity {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	bool is_named; /* snapshots of this program exist under `comm` */
};

/*
 * Opens a pidfd of the process that has the PID and began at start_ticks. False: the PID belongs to another process
 * by now.
 */
bool process_identity_open(struct process_identity *identity);

/* Reads the name, the program and the arguments. 0 or -ENOMEM. */
int process_identity_read(struct process_identity *identity);

/* Reads the arguments again: a process can change them (setproctitle). 0 or -ENOMEM. */
int process_identity_read_args(struct process_identity *identity);

/*
 * Takes the name and the arguments that the kernel side kept: /proc has nothing about a process that is gone. 0 or
 * -ENOMEM.
 */
int process_identity_read_kept(struct process_identity *identity, const struct process *books);

/* The program is this file, as an event told. 0 or -ENOMEM. */
int process_identity_set_exe(struct process_identity *identity, const char *path);

void process_identity_release(struct process_identity *identity);

#endif
