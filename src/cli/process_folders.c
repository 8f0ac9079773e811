// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/process_folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "record/retention/retention_names.h"
#include "snapshot/snapshot_identity.h"

#define DEPTH_MOST 16 /* folders in folders */
#define COMM_MOST 15

/* ---- files -------------------------------------------------------------------------------- */

static bool has_snapshot_suffix(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && *name != '.' && !strcmp(name + len - 5, ".snap");
}

/*
 * The moment of a file that does not have it in its name: when it was taken or, if it cannot be read, when it was
 * written. `moment` has what its name says.
 */
static void read_file_moment(const char *path, struct moment *moment)
{
	struct moment read;
	struct stat st;

	if (!snapshot_moment_read(path, &read)) {
		moment->boot = read.boot;
		moment->monotonic_ns = read.monotonic_ns;
		moment->wall_ns = moment->wall_ns ?: read.wall_ns;
	}
	if (!moment->wall_ns && !stat(path, &st))
		moment->wall_ns = st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec;
}

static int add_file_of_process(struct process_folder *folder, const char *name)
{
	struct snapshot_file file = {};
	int err;

	if (asprintf(&file.path, "%s/%s", folder->path, name) < 0)
		return -ENOMEM;
	if (!moment_parse(name, &file.moment))
		read_file_moment(file.path, &file.moment);
	err = array_push(folder, file, file);
	if (err)
		free(file.path);
	return err;
}

static int compare_file_paths(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_file *)a)->path, ((const struct snapshot_file *)b)->path);
}

static int sort_snapshot_files(struct process_folder *folder)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct snapshot_file),
		.compare_rest = compare_file_paths,
	};
	int err = moments_sort(folder->file, folder->file_nr, &order);

	folder->newest = folder->file[folder->file_nr - 1].moment;
	return err;
}

/* ---- folders ------------------------------------------------------------------------------ */

static void process_folder_release(struct process_folder *folder)
{
	for (size_t i = 0; i < folder->file_nr; i++)
		free(folder->file[i].path);
	free(folder->file);
	free(folder->path);
}

void process_folders_release(struct process_folders *folders)
{
	for (size_t i = 0; i < folders->folder_nr; i++)
		process_folder_release(&folders->folder[i]);
	free(folders->folder);
	*folders = (struct process_folders){};
}

static int fail_to_scan(const char *path, int err)
{
	return log_failure("%s: %s", path, strerror(-err));
}

static int scan_folder(struct process_folders *folders, const char *path, int dir_fd, const char *name, int depth);

static int scan_entry(struct process_folders *folders, struct process_folder *folder, const struct dirent *entry,
		      int dir_fd, int depth)
{
	bool may_be_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
	char *path;
	int err = 0, status = EXIT_DONE;

	if (*entry->d_name == '.')
		return EXIT_DONE;
	if (entry->d_type != DT_DIR && has_snapshot_suffix(entry->d_name)) {
		err = add_file_of_process(folder, entry->d_name);
	} else if (may_be_folder && depth < DEPTH_MOST) {
		if (asprintf(&path, "%s/%s", folder->path, entry->d_name) < 0)
			return fail_to_scan(folder->path, -ENOMEM);
		status = scan_folder(folders, path, dir_fd, entry->d_name, depth + 1);
		free(path);
	}
	return err ? fail_to_scan(folder->path, err) : status;
}

/* Takes the folder over, or frees it if it has no snapshots. */
static int keep_process_folder(struct process_folders *folders, struct process_folder *folder)
{
	int err = 0;

	if (folder->file_nr)
		err = sort_snapshot_files(folder) ?: array_push(folders, folder, *folder);
	if (err)
		fail_to_scan(folder->path, err);
	if (err || !folder->file_nr)
		process_folder_release(folder);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* Reads the folder `name` in dir_fd. A name that is no folder, or a link, is passed over below the first folder. */
static int scan_folder(struct process_folders *folders, const char *path, int dir_fd, const char *name, int depth)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct process_folder folder = { .path = strdup(path) };
	struct dirent *entry;
	int status = EXIT_DONE;

	if (!stream || !folder.path) {
		int err = folder.path ? -errno : -ENOMEM;

		if (fd >= 0)
			close(fd);
		free(folder.path);
		return depth && (err == -ENOTDIR || err == -ELOOP) ? EXIT_DONE : fail_to_scan(path, err);
	}
	while ((entry = readdir(stream)))
		if (scan_entry(folders, &folder, entry, fd, depth))
			status = EXIT_FAILED;
	closedir(stream);
	return keep_process_folder(folders, &folder) ?: status;
}

static int compare_folder_paths(const void *a, const void *b)
{
	return strcmp(((const struct process_folder *)a)->path, ((const struct process_folder *)b)->path);
}

/* "folder/" and "folder" give the same paths. */
static char *without_last_slashes(const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	return strndup(path, len);
}

int process_folders_scan(struct process_folders *folders, const char *path)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct process_folder),
		.newest_first = true,
		.compare_rest = compare_folder_paths,
	};
	char *plain = without_last_slashes(path);
	int status = plain ? scan_folder(folders, plain, AT_FDCWD, plain, 0) : fail_to_scan(path, -ENOMEM);

	if (moments_sort(folders->folder, folders->folder_nr, &order))
		status = fail_to_scan(path, -ENOMEM);
	free(plain);
	return status;
}

int process_folder_settle(struct process_folder *folder)
{
	struct progress progress = progress_begin("reading", "snapshots", folder->file_nr);
	int err;

	for (size_t i = 0; i < folder->file_nr && folder->file_nr > 1; i++) {
		struct snapshot_file *file = &folder->file[i];

		progress_show(&progress, i);
		if (!file->moment.boot)
			read_file_moment(file->path, &file->moment);
	}
	progress_end(&progress);
	err = sort_snapshot_files(folder);
	return err ? fail_to_scan(folder->path, err) : EXIT_DONE;
}

/* ---- names -------------------------------------------------------------------------------- */

/* Whether a folder's name is COMM.PID, with this COMM or PID, or is the text itself. */
static bool is_name_of(const char *name, const char *comm, const char *what)
{
	const char *dot = strrchr(name, '.');

	if (!strcmp(name, what))
		return true;
	if (!archive_is_folder_name(name))
		return false;
	return !strcmp(dot + 1, what) ||
	       (strlen(comm) == (size_t)(dot - name) && !memcmp(name, comm, dot - name));
}

static bool process_folder_fits(const struct process_folder *folder, const char *what)
{
	const char *slash = strrchr(folder->path, '/');
	char *comm = strndup(what, COMM_MOST);
	bool fits;

	if (comm)
		clean_file_name(comm); /* as the recording did */
	fits = is_name_of(slash ? slash + 1 : folder->path, comm ?: what, what);
	free(comm);
	return fits;
}

void process_folders_retain(struct process_folders *folders, const char *what)
{
	size_t kept = 0;

	for (size_t i = 0; i < folders->folder_nr; i++) {
		if (process_folder_fits(&folders->folder[i], what))
			folders->folder[kept++] = folders->folder[i];
		else
			process_folder_release(&folders->folder[i]);
	}
	folders->folder_nr = kept;
}
