/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_ARCHIVE_PRIVATE_H
#define ALLOCSNAP_ARCHIVE_ARCHIVE_PRIVATE_H

#include <stddef.h>
#include <sys/types.h>

#include "archive/archive.h"
#include "archive/names.h"
#include "archive/write_errors.h"
#include "base/array.h"
#include "base/idmap.h"
#include "base/moment.h"

#define BLOCK_BYTES 512 /* the unit of st_blocks */
#define SAID_MAX 544 /* a struct reason and some words */
#define NAMES_MAX 320

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

/* newest_ms: the time of the newest snapshot; 0: there is none. */
void keep_clock_begin(struct keep_clock *clock, uint64_t newest_ms, uint64_t wall_ms, uint64_t boot_ms);

/* boot_ms is from a clock that is never set, and that goes on while the machine sleeps. Returns time_ms. */
uint64_t keep_clock_look(struct keep_clock *clock, uint64_t keep_ms, uint64_t wall_ms, uint64_t boot_ms);

struct archived {
	struct moment moment; /* its name */
	uint32_t folder;
	uint32_t blocks;
};

/* DIR/HOST; the row stays when the folder is empty. */
struct host {
	char *name;
	uint32_t blocks; /* of the folder itself */
};

#define FOLDER_GONE UINT32_MAX

/* DIR/HOST/COMM.PID */
struct folder {
	char name[FOLDER_NAME_MAX];
	uint32_t host; /* index in archive->host; FOLDER_GONE: the folder was removed */
	uint32_t nr;   /* snapshots */
	uint32_t blocks; /* of the folder itself */
	struct moment newest;
	bool is_seen; /* while removing: its first snapshot was passed */
};

/* Kinds of events that are counted for notes. */
enum news_kind {
	NEWS_OLD,
	NEWS_TOO_MUCH,
	NEWS_LEFTOVERS,
	NEWS_STUCK,
	NEWS_OVER,
	NEWS_NR,
};

struct news {
	uint64_t nr, bytes;
	uint64_t said_ns; /* when it was last reported; 0: never */
};

/* Processes whose last snapshots could not be written. */
struct lost_last {
	char names[NAMES_MAX]; /* of the first of these processes */
	size_t named_nr, nr;
};

struct archive {
	char *dir;
	struct archive_bounds bounds;
	dev_t device; /* of the directory that was read */
	ino_t inode;
	bool is_stale; /* it must be read again */

	struct archived *item; /* oldest first, unless is_unordered */
	size_t item_nr, item_alloc;
	bool is_unordered; /* then folder.newest is not known either */
	struct boot_clocks clocks;
	struct folder *folder;
	size_t folder_nr, folder_alloc;
	size_t gone_nr; /* folders that were removed */
	struct idmap folder_ids;
	struct host *host;
	size_t host_nr, host_alloc;
	uint64_t blocks; /* of everything, with dir_blocks */
	uint64_t dir_blocks; /* of DIR itself */

	struct keep_clock keep_clock;
	bool is_ahead; /* it is reported that the clock is ahead */

	struct archive_totals totals; /* removed, removed_bytes and lost */
	struct write_errors write_errors;
	struct lost_last lost_last; /* not reported yet */
	struct news news[NEWS_NR];
	char said[SAID_MAX]; /* the last failure; "": nothing new */
	int remove_err; /* the last reported error of removing */
};

/* ---- archive_table.c: the snapshots in memory ---- */

/* Returns the folder's id, or a negative errno. */
int64_t archive_get_folder(struct archive *archive, const char *host, const char *name);

int archive_add(struct archive *archive, uint32_t folder, const struct moment *moment, uint64_t blocks);

/* The time by which a snapshot is ordered and grows old. */
uint64_t archived_time_ms(const struct archive *archive, const struct archived *item);

/* Sets a folder's own blocks: folders take disk space, too, and grow. */
void archive_set_folder_blocks(struct archive *archive, uint32_t folder, uint64_t blocks);
void archive_set_host_blocks(struct archive *archive, uint32_t host, uint64_t blocks);

/* Discounts a snapshot that is gone; the caller removes its row. Returns true if the folder is empty. */
bool archive_forget(struct archive *archive, const struct archived *item);

/* Marks a folder as gone. */
void archive_forget_folder(struct archive *archive, uint32_t folder);

/*
 * Sorts the snapshots, and reuses the rows of folders that are gone, which changes ids. Returns 0 or -ENOMEM.
 */
int archive_tidy(struct archive *archive);

/* Forgets all snapshots and folders. */
void archive_forget_all(struct archive *archive);

/* ---- archive_scan.c, archive_remove.c ---- */

/* Reads the directory. Returns 0, or a negative errno; then only a part of the directory is known. */
int archive_scan(struct archive *archive);

/* Open folders that are no links. Return a descriptor or a negative errno. */
int archive_open_dir(const struct archive *archive);
int open_folder_below(int dir_fd, const char *name);

/* Removes snapshots until the bounds hold. Returns 0, or a negative errno if the file system refuses removals. */
int archive_remove(struct archive *archive, uint64_t time_ms);

static inline void archive_add_news(struct archive *archive, enum news_kind kind, uint64_t nr, uint64_t bytes)
{
	archive->news[kind].nr += nr;
	archive->news[kind].bytes += bytes;
}

#endif
