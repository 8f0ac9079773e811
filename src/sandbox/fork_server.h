/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_FORK_SERVER_H
#define ALLOCSNAP_SANDBOX_FORK_SERVER_H

/*
 * The process that forks the readers: the first one, and each replacement. The recording process cannot
 * fork a reader when it needs one: by then it has threads, and BPF maps in its memory. So it forks
 * this small process before all that. The spawner reads nothing but orders, and forks the readers.
 *
 *	recording (root) ── order ──► spawner (no rights) ── fork ──► reader (confined)
 *	        └──────────────────── questions, descriptors ─────────┘
 *
 * The spawner ends when the recording process does, and the reader with it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A reader's work; the reader exits when it returns. */
typedef void (*read_fn)(int fd);

struct fork_server {
	pid_t pid;
	int fd; /* -1: there is none */
	int end_fd; /* readable when the spawner has ended; -1: there is none */
	bool owes_answer; /* an order whose answer did not come in time */
};

/* 0 or a negative errno. */
int fork_server__start(struct fork_server *fork_server, read_fn read, uint64_t memory_bytes);

/*
 * Ends the current reader and forks another one, with fd as its channel. *ret_status is the exit
 * status of the last one (as from waitpid(); -1: there was none). 0 or a negative errno.
 */
int fork_server__renew(struct fork_server *fork_server, int fd, pid_t *ret_pid, int *ret_status);

/* Ends the spawner and its reader. */
void fork_server__stop(struct fork_server *fork_server);

#endif
