// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/walk.h"
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

static int remove_entry(void *unused, const struct archive_entry *entry)
{
	(void)unused;
	if (entry->kind == WALK_UNREADABLE)
		return entry->err;
	if (entry->kind == WALK_FOLDER || !unlinkat(entry->dir_fd, entry->name, entry->kind == WALK_LEFT ? AT_REMOVEDIR : 0))
		return 0;
	return -errno;
}

static void remove_temporary_tree(const char *path)
{
	int err = archive_walk(path, remove_entry, NULL);

	if (err) /* it may have been for want of memory, which may be there now */
		err = archive_walk(path, remove_entry, NULL);
	if (err)
		log_failure("%s: cannot be removed: %s", path, strerror(-err));
}

static int give_up_all(void)
{
	return capabilities_keep(0);
}

/* The length of the path is the recorder's: mkdtemp() changes its last six characters. */
static int make_and_remove(void *path, int parent)
{
	int err = mkdtemp(path) ? 0 : -errno;
	const struct iovec answer[] = { { &err, sizeof(err) }, { path, strlen(path) + 1 } };
	int told = channel__send(&(struct channel){ .fd = CHILD_FD }, 0, answer, 2, -1);

	if (!err && told) /* the recorder does not know the folder: it goes at once */
		remove_temporary_tree(path);
	if (err || told)
		return EXIT_FAILED;
	while (poll(&(struct pollfd){ .fd = parent, .events = POLLIN }, 1, -1) != 1)
		;
	remove_temporary_tree(path);
	return 0;
}

static int receive_path(const struct channel *child, char *path)
{
	struct message head;
	int answer = 0, err = channel__head(child, &head, NULL) ?: channel__receive(child, &answer, sizeof(answer));

	return err ?: answer ?: channel__receive(child, path, strlen(path) + 1);
}

int temporary_folder_make(const char *name, struct temporary_folder *ret)
{
	struct temporary_folder folder = {};
	int err;

	if (asprintf(&folder.path, "%s/allocsnap-%s.XXXXXX", choose_temporary_base(), name) < 0)
		return log_failure("out of memory");
	err = helper__start(&(struct helper_plan){
		.shown = "allocsnap: removes temporary files",
		.has_own_session = true,
		.give_up = give_up_all,
		.work = make_and_remove,
		.self = folder.path,
	}, &folder.child) ?: receive_path(&folder.child.channel, folder.path);
	if (!err) {
		*ret = folder;
		return EXIT_DONE;
	}
	log_failure("%s: %s", folder.path, strerror(-err));
	helper__end(&folder.child, SIGKILL);
	free(folder.path);
	return EXIT_FAILED;
}

void temporary_folder_remove(struct temporary_folder *folder)
{
	if (!folder->path)
		return;
	remove_temporary_tree(folder->path);
	helper__end(&folder->child, SIGKILL);
	free(folder->path);
	*folder = (struct temporary_folder){};
}
