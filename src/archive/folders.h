/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_FOLDERS_H
#define ALLOCSNAP_ARCHIVE_FOLDERS_H

/*
 * The folders below a folder that hold snapshot files. A recording makes one for each process, HOST/COMM.PID. A folder
 * of any other name that holds snapshot files counts, too.
 */

#include <stddef.h>

#include "base/moment.h"

struct snapshot_file {
	struct moment moment; /* from the name, or from the file if it is named otherwise */
	char *path;
};

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
