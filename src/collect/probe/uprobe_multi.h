/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UPROBE_MULTI_H
#define ALLOCSNAP_COLLECT_UPROBE_MULTI_H

/*
 * Many uprobes as one link (kernel 6.6, commit 89ae89f53d20), and both ends of a call as one
 * session (6.13, d920179b3d48), which libbpf 1.1 does not know yet.
 *
 * Links: each perf uprobe takes a tenth of a second to detach, one after another, also when we are
 * killed; a link takes that once, and is of entries or of returns. Sessions: the program at the entry decides whether the return
 * address is hijacked. A return probe hijacks it always, and where that happens on a
 * higher-addressed stack while another call is pending, the kernel loses that one's return
 * address and ends the process with SIGILL.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* enum bpf_attach_type: the types that programs must be loaded with to be attached so. */
#define UPROBE_MULTI_ATTACH_TYPE 48
#define UPROBE_SESSION_ATTACH_TYPE 57

/*
 * Whether this kernel has sessions. It then also heeds a pid as a process; at first it took it for
 * one thread (46ba0e49b642, 6.10, put that right; trial_pid_of_link() finds out).
 */
bool uprobe_session_works(void);

struct uprobe_multi {
	const char *path;
	pid_t pid;
	uint32_t attach_type; /* the program's */
	bool of_returns;      /* return probes; not for sessions */
	uint32_t nr;
	const uint64_t *offset; /* in the file */
	const uint64_t *cookie;
};

/* Attaches a program: the descriptor of a link that ends with it, or a negative errno. */
int uprobe_multi_attach(int program_fd, const struct uprobe_multi *uprobes);

#endif
