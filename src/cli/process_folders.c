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
#include "base/log.h"
#include "base/units.h"
#include "record/retention/retention_names.h"
#include "snapshot.h"

#define DEPTH_MOST 16 /* folders in folders */
#define COMM_MOST 15

/* ---- files -------------------------------------------------------------------------------- */

static bool has_snapshot_suffix(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && *name != '.' && !strcmp(name + len - 5, ".snap");
}

static uint64_t stamp_of_ms(uint64_t ms)
{
	return ms << STAMP_SHIFT;
}

/* The time of a file that is not named by its time: when it was taken or, if it cannot be read, when it was written. */
static uint64_t stamp_of_content(const char *path)
{
	struct snapshot *snapshot = snapshot__open(path, NULL);
	uint64_t wall_ns = snapshot ? snapshot__metadata_u64(snapshot, "wall_ns", 0) : 0;
	struct stat st;

	snapshot__close(snapshot);
	if (wall_ns)
		return stamp_of_ms(wall_ns / 1000000);
	return stat(path, &st) ? 0 : stamp_of_ms(st.st_mtim.tv_sec * 1000ULL + st.st_mtim.tv_nsec / 1000000);
}

static int add_file_of_process(struct process_folder *folder, const char *name)
{
	struct snapshot_file file = {};
	int err;

	if (asprintf(&file.path, "%s/%s", folder->path, name) < 0)
		return -ENOMEM;
	if (!stamp_parse(name, &file.stamp))
		file.stamp = stamp_of_content(file.path);
	err = array_push(folder, file, file);
	if (err)
		free(file.path);
	return err;
}

static int compare_snapshot_files(const void *a_, const void *b_)
{
	const struct snapshot_file *a = a_, *b = b_;

	if (a->stamp != b->stamp)
		return a->stamp < b->stamp ? -1 : 1;
	return strcmp(a->path, b->path);
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

	if (folder->file_nr) {
		qsort(folder->file, folder->file_nr, sizeof(*folder->file), compare_snapshot_files);
		err = array_push(folders, folder, *folder);
	}
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

static uint64_t newest_stamp(const struct process_folder *folder)
{
	return folder->file[folder->file_nr - 1].stamp;
}

static int compare_process_folders(const void *a_, const void *b_)
{
	const struct process_folder *a = a_, *b = b_;

	if (newest_stamp(a) != newest_stamp(b))
		return newest_stamp(a) > newest_stamp(b) ? -1 : 1;
	return strcmp(a->path, b->path);
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
	char *plain = without_last_slashes(path);
	int status = plain ? scan_folder(folders, plain, AT_FDCWD, plain, 0) : fail_to_scan(path, -ENOMEM);

	if (folders->folder_nr)
		qsort(folders->folder, folders->folder_nr, sizeof(*folders->folder), compare_process_folders);
	free(plain);
	return status;
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
