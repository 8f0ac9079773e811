/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_SPAWNER_H
#define ALLOCSNAP_PARSER_SPAWNER_H

/*
 * Where the process that reads files comes from, the first and each that replaces one. It cannot be
 * forked off when it is wanted: by then the recording has threads, and BPF maps in its memory. So
 * a small process is, before all that; it reads nothing but orders, and forks the readers.
 *
 *	recording (root) ── order ──► spawner (no rights) ── fork ──► reader (confined)
 *	        └──────────────────── questions, descriptors ─────────┘
 *
 * It ends when the recording does, and the reader with it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a reader does; ends with its process when it returns. */
typedef void (*read_fn)(int fd);

struct spawner {
	pid_t pid;
	int fd; /* -1: there is none */
	int end_fd; /* readable when it has ended; -1: likewise */
	bool owes_answer; /* to an order that was waited for in vain */
};

/* 0 or a negative errno. */
int spawner__start(struct spawner *spawner, read_fn read, uint64_t memory_bytes);

/*
 * Ends the reader that there is and forks another one, that has `fd` of ours as its channel. How the
 * last one ended (as from waitpid(); -1: there was none) in *ret_status. 0 or a negative errno.
 */
int spawner__renew(struct spawner *spawner, int fd, pid_t *ret_pid, int *ret_status);

/* Ends both. */
void spawner__stop(struct spawner *spawner);

#endif
