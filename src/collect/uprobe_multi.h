/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UPROBE_MULTI_H
#define ALLOCSNAP_COLLECT_UPROBE_MULTI_H

/*
 * Many uprobes as one link (kernel 6.6, commit 89ae89f53d20), which libbpf 1.1 does not know yet.
 * What it is for: each perf uprobe takes a tenth of a second to detach, one after another, also
 * when we are killed; a link takes that once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* enum bpf_attach_type: the type that programs must be loaded with to be attached so. */
#define UPROBE_MULTI_ATTACH_TYPE 48

/*
 * Whether this kernel can, and heeds a pid as a process: at first it took it for one thread
 * (46ba0e49b642, 6.10, put that right). A kernel that has sessions (6.13) has that as well, so
 * sessions are what is asked for.
 */
bool uprobe_multi_works(void);

struct uprobe_multi {
	const char *path;
	pid_t pid;
	bool is_return;
	uint32_t nr;
	const uint64_t *offset; /* in the file */
	const uint64_t *cookie;
};

/* Attaches a program: the descriptor of a link that ends with it, or a negative errno. */
int uprobe_multi_attach(int program_fd, const struct uprobe_multi *uprobes);

#endif
