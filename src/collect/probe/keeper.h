/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_KEEPER_H
#define ALLOCSNAP_COLLECT_KEEPER_H

/*
 * The process that places links of many probes, holds them and closes them. Who dies inside one of these
 * system calls leaves breakpoints in the program that is recorded: a thread with SIGKILL pending may
 * not touch another's memory. So the recording is never in one, and the keeper, which is asked by
 * nobody to end, ends when the recording has, however that came, and takes the links with it.
 *
 *	recording ── order: program, file, places ──► keeper ── bpf() ──► links
 *	     └──────────── a link's number ◄────────────┘
 *
 * The keeper also ends the links of a file before it is written to, whatever the recording is busy with, and tells
 * it afterwards. It has a lease on the file (fcntl(2), F_SETLEASE): the kernel lets nobody open it for writing until the
 * keeper has taken the breakpoints away, a tenth of a second later. Where there is no lease (another file system's, or
 * without CAP_LEASE), the first write tells the keeper (file_watch.h), which is then in a race with the new program.
 *
 * Where the keeper has ended, its links are gone, and orders fail with -EPIPE.
 */

#include <stdbool.h>
#include <stddef.h>

struct file_identity;
struct keeper;
struct uprobe_multi;

/*
 * Forks it: before there are threads, and BPF maps in our memory, which it would hold on to. NULL and
 * errno.
 */
struct keeper *keeper__open(void);

/*
 * A link, as uprobe_multi_attach() makes it, in the file `fd` (uprobes->path is not used): its number,
 * which is above 0, or a negative errno. -ESTALE: the file is not what it was as `file`; -ETXTBSY: it is open for
 * writing.
 */
int keeper__attach(struct keeper *keeper, int program_fd, int fd, const struct file_identity *file,
		   const struct uprobe_multi *uprobes);

/*
 * Begins to end a link, whose number means nothing any more, and does not wait: its breakpoints go at
 * once, the rest takes the kernel a tenth of a second.
 */
void keeper__detach(struct keeper *keeper, int link);

/* A link that the keeper has ended itself, as its file was written to; each once. 0: there is none. */
int keeper__next_closed(struct keeper *keeper);

/* Why a file could not be watched: an errno, each once; 0: there is nothing to say. */
int keeper__next_unwatched(struct keeper *keeper);

/* Becomes readable when there may be a link that the keeper has ended itself. */
int keeper__news_fd(const struct keeper *keeper);

/* How many links are not ended yet. */
size_t keeper__detaching_nr(struct keeper *keeper);

/* Waits until they all are. */
void keeper__settle(struct keeper *keeper);

/* Becomes readable when the keeper has ended. */
int keeper__end_fd(const struct keeper *keeper);
bool keeper__has_ended(const struct keeper *keeper);

/* Ends it, and all links that it has; waits for that. */
void keeper__close(struct keeper *keeper);

#endif
