// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/names.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/units.h"
#include "snapshot/snapshot_identity.h"

struct walk {
	archive_visit_fn visit;
	void *what;
	char *path; /* of the entry that is visited */
	size_t path_nr, path_alloc;
};

/* An entry; its path is walk->path. */
struct step {
	size_t name_at; /* in the path */
	int dir_fd, fd;
	unsigned int depth;
};

bool is_gone_error(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP;
}

bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int open_folder_in(int dir_fd, const char *name, int flags)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

int archive_open_folder(int dir_fd, const char *name)
{
	return open_folder_in(dir_fd, name, O_NOFOLLOW);
}

int archive_entry_stat(const struct archive_entry *entry, struct stat *ret)
{
	if (fstatat(entry->dir_fd, entry->name, ret, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return S_ISREG(ret->st_mode) ? 0 : -ENOENT;
}

static int append_name(struct walk *walk, const char *name)
{
	size_t len = strlen(name);
	bool needs_slash = walk->path_nr && walk->path[walk->path_nr - 1] != '/';
	int err = array_reserve(&walk->path, &walk->path_alloc, walk->path_nr + len + 2);

	if (err)
		return err;
	if (needs_slash)
		walk->path[walk->path_nr++] = '/';
	memcpy(walk->path + walk->path_nr, name, len + 1);
	walk->path_nr += len;
	return 0;
}

static int visit_step(struct walk *walk, const struct step *at, enum walk_kind kind, int err)
{
	const struct archive_entry entry = {
		kind, walk->path, walk->path + at->name_at, at->dir_fd, at->fd, at->depth, err,
	};

	return walk->visit(walk->what, &entry);
}

static int walk_folder(struct walk *walk, struct step *at);

static int walk_entry(struct walk *walk, const struct step *above, const struct dirent *entry)
{
	struct step at = { .dir_fd = above->fd, .fd = -1, .depth = above->depth + 1 };
	size_t len = walk->path_nr;
	unsigned char type = entry->d_type;
	struct stat st;
	int err;

	if (type == DT_UNKNOWN && fstatat(above->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return is_gone_error(-errno) ? 0 : visit_step(walk, above, WALK_UNREADABLE, -errno);
	if (type == DT_UNKNOWN)
		type = IFTODT(st.st_mode);
	err = append_name(walk, entry->d_name);
	if (err)
		return err;
	at.name_at = walk->path_nr - strlen(entry->d_name);
	if (type == DT_DIR)
		err = walk_folder(walk, &at);
	else
		err = visit_step(walk, &at, type == DT_REG ? WALK_FILE : type == DT_LNK ? WALK_LINK : WALK_OTHER, 0);
	walk->path_nr = len;
	walk->path[len] = '\0';
	return err == WALK_PASS_OVER ? 0 : err;
}

/* Closes the folder. */
static int walk_open_folder(struct walk *walk, const struct step *at)
{
	DIR *stream = fdopendir(at->fd);
	struct dirent *entry;
	int err = stream ? 0 : -errno;

	while (!err && (errno = 0, entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			err = walk_entry(walk, at, entry);
	if (!err && errno)
		err = visit_step(walk, at, WALK_UNREADABLE, -errno);
	err = err ?: visit_step(walk, at, WALK_LEFT, 0);
	if (stream)
		closedir(stream);
	else
		close(at->fd);
	return err;
}

/* The path of a file below may be too long to open, and each level of recursion takes stack. */
static int open_step(const struct walk *walk, const struct step *at)
{
	if (walk->path_nr >= PATH_MAX)
		return -ENAMETOOLONG;
	return open_folder_in(at->dir_fd, walk->path + at->name_at, at->depth ? O_NOFOLLOW : 0);
}

static int walk_folder(struct walk *walk, struct step *at)
{
	int fd, err = visit_step(walk, at, WALK_FOLDER, 0);

	if (err)
		return err;
	fd = open_step(walk, at);
	if (fd >= 0)
		return at->fd = fd, walk_open_folder(walk, at);
	if (!at->depth)
		return fd;
	err = is_gone_error(fd) ? 0 : visit_step(walk, at, WALK_UNREADABLE, fd);
	return err ?: visit_step(walk, at, WALK_LEFT, 0);
}

int archive_walk(const char *dir, archive_visit_fn visit, void *what)
{
	struct walk walk = { .visit = visit, .what = what };
	struct step first = { .dir_fd = AT_FDCWD, .fd = -1 };
	int err = append_name(&walk, dir);

	while (!err && walk.path_nr > 1 && walk.path[walk.path_nr - 1] == '/')
		walk.path[--walk.path_nr] = '\0';
	err = err ?: walk_folder(&walk, &first);
	free(walk.path);
	return err == WALK_PASS_OVER ? 0 : err;
}

/* ---- snapshot files -------------------------------------------------------------------------------- */

/*
 * The moment of a file that does not have it in its name: when it was taken or, if it cannot be read, when it was
 * written. `moment` has what its name says. Who opens a damaged file says what it is.
 */
static void read_file_moment(const char *path, struct moment *moment)
{
	struct moment read;
	struct stat st;
	int err = snapshot_moment_read(path, &read);

	if (err && err != -EBADMSG)
		log_info("%s: %s; its place among others is by when it was written", path, strerror(-err));
	if (!err) {
		moment->boot = read.boot;
		moment->monotonic_ns = read.monotonic_ns;
		moment->wall_ns = moment->wall_ns ?: read.wall_ns;
	}
	if (!moment->wall_ns && !stat(path, &st))
		moment->wall_ns = st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec;
}

static int add_file_of_process(struct process_folder *folder, const struct archive_entry *entry)
{
	struct snapshot_file file = { .path = strdup(entry->path) };
	int err;

	if (!moment_parse(entry->name, &file.moment))
		read_file_moment(entry->path, &file.moment);
	err = file.path ? array_push(folder, file, file) : -ENOMEM;
	if (err)
		free(file.path);
	return err;
}

static int compare_row_paths(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_file *)a)->path, ((const struct snapshot_file *)b)->path);
}

int snapshot_rows_sort(void *row, size_t nr, size_t row_size, bool newest_first)
{
	return moments_sort(row, nr, &(struct moment_order){
		.item_size = row_size, .newest_first = newest_first, .compare_rest = compare_row_paths,
	});
}

static int sort_snapshot_files(struct process_folder *folder)
{
	int err = snapshot_rows_sort(folder->file, folder->file_nr, sizeof(*folder->file), false);

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

/* The folders from the first one to the one that is read. */
struct folder_scan {
	struct process_folders *folders;
	struct process_folder *open;
	size_t open_nr, open_alloc;
	int status;
};

static int begin_process_folder(struct folder_scan *scan, const char *path)
{
	struct process_folder open = { .path = strdup(path) };
	int err = open.path ? array_push(scan, open, open) : -ENOMEM;

	if (err)
		free(open.path);
	return err;
}

static int end_process_folder(struct folder_scan *scan)
{
	struct process_folder folder = scan->open[--scan->open_nr];
	int err = folder.file_nr ? sort_snapshot_files(&folder) ?: array_push(scan->folders, folder, folder) : 0;

	if (err || !folder.file_nr)
		process_folder_release(&folder);
	return err;
}

static int visit_for_folders(void *scan_, const struct archive_entry *entry)
{
	struct folder_scan *scan = scan_;

	if (entry->depth && *entry->name == '.')
		return WALK_PASS_OVER;
	switch (entry->kind) {
	case WALK_FOLDER:
		return begin_process_folder(scan, entry->path);
	case WALK_LEFT:
		return end_process_folder(scan);
	case WALK_UNREADABLE:
		scan->status = fail_to_scan(entry->path, entry->err);
		return 0;
	default:
		return is_snapshot_name(entry->name) ?
		       add_file_of_process(&scan->open[scan->open_nr - 1], entry) : 0;
	}
}

int process_folders_scan(struct process_folders *folders, const char *path)
{
	struct folder_scan scan = { .folders = folders };
	int err = archive_walk(path, visit_for_folders, &scan) ?:
		  snapshot_rows_sort(folders->folder, folders->folder_nr, sizeof(*folders->folder), true);

	while (scan.open_nr)
		process_folder_release(&scan.open[--scan.open_nr]);
	free(scan.open);
	return err ? fail_to_scan(path, err) : scan.status;
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
static bool process_folder_fits(const struct process_folder *folder, const char *what)
{
	const char *name = path_name(folder->path), *dot = strrchr(name, '.');
	char comm[COMM_MOST + 1];

	if (!strcmp(name, what))
		return true;
	if (!archive_is_folder_name(name))
		return false;
	snprintf(comm, sizeof(comm), "%s", what);
	clean_file_name(comm); /* as the recording did */
	return !strcmp(dot + 1, what) || (strlen(comm) == (size_t)(dot - name) && !memcmp(name, comm, dot - name));
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
