/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_NAMES_H
#define ALLOCSNAP_ARCHIVE_NAMES_H

/* Which names are those that a recording gives, and what they say. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The name of a snapshot as a number, in the order of time: milliseconds since 1970, and behind
 * them which one of that millisecond it is, 1 being the one without a suffix.
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

/* false: it is no snapshot's. Exact: what stamp_text() makes of it is the name again. */
bool stamp_parse(const char *name, uint64_t *ret_stamp);

const char *stamp_text(char text[STAMP_TEXT_MAX], uint64_t stamp);

/* HOST, COMM.PID */
bool is_host_name(const char *name);
bool is_folder_name(const char *name);

/*
 * A snapshot on its way to its name where files without one are not to be had, or to the place of an older
 * one: .TIME.tmp.PID, .TIME.snap.tmp.PID, each also with -N for those of one time or PID (base/draft.h).
 */
bool draft_name_parse(const char *name, pid_t *ret_writer);

/* What store_check() tries out whether a directory can be written to with. */
bool trial_name_parse(const char *name, pid_t *ret_writer);

#endif
