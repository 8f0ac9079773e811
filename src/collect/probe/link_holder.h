/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_LINK_HOLDER_H
#define ALLOCSNAP_COLLECT_PROBE_LINK_HOLDER_H

/*
 * The process that creates links of many probes, holds them and closes them. A process that is killed inside one of
 * these system calls leaves breakpoints in the recorded program: a thread with SIGKILL pending may not touch the memory
 * of another process. So the recording never makes these calls. No one asks the link holder to end: it ends when the
 * recording has ended, for whatever reason, and its links end with it.
 *
 *	recording ── order: program, file, places ──► link holder ── bpf() ──► links
 *	     └──────────── a link's number ◄────────────┘
 *
 * The link holder also ends the links of a file before it is written to, even while the recording is busy, and reports it
 * afterwards. It has a lease on the file (fcntl(2), F_SETLEASE): the kernel makes a process that opens the file for
 * writing wait until the link holder has removed the breakpoints, a tenth of a second later. If there can be no lease
 * (unsupported by the file system, or no CAP_LEASE), the first write alerts the link holder (file_watch.h), which then races
 * with the new program.
 *
 * If the link holder has ended, its links are gone, and orders fail with -EPIPE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"

struct file_identity;
struct helper;
struct inject_file;
struct link_holder;
struct uprobe_multi;

struct link_holder_ejection {
	int32_t value; /* of inject_eject() */
	uint32_t function_nr, kept_nr; /* as in struct eject_result */
	uint32_t child_nr; /* forked children that still map the sampler */
	int32_t child;	   /* one of them */
	uint64_t stopped_ns;
	struct reason why;
};

/*
 * Forks the link holder. Call it before there are threads, and before BPF maps are in memory, because the link holder would
 * keep them alive. ejects: the link holder will hold injected samplers, and keeps the privileges to eject them. NULL and
 * errno on failure.
 */
struct link_holder *link_holder__open(bool ejects);

/* The owner of samplers that it holds. */
pid_t link_holder__pid(const struct link_holder *link_holder);

/* Before a sampler is injected into a process: the link holder ejects it when the recording has ended, for whatever reason. */
int link_holder__hold_sampler(struct link_holder *link_holder, pid_t pid);

/* Afterwards: its files, by which the link holder knows forked children. 0 or -errno. */
int link_holder__tell_files(struct link_holder *link_holder, pid_t pid, const struct inject_file *file, uint32_t nr);

/* Ejects such a sampler now. 0, or the negative errno of inject_eject() with its line in ret->why. */
int link_holder__eject(struct link_holder *link_holder, pid_t pid, struct link_holder_ejection *ret);

/*
 * Creates a link like uprobe_multi_attach(), in the file `fd` (uprobes->path is not used). Returns its number,
 * which is above 0, or a negative errno. -ESTALE: the file has changed since it was `file`; -ETXTBSY: it is open
 * for writing.
 */
int link_holder__attach(struct link_holder *link_holder, int program_fd, int fd, const struct file_identity *file,
		   const struct uprobe_multi *uprobes);

/*
 * Starts to end a link, without waiting; its number is invalid from now on. The kernel removes the breakpoints at
 * once, and needs a tenth of a second for the rest.
 */
void link_holder__detach(struct link_holder *link_holder, int link);

/* Returns a link that the link holder has ended itself because its file was written to; each link once. 0: none. */
int link_holder__next_closed(struct link_holder *link_holder);

/*
 * Returns the errno why a file could not be watched, and the number of such files so far. 0: no news. An errno that is
 * repeated is news when the number has doubled.
 */
int link_holder__next_unwatched(struct link_holder *link_holder, uint64_t *ret_nr);

/* Becomes readable when the link holder may have ended a link itself. */
int link_holder__news_fd(const struct link_holder *link_holder);

/* Number of links that are still being ended. */
size_t link_holder__detaching_nr(struct link_holder *link_holder);

/* Waits until no link is being ended. */
void link_holder__settle(struct link_holder *link_holder);

const struct helper *link_holder__helper(const struct link_holder *link_holder);

/* Ends the link holder and all its links, and waits for that. NULL is allowed. */
void link_holder__close(struct link_holder *link_holder);

#endif
