/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_UNWIND_THREADS_H
#define ALLOCSNAP_TESTS_UNWIND_THREADS_H

/* A child whose threads can all be stopped at any moment, and go on undisturbed. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define THREADS_MAX 64

struct thread {
	pid_t tid;
	bool is_stopped;
	int signal; /* that it was about to get */
};

struct threads {
	pid_t pid;
	size_t nr;
	struct thread thread[THREADS_MAX];
};

/* Runs a command with nothing as its input and output. What goes wrong ends us. */
void threads__start(struct threads *threads, char **argv);

/* For so long; false if the child has ended meanwhile. */
bool threads__run(struct threads *threads, unsigned int us);

/* All of them; false if the child has ended. */
bool threads__stop(struct threads *threads);

/* Lets the stopped threads go on. */
void threads__resume(struct threads *threads);

void threads__kill(struct threads *threads);

#endif
