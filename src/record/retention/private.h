/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_PRIVATE_H
#define ALLOCSNAP_ARCHIVE_PRIVATE_H

#include <stddef.h>
#include <sys/types.h>

#include "record/retention/archive.h"
#include "record/retention/keep_clock.h"
#include "record/retention/names.h"
#include "record/retention/outage.h"
#include "base/array.h"
#include "base/idmap.h"

#define BLOCK_BYTES 512 /* of st_blocks */
#define SAID_MAX 544 /* a struct reason, and words */
#define NAMES_MAX 320

struct archived {
	uint64_t stamp; /* its name */
	uint32_t folder;
	uint32_t blocks;
};

/* DIR/HOST; it stays when it is empty. */
struct host {
	char *name;
	uint32_t blocks; /* of its own */
};

#define FOLDER_GONE UINT32_MAX

/* DIR/HOST/COMM.PID */
struct folder {
	char name[FOLDER_NAME_MAX];
	uint32_t host; /* in archive->host; FOLDER_GONE: it has been removed */
	uint32_t nr;   /* snapshots */
	uint64_t newest;
	uint32_t blocks; /* of its own */
	uint32_t sweep : 31; /* that has come by last */
	uint32_t is_due : 1; /* it takes the next one */
};

/* Every second snapshot of those that have most; it goes on where it was when the bounds held. */
struct sweep {
	uint32_t nr;
	uint32_t most; /* snapshots that a process had when it began */
	struct archived from; /* the first that it has not come by */
};

/* What there is to tell of one kind. */
enum news_kind {
	NEWS_OLD,
	NEWS_THINNED,
	NEWS_LEFTOVERS,
	NEWS_STUCK,
	NEWS_OVER,
	NEWS_NR,
};

struct news {
	uint64_t nr, bytes;
	uint64_t said_ns; /* 0: not yet */
};

/* Processes whose last snapshots could not be written. */
struct lost_last {
	char names[NAMES_MAX]; /* of the first of them */
	size_t named_nr, nr;
};

struct archive {
	char *dir;
	struct archive_bounds bounds;
	dev_t device; /* of the directory that was read */
	ino_t inode;
	bool is_stale; /* it is to be read again */

	struct archived *item; /* in the order of time, unless: */
	size_t item_nr, item_alloc;
	bool is_unordered;
	struct folder *folder;
	size_t folder_nr, folder_alloc;
	size_t gone_nr; /* of these */
	struct idmap folder_ids;
	struct host *host;
	size_t host_nr, host_alloc;
	uint64_t blocks; /* of all, with dir_blocks */
	uint64_t dir_blocks; /* of DIR itself */
	struct sweep sweep;

	struct keep_clock keep_clock;
	bool is_ahead; /* told that the clock is */

	struct archive_totals totals; /* removed and lost */
	struct outage outage;
	struct lost_last lost_last; /* not told yet */
	struct news news[NEWS_NR];
	char said[SAID_MAX]; /* of what went wrong; "": nothing new */
	int remove_err; /* what has been told of removing */
};

/* ---- table.c: what is known of the directory ---- */

/* The folder's id, or a negative errno. */
int64_t archive_folder(struct archive *archive, const char *host, const char *name);

int archive_add(struct archive *archive, uint32_t folder, uint64_t stamp, uint64_t blocks);

/* Folders take blocks, too, and ever more. */
void archive_set_folder_blocks(struct archive *archive, uint32_t folder, uint64_t blocks);
void archive_set_host_blocks(struct archive *archive, uint32_t host, uint64_t blocks);

/* One that is not there any more; its row stays until the caller takes it out. True: the folder is empty. */
bool archive_forget(struct archive *archive, const struct archived *item);

/* The folder is not there any more. */
void archive_forget_folder(struct archive *archive, uint32_t folder);

/* In the order of time; rows of folders that are gone are used again. Ids change. 0 or -ENOMEM. */
int archive_tidy(struct archive *archive);

/* As archive->item is sorted. */
int archived_order(const void *a, const void *b);

/* Nothing is known. */
void archive_forget_all(struct archive *archive);

/* ---- scan.c, remove.c ---- */

/* Reads the directory; 0 or a negative errno, and then what is known is a part of what is there. */
int archive_scan(struct archive *archive);

/* Folders that are no links; a descriptor or a negative errno. */
int archive_open_dir(const struct archive *archive);
int open_folder_below(int dir_fd, const char *name);

/* Until the bounds hold. 0, or a negative errno where the file system lets nothing be removed. */
int archive_remove(struct archive *archive, uint64_t time_ms);

static inline void add_news(struct archive *archive, enum news_kind kind, uint64_t nr, uint64_t bytes)
{
	archive->news[kind].nr += nr;
	archive->news[kind].bytes += bytes;
}

#endif
