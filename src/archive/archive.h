/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_ARCHIVE_H
#define ALLOCSNAP_ARCHIVE_ARCHIVE_H

/*
 * The folder of a recording that never ends, kept within bounds.
 *
 *	DIR/HOST/COMM.PID/20261121T031500.123Z.6f3c21aa.86400123.snap
 *
 * The archive owns the regular files with such names, in folders that are no links. It neither counts nor touches
 * other files. Snapshots are removed whole (unlink, nothing is truncated), and
 * only under the name that they have here: a file that has been linked elsewhere stays there.
 *
 *	archive = archive__open(dir, &bounds, &why);
 *	for (each pass) {
 *		archive__make_room(archive);
 *		for (each process)
 *			if (!collector__save(…, &path, &why))
 *				archive__add_saved(archive, path);
 *		archive__make_room(archive);
 *	}
 *	archive__close(archive);
 *
 * Snapshots are removed in this order, until the bounds hold:
 *
 *	1. snapshots older than keep_ns, by the times in their names; a clock that is set forward makes none
 *	   old at once (struct keep_clock)
 *	2. the oldest snapshots, except the first and the newest of each process
 *	3. the first snapshots of processes
 *	4. the newest snapshots of processes, the oldest of them first, and the folders with them
 *
 * The directory is read when it is opened, and again if another directory is at that path later (a mounted
 * disk). In memory a snapshot takes 40 bytes, a process 130 at most.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;

/* 0: no such limit. */
struct archive_bounds {
	uint64_t max_disk_bytes; /* disk space of the files and their folders, as du counts it */
	uint64_t keep_ns;
};

struct archive_totals {
	uint64_t bytes, snapshots, processes; /* there now */
	uint64_t removed; /* since it was opened */
};

struct archive;

/*
 * dir must exist. Removes what a killed recording on this host has left: files without a final name whose writer is
 * gone, and folders without a file. Returns NULL and errno, with a line in *why.
 */
struct archive *archive__open(const char *dir, const struct archive_bounds *bounds,
			      struct reason *why);

/* NULL is allowed. The files stay. */
void archive__close(struct archive *archive);

/* Adds a snapshot that was written; path is from collector__save(). */
void archive__add_saved(struct archive *archive, const char *path);

/*
 * Notes that the last snapshot of a process could not be written: no later snapshot has its content. The next
 * archive__make_room() logs the names of such processes, only the first ones if they are many.
 */
void archive__note_lost_last(struct archive *archive, const char *comm, pid_t pid);

/*
 * Removes what exceeds the bounds, for two seconds at most. If the directory was far beyond the bounds when it was
 * opened, the next calls remove the rest. It costs next to nothing if nothing exceeds them, so it may be called after
 * each snapshot. Logs removals when they begin, and then once an hour.
 */
void archive__make_room(struct archive *archive);

void archive__get_totals(const struct archive *archive, struct archive_totals *ret);

/* ---- the clock ---- */

/*
 * The clock by which snapshots grow old. A wall clock that is set forward by a year makes every snapshot too old at
 * once, and a removal cannot be undone. So if the wall clock is ahead of the newest snapshot (at the start), or of
 * the time that has passed (later), this clock goes on from there for keep_ms. By then each earlier snapshot is
 * really that old, and the wall clock counts again. A wall clock that is set back counts at once. Snapshots can only
 * stay longer by this, never shorter.
 */

#define KEEP_CLOCK_STEP_MS 60000 /* a smaller difference is no step: clocks are corrected, recorders restarted */

struct keep_clock {
	uint64_t wall_ms, boot_ms; /* at the last look */
	uint64_t time_ms;	   /* the time by which snapshots grow old */
	uint64_t ahead_boot_ms;	   /* when the wall clock was last set forward, by boot_ms */
};

/* newest_ms: the time of the newest snapshot; 0: the archive has no snapshot. */
void keep_clock_begin(struct keep_clock *clock, uint64_t newest_ms, uint64_t wall_ms, uint64_t boot_ms);

/* boot_ms is from a clock that is never set, and that goes on while the machine sleeps. Returns time_ms. */
uint64_t keep_clock_look(struct keep_clock *clock, uint64_t keep_ms, uint64_t wall_ms, uint64_t boot_ms);

#endif
