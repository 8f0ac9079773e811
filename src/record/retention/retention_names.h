/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_RETENTION_RETENTION_NAMES_H
#define ALLOCSNAP_RECORD_RETENTION_RETENTION_NAMES_H

/* The names that a recording gives to files and folders, and what they mean. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A stamp is a snapshot's name as a number that sorts by time: milliseconds since 1970, and then
 * the snapshot's number within that millisecond. Number 1 has no suffix.
 *
 *	20261121T031500.123Z.snap      milliseconds:44 | 1:20
 *	20261121T031500.123Z-2.snap    milliseconds:44 | 2:20
 */
#define STAMP_SHIFT 20
#define STAMP_TEXT_MAX 64

#define FOLDER_NAME_MAX 24 /* COMM 15 bytes, a dot, PID below 2^22, NUL */

static inline uint64_t stamp_ms(uint64_t stamp)
{
	return stamp >> STAMP_SHIFT;
}

/* Returns false for any other name. Parsing is exact: stamp_text() of the result is the same name. */
bool stamp_parse(const char *name, uint64_t *ret_stamp);

const char *stamp_text(char text[STAMP_TEXT_MAX], uint64_t stamp);

/* Whether a name may be HOST, or COMM.PID. */
bool archive_is_host_name(const char *name);
bool archive_is_folder_name(const char *name);

/*
 * Parses the name of a draft: a snapshot before it gets its name, if the file system has no unnamed files, or if it
 * replaces an older file. Drafts are .TIME.tmp.PID and .TIME.snap.tmp.PID, each also with -N if several have that
 * time or PID (base/atomic_file.h).
 */
bool atomic_file_name_parse(const char *name, pid_t *ret_writer);

/* Parses the name of the file with which store_check() tests whether a directory can be written to. */
bool trial_name_parse(const char *name, pid_t *ret_writer);

#endif
