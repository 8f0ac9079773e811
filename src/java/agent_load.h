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

#include <stdint.h>
#include <sys/types.h>

struct reason;
struct java_loader;

struct java_loader *java_loader__open(void); /* NULL and errno */
void java_loader__close(struct java_loader *loader); /* NULL is allowed */

/* interval: mean distance of samples in bytes, below 2^31. The caller closes *ret_fd. */
int java_loader__load(struct java_loader *loader, pid_t pid, uint64_t interval, int *ret_fd, uint32_t *ret_version, struct reason *why);

/* Lets it collect its whole heap: the program stands still meanwhile. */
int java_loader__collect(struct java_loader *loader, pid_t pid, struct reason *why);

#endif
