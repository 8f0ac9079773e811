/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_NAMES_H
#define ALLOCSNAP_ARCHIVE_NAMES_H

/*
 * The names in an archive of snapshots:
 *
 *	DIR/HOST/COMM.PID/20261121T031500.123Z.6f3c21aa.86400123.snap
 *
 * The name of a snapshot has its moment (base/moment.h), so that a folder of many files is in order before any is
 * opened:
 *
 *	20261121T031500.123Z.6f3c21aa.86400123.snap      wall time, begin of boot_id, monotonic milliseconds
 *	20261121T031500.123Z.6f3c21aa.86400123-2.snap    …the second one in that millisecond
 *	20261121T031500.123Z.snap                        of an earlier allocsnap, or without a boot_id
 *
 * Users may give their snapshots other names that end in .snap.
 */

#include <stdbool.h>
#include <sys/types.h>

struct moment;
struct reason;
struct snapshot_file_owner;

#define SNAPSHOT_SUFFIX ".snap"
#define MOMENT_NAME_MAX 80
#define COMM_MOST 15 /* bytes of COMM */

/* Whether a path, or any text, ends as the name of a snapshot does. */
bool has_snapshot_suffix(const char *path);

/* Whether a file in a folder is a snapshot by its name: hidden files are not. */
bool is_snapshot_name(const char *name);

/* Whether a user may mean the file of a snapshot by the path. */
bool is_snapshot_path(const char *path);

/* "." if the path has no slash. The caller frees it; NULL: no memory. */
char *folder_of_path(const char *path);

/* Returns false for any other name. Parsing is exact: moment_name() of the result is the same name. */
bool moment_parse(const char *name, struct moment *ret);

/* The name of a file, with its suffix. */
const char *moment_name(char text[MOMENT_NAME_MAX], const struct moment *moment);

/* Whether a name may be HOST, or COMM.PID. */
bool archive_is_host_name(const char *name);
bool archive_is_folder_name(const char *name);

/*
 * Parses the name of a draft: a snapshot before it gets its name, if the file system has no unnamed files, or if it
 * replaces an older file. Drafts are .MOMENT.tmp.PID and .MOMENT.snap.tmp.PID, each also with -N if several have that
 * moment or PID (base/file_replace.h).
 */
bool atomic_file_name_parse(const char *name, pid_t *ret_writer);

/* Parses the name of the file with which archive_check_folder() tests whether a directory can be written to. */
bool trial_name_parse(const char *name, pid_t *ret_writer);

/*
 * The folders of snapshots: DIR/HOST/COMM.PID, made with mode 0700. DIR is the user's own word and may lead over
 * symbolic links; HOST and COMM.PID must not be links. An owner gets folders that were made here
 * in the owner's own folders or in the current one, and no others; owner NULL: they stay with the caller.
 */

/* Makes a directory, and those above it, and checks that files can be made in it: before a program is started or changed. */
int archive_check_folder(const char *path, const struct snapshot_file_owner *owner, struct reason *why);

/*
 * Makes DIR/HOST/COMM.PID. HOST and COMM are cleaned so that they are names of files. The caller frees the path, and
 * closes *ret_fd, which refers to the folder (O_PATH). NULL with errno and a line in *why.
 */
char *archive_make_folder(const char *dir, const char *host, const char *comm, pid_t pid,
			  const struct snapshot_file_owner *owner, int *ret_fd, struct reason *why);

#endif
