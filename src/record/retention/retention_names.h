/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RETENTION_RETENTION_NAMES_H
#define ALLOCSNAP_RECORD_RETENTION_RETENTION_NAMES_H

/* The names that a recording gives to folders and drafts, and what they mean. base/moment.h has those of snapshots. */

#include <stdbool.h>
#include <sys/types.h>

#define FOLDER_NAME_MAX 24 /* COMM 15 bytes, a dot, PID below 2^22, NUL */

/* Whether a name may be HOST, or COMM.PID. */
bool archive_is_host_name(const char *name);
bool archive_is_folder_name(const char *name);

/*
 * Parses the name of a draft: a snapshot before it gets its name, if the file system has no unnamed files, or if it
 * replaces an older file. Drafts are .MOMENT.tmp.PID and .MOMENT.snap.tmp.PID, each also with -N if several have that
 * moment or PID (base/file_replace.h).
 */
bool atomic_file_name_parse(const char *name, pid_t *ret_writer);

/* Parses the name of the file with which store_check() tests whether a directory can be written to. */
bool trial_name_parse(const char *name, pid_t *ret_writer);

#endif
