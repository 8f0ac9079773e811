/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_ARCHIVE_H
#define ALLOCSNAP_ARCHIVE_ARCHIVE_H

/*
 * The folder of a recording that never ends, kept within bounds.
 *
 *	DIR/HOST/COMM.PID/20261121T031500.123Z.snap
 *
 * Only what is named like this, and is a regular file in folders that are no links, is the archive's: other
 * files are neither counted nor touched. Snapshots are removed whole (unlink, nothing is truncated), and
 * only under the name that they have here: a file that has been linked elsewhere stays there.
 *
 *	archive = archive__open(dir, &bounds, &why);
 *	for (each pass) {
 *		archive__make_room(archive);
 *		for (each process)
 *			if (collector__save(…, &path, &why))
 *				archive__lost(archive, err, &why);
 *			else
 *				archive__saved(archive, path);
 *		archive__make_room(archive);
 *		while ((note = archive__next_note(archive)))
 *			…
 *	}
 *	archive__close(archive);
 *
 * What goes first, in this order, until the bounds hold:
 *
 *	1. what is older than keep_ns, by the time in its name; a clock that is set forward makes nothing
 *	   old at once (keep_clock.h)
 *	2. every second snapshot of the processes that have most, from the oldest on, but the first
 *	   and the newest of each: so what is kept lies the further apart the older it is
 *	3. the first ones
 *	4. the newest ones, the oldest of them first, and the folders with them
 *
 * The directory is read when it is opened, and again where another one has come to lie at that path (a disk
 * that was mounted). In memory a snapshot is 16 bytes, a process 100 at most.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;

/* 0: there is no such bound. */
struct archive_bounds {
	uint64_t max_disk_bytes; /* as du counts: what files and their folders take of the disk */
	uint64_t keep_ns;
};

struct archive_totals {
	uint64_t bytes, snapshots, processes; /* there now */
	uint64_t removed, removed_bytes; /* since it was opened */
	uint64_t lost;			 /* snapshots that could not be written */
};

struct archive;

/*
 * dir must be there. Removes what a recording on this host left when it was killed: files without
 * a final name whose writer is gone, folders without a file. NULL and errno, with a line in *why.
 */
struct archive *archive__open(const char *dir, const struct archive_bounds *bounds,
			      struct reason *why);

/* NULL is allowed. The files stay. */
void archive__close(struct archive *archive);

/* A snapshot has been written; path as collector__save() has it. */
void archive__saved(struct archive *archive, const char *path);

/*
 * One could not be. What is wrong (why, which may be NULL) becomes a note when it begins; another
 * one says how many were lost when a pass, which ends with archive__make_room(), has none that fails.
 */
void archive__lost(struct archive *archive, int err, const struct reason *why);

/*
 * And it was the last one of its process: nothing that comes later has what is in it. The next note names
 * those, the first ones if they are many.
 */
void archive__lost_last(struct archive *archive, const char *comm, pid_t pid);

/*
 * Removes what is too much, for two seconds at most: of a directory that had been far beyond the bounds when
 * it was opened the next calls remove the rest. Does next to nothing where nothing is too much; may be
 * called after each snapshot.
 */
void archive__make_room(struct archive *archive);

/* Bytes that can still be written there, by whoever: the file system's. 0 where that is not known. */
uint64_t archive__free_bytes(const struct archive *archive);

void archive__get_totals(const struct archive *archive, struct archive_totals *ret);

/*
 * What should be told: a line that the caller frees, or NULL. What has been removed is told when it
 * begins, and then once an hour.
 */
char *archive__next_note(struct archive *archive);

#endif
