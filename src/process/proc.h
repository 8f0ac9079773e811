/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_PROC_H
#define ALLOCSNAP_PROCESS_PROC_H

/* Reads /proc/PID. The process controls some of this text, so every reader checks it. */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "process/pods.h"

struct process;

/*
 * The content of /proc/PID/NAME (pid 0: /proc/NAME) with a NUL added, for the caller to free; at most 8 MiB of
 * it. ret_len may be NULL. NULL and errno on failure.
 */
char *proc_read(pid_t pid, const char *name, size_t *ret_len);

/* The same file as a stream. NULL and errno on failure. */
FILE *proc_open(pid_t pid, const char *name);

/* The text of proc_read() without its last newline; "" if the file can't be read. NULL is ENOMEM. */
char *proc_text(pid_t pid, const char *name);

/* The target of the symbolic link /proc/PID/NAME; "" if it can't be read. NULL is ENOMEM. */
char *proc_link(pid_t pid, const char *name);

/*
 * /proc/PID/cmdline as one line. A process can declare any of its memory as its arguments. If they have more than
 * PROC_CMDLINE_MAX bytes, only the whole arguments within that limit are kept, followed by PROC_CMDLINE_CUT.
 */
#define PROC_CMDLINE_MAX 4096
#define PROC_CMDLINE_CUT " […]"
char *proc_cmdline(pid_t pid);

/* A number from a "Name:\tvalue" line of /proc/PID/status. 0 or -ENOENT. */
int proc_status(pid_t pid, const char *field, uint64_t *ret_value);

/*
 * How far its CLOCK_MONOTONIC is ahead of ours, in a time namespace. -ENOTSUP: one of us has made another namespace for its
 * children, so it is not known.
 */
int proc_clock_ahead(pid_t pid, int64_t *ret_ns);

/* The start time in clock ticks since boot. Together with the pid it identifies a process for good. 0 or -errno. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks);

/* An entry of the auxiliary vector: a value that the kernel gave the program at its start (getauxval(3)). 0: none. */
uint64_t proc_auxv(pid_t pid, uint64_t type);

/* The list of its threads, for closedir(), and the next thread in it. NULL and errno on failure; 0: there are no more. */
DIR *proc_open_threads(pid_t pid);
pid_t proc_next_thread(DIR *threads);

/* The number of a thread in the innermost PID namespace that it is in; 0: it has ended. */
pid_t proc_own_tid(pid_t pid, pid_t tid);

/* A thread of the process that is still running, the leader if it is. 0 if no thread is. */
pid_t proc_live_thread(pid_t pid);

bool proc_is_kernel_thread(pid_t pid);

/* Whether the process has ended, or is about to, and has no memory any more. Kernel threads never had some. */
bool proc_is_ending(pid_t pid);

/* Whether each thread of the process waits for something in the kernel: none runs, could run, or is stopped. */
bool proc_is_asleep(pid_t pid);

/* The children of processes, their children, and so on, as /proc shows them now. */

struct descendants {
	pid_t *pid; /* a parent before its children */
	size_t pid_nr, pid_alloc;
};

/* Leaves out the processes themselves, the caller, and its descendants. 0 or a negative errno. */
int descendants_find(const pid_t *pid, size_t nr, struct descendants *ret);
void descendants_release(struct descendants *descendants);

/* Which process it is, and what snapshots call it. */

struct process_identity {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	struct pod pod;
	bool is_named; /* snapshots of this program exist under `comm` */
};

/*
 * Opens a pidfd of the process that has the PID and began at start_ticks. False: the PID belongs to another process
 * by now.
 */
bool process_identity_open(struct process_identity *identity);

/* Reads the name, the program and the arguments. 0 or -ENOMEM. */
int process_identity_read(struct process_identity *identity);

/* Reads the control group, and the pod from it. root: see base/cgroup_path.h. 0 or -ENOMEM. */
int process_identity_read_cgroup(struct process_identity *identity, const char *root);

/* Reads the arguments again: a process can change them (setproctitle). 0 or -ENOMEM. */
int process_identity_read_args(struct process_identity *identity);

/*
 * Takes the name and the arguments that the kernel side kept: /proc has nothing about a process that is gone. 0 or
 * -ENOMEM.
 */
int process_identity_read_kept(struct process_identity *identity, const struct process *account);

/* Sets the program to the file that an event reported. 0 or -ENOMEM. */
int process_identity_set_exe(struct process_identity *identity, const char *path);

void process_identity_release(struct process_identity *identity);

/* The text of /proc/PID/maps (fs/proc/task_mmu.c, show_map_vma). */

struct maps_line {
	uint64_t start, end, offset, dev, inode;
	char perms[5];
	const char *path; /* "" for anonymous memory; in the text of the line */
};

bool maps_parse_line(const char *text, struct maps_line *line);

/* Reads the line of the mapping that holds an address, without its path. False: there is no such line to read. */
bool maps_find_line(pid_t pid, uint64_t address, struct maps_line *ret);

/* 65,530 mappings, the most that a process may have by default, take 8 MiB with paths of 60 bytes. */
#define MAPS_TEXT_MAX (32u << 20)

/*
 * Returns the lines of executable memory, for the caller to free; "" if the process has ended. *ret_is_cut: they
 * were more than MAPS_TEXT_MAX bytes, and the lines of higher addresses are missing. NULL and errno on failure.
 */
char *maps_read_code(pid_t pid, bool *ret_is_cut);

#endif
