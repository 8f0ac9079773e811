// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/process_identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/process/proc.h"
#include "shared/bpf_types.h"

/* Takes ownership of the text. An empty text does not replace a known one: the process may just have ended. */
static int replace_identity_text(char **known, char *text)
{
	if (!text)
		return -ENOMEM;
	if (*known && !*text) {
		free(text);
		return 0;
	}
	free(*known);
	*known = text;
	return 0;
}

/*
 * Keeps the name that snapshots exist under: snapshots of one program stay together when it changes its comm.
 */
static int take_comm(struct process_identity *identity, char *comm)
{
	if (!identity->is_named)
		return replace_identity_text(&identity->comm, comm);
	free(comm);
	return 0;
}

int process_identity_read(struct process_identity *identity)
{
	int err = take_comm(identity, proc_text(identity->pid, "comm"));

	if (!err)
		err = replace_identity_text(&identity->exe, proc_link(identity->pid, "exe"));
	return err ?: process_identity_read_args(identity);
}

int process_identity_read_args(struct process_identity *identity)
{
	return replace_identity_text(&identity->cmdline, proc_cmdline(identity->pid));
}

int process_identity_read_kept(struct process_identity *identity, const struct process *books)
{
	int err = take_comm(identity, strndup(books->comm, COMM_BYTES));

	if (err || *identity->cmdline)
		return err;
	return replace_identity_text(&identity->cmdline, proc_join_args(books->args, books->args_bytes));
}

int process_identity_set_exe(struct process_identity *identity, const char *path)
{
	return replace_identity_text(&identity->exe, strdup(path));
}

bool process_identity_open(struct process_identity *identity)
{
	uint64_t ticks;

	identity->pidfd = syscall(SYS_pidfd_open, identity->pid, 0);
	if (identity->pidfd < 0)
		return false;
	if (!proc_start_time(identity->pid, &ticks) && ticks == identity->start_ticks)
		return true;
	close(identity->pidfd);
	identity->pidfd = -1;
	return false;
}

void process_identity_release(struct process_identity *identity)
{
	if (identity->pidfd >= 0)
		close(identity->pidfd);
	free(identity->comm);
	free(identity->exe);
	free(identity->cmdline);
	free(identity->cgroup);
}
