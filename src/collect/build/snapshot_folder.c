// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/snapshot_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "base/reason.h"

/* Like mkdir -p. Cuts path at each slash in turn. */
static int make_dirs(char *path)
{
	for (char *slash = path + 1; *slash; slash++) {
		if (*slash != '/')
			continue;
		*slash = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

int store_make_dir(const char *path, struct reason *why)
{
	char *copy = strdup(path);
	struct stat st;
	int err;

	if (!copy)
		return -ENOMEM;
	err = *copy ? make_dirs(copy) : -EINVAL;
	if (!err && stat(path, &st))
		err = -errno;
	if (!err && !S_ISDIR(st.st_mode))
		err = -ENOTDIR;
	free(copy);
	return err ? reason_set(why, err, "cannot make the directory %s: %s", path, strerror(-err)) : 0;
}

int store_check(const char *path, struct reason *why)
{
	char trial[PATH_MAX];
	int fd, err = store_make_dir(path, why);

	if (err)
		return err;
	snprintf(trial, sizeof(trial), "%s/.allocsnap.%d", path, getpid());
	fd = open(trial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return reason_set(why, -errno, "cannot write into %s: %s", path, strerror(errno));
	close(fd);
	unlink(trial);
	return 0;
}

char *store_folder(const char *dir, const char *host, const char *comm, pid_t pid,
		   struct reason *why)
{
	char *clean_host = strdup(host), *clean_comm = strdup(comm), *folder = NULL;
	int err = clean_host && clean_comm ? 0 : -ENOMEM;

	if (!err) {
		clean_file_name(clean_host);
		clean_file_name(clean_comm);
		if (asprintf(&folder, "%s/%s/%s.%d", dir, *clean_host ? clean_host : "_",
			     *clean_comm ? clean_comm : "_", pid) < 0)
			err = -ENOMEM, folder = NULL;
	}
	if (!err)
		err = store_make_dir(folder, why);
	free(clean_host);
	free(clean_comm);
	if (!err)
		return folder;
	free(folder);
	errno = -err;
	return NULL;
}
