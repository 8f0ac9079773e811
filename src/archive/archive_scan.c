// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads the directory, and removes what a killed recording has left there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "archive/archive_private.h"
#include "base/units.h"

#define EMPTY_FOR_SECONDS 60 /* a recorder may be about to write into a younger folder */

int archive_open_dir(const struct archive *archive)
{
	int fd = open(archive->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int open_folder_below(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* One directory while it is read; fd is also the stream's. */
struct reading {
	struct archive *archive;
	const char *own_host;
	const char *host;
	bool is_own;	 /* of this host */
	int fd;
	DIR *stream;
	size_t left_nr;	 /* leftovers that were removed */
};

/* The stream takes ownership of fd, also on failure. */
static int begin_reading(struct reading *reading, int fd)
{
	int err;

	reading->fd = fd;
	reading->stream = fd < 0 ? NULL : fdopendir(fd);
	if (reading->stream)
		return 0;
	err = fd < 0 ? fd : -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Returns NULL at the end. */
static const char *next_name(const struct reading *reading)
{
	struct dirent *entry;

	do
		entry = readdir(reading->stream);
	while (entry && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	return entry ? entry->d_name : NULL;
}

static bool is_file(const struct reading *reading, const char *name, struct stat *st)
{
	return !fstatat(reading->fd, name, st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st->st_mode);
}

/* ---- leftovers ------------------------------------------------------------------------------- */

/* Whether the process has the file open; also true if that cannot be known. */
static bool has_open(pid_t pid, const struct stat *file)
{
	char path[32];
	struct stat st;
	struct dirent *entry;
	bool is_open = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	if (!fds)
		return errno != ENOENT || access("/proc/self", F_OK);
	while (!is_open && (entry = readdir(fds)))
		is_open = !fstatat(dirfd(fds), entry->d_name, &st, 0) &&
			  st.st_dev == file->st_dev && st.st_ino == file->st_ino;
	closedir(fds);
	return is_open;
}

/* Removes leftovers of this host only: on another host the PID would be another process's. */
static bool remove_leftover(struct reading *reading, const char *name, pid_t writer)
{
	struct stat st;

	if (!reading->is_own || !is_file(reading, name, &st) || has_open(writer, &st) ||
	    unlinkat(reading->fd, name, 0))
		return false;
	reading->left_nr++;
	archive_add_news(reading->archive, NEWS_LEFTOVERS, 1, st.st_blocks * BLOCK_BYTES);
	return true;
}

static bool has_been_empty(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_mtime + EMPTY_FOR_SECONDS < time(NULL);
}

/* ---- the three levels ------------------------------------------------------------------------ */

/* The folder gets a row when its first snapshot is found. */
static int add_snapshot_file(struct reading *reading, const char *folder, const char *name, int64_t *id)
{
	struct archive *archive = reading->archive;
	struct stat st;
	struct moment moment;

	if (!moment_parse(name, &moment) || !is_file(reading, name, &st))
		return 0;
	if (*id < 0)
		*id = archive_get_folder(archive, reading->host, folder);
	return *id < 0 ? (int)*id : archive_add(archive, *id, &moment, st.st_blocks);
}

/* Returns 1 if the folder has no snapshot, and should be removed if it is empty. */
static int read_files(struct reading *files, const char *folder)
{
	int64_t id = -1;
	struct stat st;
	const char *name;
	pid_t writer;
	int err = 0;

	while (!err && (name = next_name(files)))
		if (!atomic_file_name_parse(name, &writer) || !remove_leftover(files, name, writer))
			err = add_snapshot_file(files, folder, name, &id);
	if (err || fstat(files->fd, &st))
		return err;
	if (id >= 0)
		archive_set_folder_blocks(files->archive, id, st.st_blocks);
	return id < 0 && (files->left_nr || has_been_empty(files->fd));
}

/* A folder that cannot be opened is not ours. */
static int read_folder(const struct reading *folders, const char *name)
{
	struct reading files = *folders;
	int err, fd = archive_is_folder_name(name) ? open_folder_below(folders->fd, name) : -1;

	files.left_nr = 0;
	if (fd < 0 || begin_reading(&files, fd))
		return 0;
	err = read_files(&files, name);
	closedir(files.stream);
	if (err <= 0)
		return err;
	unlinkat(folders->fd, name, AT_REMOVEDIR); /* it stays if it holds anything */
	return 0;
}

/* Counts the host's folder if it has a folder of ours. */
static void count_host(const struct reading *folders)
{
	struct archive *archive = folders->archive;
	size_t last = archive->host_nr - 1;
	struct stat st;

	if (archive->host_nr && !strcmp(archive->host[last].name, folders->host) &&
	    !fstat(folders->fd, &st))
		archive_set_host_blocks(archive, last, st.st_blocks);
}

static int read_host(const struct reading *hosts, const char *name)
{
	struct reading folders = *hosts;
	int err = 0, fd = archive_is_host_name(name) ? open_folder_below(hosts->fd, name) : -1;
	const char *folder;

	folders.host = name;
	folders.is_own = !strcmp(name, hosts->own_host);
	if (fd < 0 || begin_reading(&folders, fd))
		return 0;
	while (!err && (folder = next_name(&folders)))
		err = read_folder(&folders, folder);
	if (!err)
		count_host(&folders);
	closedir(folders.stream);
	return err;
}

static int read_hosts(struct reading *hosts)
{
	const char *name;
	struct stat st;
	pid_t writer;
	int err = 0;

	hosts->is_own = true;
	while (!err && (name = next_name(hosts))) {
		if (trial_name_parse(name, &writer)) {
			if (is_file(hosts, name, &st) && !st.st_size)
				remove_leftover(hosts, name, writer);
			continue;
		}
		err = read_host(hosts, name);
	}
	return err;
}

int archive_scan(struct archive *archive)
{
	struct utsname machine;
	struct reading hosts = { .archive = archive, .own_host = machine.nodename };
	struct stat st;
	int err;

	uname(&machine);
	clean_file_name(machine.nodename);
	archive_forget_all(archive);
	archive->is_stale = true;
	err = begin_reading(&hosts, archive_open_dir(archive));
	if (err)
		return err;
	err = fstat(hosts.fd, &st) ? -errno : read_hosts(&hosts);
	closedir(hosts.stream);
	if (err)
		return err;
	archive->blocks += archive->dir_blocks = st.st_blocks;
	archive->device = st.st_dev;
	archive->inode = st.st_ino;
	archive->is_stale = false;
	return archive_tidy(archive);
}
