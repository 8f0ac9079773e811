/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_WALK_H
#define ALLOCSNAP_ARCHIVE_WALK_H

/*
 * The walk through a folder and all folders below it. Other users may change these folders meanwhile, so each folder is
 * opened below the open folder above it, and no link below the first folder is followed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/moment.h"

enum walk_kind {
	WALK_FOLDER,	 /* a folder that will be opened, unless the visitor returns WALK_PASS_OVER */
	WALK_LEFT,	 /* …that has been read. Comes after each WALK_FOLDER that was not passed over */
	WALK_UNREADABLE, /* …that cannot be opened, or not be read to its end; one that is gone is not reported */
	WALK_FILE,	 /* a regular file */
	WALK_LINK,
	WALK_OTHER,
};

/* Valid during the visit. */
struct archive_entry {
	enum walk_kind kind;
	const char *path; /* begins with the folder that was given */
	const char *name; /* the last part of the path, in dir_fd */
	int dir_fd;
	int fd;		    /* WALK_LEFT: the folder itself; -1: it could not be opened */
	unsigned int depth; /* 0: the folder that was given */
	int err;	    /* WALK_UNREADABLE: a negative errno */
};

#define WALK_PASS_OVER 1

/* Returns 0, WALK_PASS_OVER or a negative errno, which ends the walk. */
typedef int (*archive_visit_fn)(void *what, const struct archive_entry *entry);

/* Returns 0, or the negative errno of the first folder or of a visit. */
int archive_walk(const char *dir, archive_visit_fn visit, void *what);

/* Reads what a file is now. Returns 0, or a negative errno: -ENOENT if it is no regular file any more. */
int archive_entry_stat(const struct archive_entry *entry, struct stat *ret);

/* Opens a folder in a folder. Returns a descriptor or a negative errno. */
int archive_open_folder(int dir_fd, const char *name);

/* Whether the error says that a file or folder is gone, or that something else has its name now. */
bool is_gone_error(int err);

/* Whether there is a folder at the path, or a link to one. */
bool is_folder(const char *path);

/* ---- folders of processes, and their snapshot files ---- */

/*
 * The folders below a folder that hold snapshot files. A recording makes one for each process, HOST/COMM.PID. A folder
 * of any other name that holds snapshot files counts, too.
 */

struct snapshot_file {
	struct moment moment; /* from the name, or from the file if it is named otherwise */
	char *path;
};

/* Begins like a struct snapshot_file. */
struct process_folder {
	struct moment newest;
	char *path;
	struct snapshot_file *file; /* oldest first; at least one */
	size_t file_nr, file_alloc;
};

struct process_folders {
	struct process_folder *folder; /* the folder with the newest snapshot first */
	size_t folder_nr, folder_alloc;
};

/* Sorts rows that begin like a struct snapshot_file: by moment, then by path. Returns 0 or -ENOMEM. */
int snapshot_rows_sort(void *row, size_t nr, size_t row_size, bool newest_first);

/*
 * Adds the folders below `path`, and `path` itself. A symbolic link below `path` to a folder is not followed. Returns
 * an exit status: EXIT_FAILED, reported, if some folders could not be read; the others are there then, too.
 * process_folders_release() frees *folders, also after a failure.
 */
int process_folders_scan(struct process_folders *folders, const char *path);
void process_folders_release(struct process_folders *folders);

/*
 * Reads from the files of which the names have only wall times (by an earlier allocsnap) when they were taken, and puts
 * the files in order by that. Returns an exit status.
 */
int process_folder_settle(struct process_folder *folder);

/* Drops the folders that are not called WHAT.PID, COMM.WHAT or WHAT. */
void process_folders_retain(struct process_folders *folders, const char *what);

#endif
