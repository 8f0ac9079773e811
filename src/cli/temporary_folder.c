// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/temporary_folder.h"

#include <errno.h>
#include <fts.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/helper.h"
#include "base/log.h"
#include "base/privileges.h"

/*
 * A folder of another user is not used: this user could put another one in the place of ours, and root cannot remove
 * it there without the privileges that recording gives up.
 */
static const char *choose_temporary_base(void)
{
	const char *base = getenv("TMPDIR");
	struct stat st;

	if (!base || !*base)
		return "/tmp";
	if (stat(base, &st) || !st.st_uid || st.st_uid == geteuid())
		return base;
	log_info("temporary files go to /tmp: TMPDIR, %s, belongs to another user", base);
	return "/tmp";
}

static void remove_temporary_tree(const char *path)
{
	char *const roots[] = { (char *)path, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *entry;

	while (tree && (entry = fts_read(tree)))
		if (entry->fts_info != FTS_D && remove(entry->fts_accpath))
			log_failure("%s: %s", entry->fts_path, strerror(errno));
	if (tree)
		fts_close(tree);
}

/*
 * All signals are blocked; any of them wakes it. No descriptor of the parent stays open: the reader of a pipe would wait,
 * and probes would go on.
 */
static void wait_for_parents_end(pid_t parent, const sigset_t *all)
{
	if (capabilities_keep(0) || child_keep_only(STDERR_FILENO) || close(CHILD_FD))
		_exit(1);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	child_show_as("allocsnap: removes temporary files");
	while (getppid() == parent)
		sigwaitinfo(all, NULL);
}

static int begin_child(struct temporary_folder *folder)
{
	pid_t parent = getpid();
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	folder->child = fork();
	if (!folder->child) {
		wait_for_parents_end(parent, &all);
		remove_temporary_tree(folder->path);
		_exit(0);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return folder->child > 0 ? 0 : -errno;
}

int temporary_folder_make(const char *name, struct temporary_folder *ret)
{
	struct temporary_folder folder = {};
	int err;

	if (asprintf(&folder.path, "%s/allocsnap-%s.XXXXXX", choose_temporary_base(), name) < 0)
		return log_failure("out of memory");
	err = mkdtemp(folder.path) ? begin_child(&folder) : -errno;
	if (!err) {
		*ret = folder;
		return EXIT_DONE;
	}
	log_failure("%s: %s", folder.path, strerror(-err));
	rmdir(folder.path);
	free(folder.path);
	return EXIT_FAILED;
}

void temporary_folder_remove(struct temporary_folder *folder)
{
	if (!folder->path)
		return;
	remove_temporary_tree(folder->path);
	kill(folder->child, SIGKILL);
	waitpid(folder->child, NULL, 0);
	free(folder->path);
	*folder = (struct temporary_folder){};
}
