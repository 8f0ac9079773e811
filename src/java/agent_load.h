/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_AGENT_LOAD_H
#define ALLOCSNAP_JAVA_AGENT_LOAD_H

/*
 * Loads the agent (agent.c) into a Java virtual machine that runs, and opens the memory file in which it writes (samples.h).
 *
 *	recorder ── process, interval ──► helper with the rights of root: checks, file of the agent in the process's /tmp, attach
 *	    └────── memory file, or why not ◄──┘
 *
 * The agent's file is ours, and has gone when the agent is loaded. The helper is forked before the recorder has BPF maps in
 * its memory and gives up rights; so an agent can be loaded into a program that begins later. Functions return 0 or a negative
 * errno, with a line in *why.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;
struct java_loader;

struct java_loader *java_loader__open(void); /* NULL and errno */
void java_loader__close(struct java_loader *loader); /* NULL is allowed */

/*
 * Asks a process: to load the agent, interval being the mean distance of samples in bytes, below 2^31; or, with the interval 0,
 * to collect its whole heap, while which the program stands still. -EAGAIN: another order has no answer yet.
 */
int java_loader__ask(struct java_loader *loader, pid_t pid, uint64_t interval, struct reason *why);

struct java_answer {
	int fd; /* the memory file, which the caller closes; -1: it was asked to collect its heap */
	uint32_t version;
	bool keeps_young; /* as in struct jvm: the agent does not know which collections are of the whole heap */
	int64_t ahead_ns; /* of its CLOCK_MONOTONIC */
};

/* The answer of that process. -EAGAIN: it has not come yet. It need not be taken. */
int java_loader__take(struct java_loader *loader, pid_t pid, struct java_answer *ret, struct reason *why);

#endif
