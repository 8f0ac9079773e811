/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_UPROBE_MULTI_H
#define ALLOCSNAP_COLLECT_PROBE_UPROBE_MULTI_H

/*
 * Many uprobes as one link (kernel 6.6, commit 89ae89f53d20), and both ends of a call as one session (6.13,
 * d920179b3d48). libbpf 1.1 supports neither.
 *
 * Links: each perf uprobe takes a tenth of a second to detach, one after another, also when the recorder is
 * killed. A link takes this time once; it holds either entries or returns.
 *
 * Sessions: the program at the entry decides whether the return address is hijacked. A return probe always
 * hijacks it. If that happens on a stack at higher addresses while another call is pending, the kernel loses the
 * return address of the pending call and kills the process with SIGILL.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Values of enum bpf_attach_type that programs must be loaded with for these links. */
#define UPROBE_MULTI_ATTACH_TYPE 48
#define UPROBE_SESSION_ATTACH_TYPE 57

/*
 * Whether this kernel has sessions. Such a kernel also takes a link's pid as a process. The first kernels with
 * links took it as one thread (fixed by 46ba0e49b642 in 6.10; trial_pid_of_link() tests it).
 */
bool uprobe_session_works(void);

struct uprobe_multi {
	const char *path;
	pid_t pid;
	uint32_t attach_type; /* of the program */
	bool of_returns;      /* return probes; not for sessions */
	uint32_t nr;
	const uint64_t *offset; /* in the file */
	const uint64_t *cookie;
	const uint64_t *semaphore; /* in the file: the kernel counts the probes there; 0: none */
};

/* Attaches a program. Returns the descriptor of a link, which ends when it is closed; or a negative errno. */
int uprobe_multi_attach(int program_fd, const struct uprobe_multi *uprobes);

#endif
