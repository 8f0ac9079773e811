// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/moment.h"
#include "base/reason.h"
#include "base/units.h"

#define BLOCK_BYTES 512 /* the unit of st_blocks */
#define NAMES_MAX 320
#define EMPTY_FOR_SECONDS 60 /* a recorder may be about to write into a younger folder */
#define MS_NS 1000000ULL
#define HOUR_MS 3600000
#define SAY_EVERY_NS (3600 * SECOND_NS)
#define WORK_NS (2 * SECOND_NS) /* the recorder must not wait for longer */

struct archived {
	struct moment moment; /* its name */
	struct folder *folder;
	uint32_t blocks;
};

/* DIR/HOST/COMM.PID, or DIR/HOST, which stays when it is empty. */
struct folder {
	struct folder *host; /* NULL: it is one */
	const char *name;
	uint32_t nr;	  /* snapshots, or folders of processes */
	uint32_t blocks;  /* of the folder itself */
	uint32_t seen_in; /* the last removal that passed its first snapshot */
	struct moment newest;
};

/* Kinds of events that are counted for the log. */
enum news_kind {
	NEWS_OLD,
	NEWS_TOO_MUCH,
	NEWS_LEFTOVERS,
	NEWS_STUCK,
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
	void *folders; /* a tree (tsearch) of struct folder, by host and name */
	size_t process_nr;
	uint64_t blocks; /* of everything */
	uint32_t removal_nr;

	struct keep_clock keep_clock;
	bool is_ahead; /* it is reported that the clock is ahead */

	uint64_t removed; /* snapshots since it was opened */
	struct lost_last lost_last; /* not reported yet */
	struct news news[NEWS_NR];
	int remove_err; /* the last reported error of removing */
};

/* ---- the log --------------------------------------------------------------------------------- */

static void add_news(struct archive *archive, enum news_kind kind, uint64_t nr, uint64_t bytes)
{
	archive->news[kind].nr += nr;
	archive->news[kind].bytes += bytes;
}

#define NAME_ROOM 80 /* ", ", a name whose 15 bytes may all be \xNN, and a PID */

void archive__note_lost_last(struct archive *archive, const char *comm, pid_t pid)
{
	struct lost_last *lost = &archive->lost_last;
	size_t len = strlen(lost->names);
	char clean[64];

	lost->nr++;
	if (lost->named_nr + 1 < lost->nr || len + NAME_ROOM > sizeof(lost->names))
		return;
	snprintf(lost->names + len, sizeof(lost->names) - len, "%s%s (%d)", len ? ", " : "",
		 clean_text(clean, sizeof(clean), comm), (int)pid);
	lost->named_nr++;
}

static void log_lost_last(struct lost_last *lost)
{
	char others[64] = "";

	if (lost->nr > lost->named_nr)
		snprintf(others, sizeof(others), " and %zu more", lost->nr - lost->named_nr);
	if (lost->nr)
		log_info("last snapshots that could not be written: %s%s", lost->names, others);
	*lost = (struct lost_last){};
}

/* Arguments: number, plural, bytes, limit. */
static const char *const news_text[NEWS_NR] = {
	[NEWS_OLD] = "removed %" PRIu64 " snapshot%s (%s) older than --keep allows",
	[NEWS_TOO_MUCH] = "removed %" PRIu64 " snapshot%s (%s) to stay within --max-disk %s",
	[NEWS_LEFTOVERS] = "removed %" PRIu64 " unfinished file%s (%s) of a recording that was killed",
	[NEWS_STUCK] = "%" PRIu64 " snapshot%s (%s) may not be removed: no longer counted",
};

static void log_news(struct archive *archive)
{
	uint64_t now = monotonic_now_ns();
	char bytes[UNIT_TEXT_MAX], most[UNIT_TEXT_MAX];

	log_lost_last(&archive->lost_last);
	format_size(most, archive->bounds.max_disk_bytes, false);
	for (int kind = 0; kind < NEWS_NR; kind++) {
		struct news *news = &archive->news[kind];

		if (!news->nr || (kind != NEWS_LEFTOVERS && news->said_ns && now - news->said_ns < SAY_EVERY_NS))
			continue;
		format_size(bytes, news->bytes, false);
		log_info(news_text[kind], news->nr, news->nr == 1 ? "" : "s", bytes, most);
		*news = (struct news){ .said_ns = now };
	}
}

/* ---- folders in memory ----------------------------------------------------------------------- */

static int compare_folders(const void *a, const void *b)
{
	const struct folder *left = a, *right = b;

	if (left->host != right->host)
		return left->host < right->host ? -1 : 1;
	return strcmp(left->name, right->name);
}

/* Adds the folder if it is new. Returns NULL if there is no memory. */
static struct folder *get_folder(struct archive *archive, struct folder *host, const char *name)
{
	struct folder key = { .host = host, .name = name };
	struct folder *folder, **found = tsearch(&key, &archive->folders, compare_folders);

	if (!found || *found != &key)
		return found ? *found : NULL;
	folder = malloc(sizeof(*folder) + strlen(name) + 1);
	if (!folder) {
		tdelete(&key, &archive->folders, compare_folders);
		return NULL;
	}
	key.name = strcpy((char *)(folder + 1), name);
	*folder = key;
	*found = folder;
	if (host) {
		host->nr++;
		archive->process_nr++;
	}
	return folder;
}

/* Folders take disk space, too, and grow. */
static void set_folder_blocks(struct archive *archive, struct folder *folder, uint64_t blocks)
{
	archive->blocks += blocks - folder->blocks;
	folder->blocks = blocks;
}

static void forget_folder(struct archive *archive, struct folder *folder)
{
	set_folder_blocks(archive, folder, 0);
	if (folder->host) {
		folder->host->nr--;
		archive->process_nr--;
	}
	tdelete(folder, &archive->folders, compare_folders);
	free(folder);
}

/* ---- snapshots in memory --------------------------------------------------------------------- */

static int add_archived(struct archive *archive, struct folder *folder, const struct moment *moment, uint64_t blocks)
{
	struct archived item = { *moment, folder, blocks < UINT32_MAX ? blocks : UINT32_MAX };
	int step = boot_clocks_add(&archive->clocks, moment);
	int err = step < 0 ? step : array_push(archive, item, item);

	if (err)
		return err;
	if (step || (archive->item_nr > 1 &&
		     moment_compare(&archive->item[archive->item_nr - 2].moment, moment, &archive->clocks) > 0))
		archive->is_unordered = true;
	folder->nr++;
	folder->newest = *moment; /* unless it is_unordered now */
	archive->blocks += item.blocks;
	return 0;
}

static uint64_t archived_time_ms(const struct archive *archive, const struct archived *item)
{
	return moment_time_ns(&item->moment, &archive->clocks) / 1000000;
}

/* Discounts a snapshot that is gone; the caller removes its row. Returns true if the folder is empty. */
static bool forget_archived(struct archive *archive, const struct archived *item)
{
	archive->blocks -= item->blocks;
	return !--item->folder->nr;
}

static int compare_archived_folders(const void *a, const void *b)
{
	const struct archived *left = a, *right = b;

	return compare_folders(left->folder, right->folder);
}

/* Puts the snapshots in order. Returns 0 or -ENOMEM. */
static int sort_archived(struct archive *archive)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct archived),
		.compare_rest = compare_archived_folders,
	};
	int err = archive->is_unordered ? moments_sort(archive->item, archive->item_nr, &order) : 0;

	if (err || !archive->is_unordered)
		return err;
	for (size_t i = 0; i < archive->item_nr; i++)
		archive->item[i].folder->newest = archive->item[i].moment;
	archive->is_unordered = false;
	return 0;
}

static void forget_all_archived(struct archive *archive)
{
	tdestroy(archive->folders, free);
	archive->folders = NULL;
	archive->item_nr = archive->process_nr = 0;
	archive->blocks = 0;
	archive->is_unordered = false;
	boot_clocks_release(&archive->clocks);
}

/* ---- reading the directory ------------------------------------------------------------------- */

struct scan {
	struct archive *archive;
	const char *own_host;
	bool is_own;	/* the host is this one */
	struct folder *host, *folder; /* that are read */
	size_t left_nr; /* leftovers that were removed from the folder */
};

/* Whether the process has the file open; also true if that cannot be known. */
static bool has_open(pid_t pid, const struct stat *file)
{
	char path[32];
	struct stat st;
	struct dirent *entry;
	bool is_open = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	if (!fds)
		return errno != ENOENT || access("/proc/self", F_OK);
	while (!is_open && (entry = readdir(fds)))
		is_open = !fstatat(dirfd(fds), entry->d_name, &st, 0) &&
			  st.st_dev == file->st_dev && st.st_ino == file->st_ino;
	closedir(fds);
	return is_open;
}

/* Removes leftovers of this host only: on another host the PID would be another process's. */
static bool remove_leftover(struct scan *scan, const struct archive_entry *entry)
{
	bool is_trial = entry->depth == 1;
	struct stat st;
	pid_t writer;

	if (!(is_trial ? trial_name_parse : atomic_file_name_parse)(entry->name, &writer) ||
	    !(is_trial || scan->is_own) || archive_entry_stat(entry, &st) || (is_trial && st.st_size) ||
	    has_open(writer, &st) || unlinkat(entry->dir_fd, entry->name, 0))
		return false;
	scan->left_nr++;
	add_news(scan->archive, NEWS_LEFTOVERS, 1, st.st_blocks * BLOCK_BYTES);
	return true;
}

static int scan_file(struct scan *scan, const struct archive_entry *entry)
{
	struct moment moment;
	struct stat st;

	if (entry->depth == 2 || remove_leftover(scan, entry) || entry->depth == 1)
		return 0;
	if (!moment_parse(entry->name, &moment) || archive_entry_stat(entry, &st))
		return 0;
	return add_archived(scan->archive, scan->folder, &moment, st.st_blocks);
}

/* A folder that cannot be opened later is not ours. */
static int enter_scanned(struct scan *scan, const struct archive_entry *entry)
{
	if (entry->depth == 1 && archive_is_host_name(entry->name)) {
		scan->is_own = !strcmp(entry->name, scan->own_host);
		scan->host = get_folder(scan->archive, NULL, entry->name);
		return scan->host ? 0 : -ENOMEM;
	}
	if (entry->depth == 2 && archive_is_folder_name(entry->name)) {
		scan->left_nr = 0;
		scan->folder = get_folder(scan->archive, scan->host, entry->name);
		return scan->folder ? 0 : -ENOMEM;
	}
	return entry->depth ? WALK_PASS_OVER : 0;
}

/* Counts a folder that has snapshots. Removes one of a process if it is left over. */
static int leave_scanned(struct scan *scan, const struct archive_entry *entry)
{
	struct folder *folder = entry->depth == 1 ? scan->host : scan->folder;
	struct archive *archive = scan->archive;
	struct stat st;
	bool is_there = entry->fd >= 0 && !fstat(entry->fd, &st);

	if (!entry->depth) {
		if (!is_there)
			return -errno;
		archive->blocks += st.st_blocks;
		archive->device = st.st_dev;
		archive->inode = st.st_ino;
		return 0;
	}
	if (folder->nr) {
		if (is_there)
			set_folder_blocks(archive, folder, st.st_blocks);
		return 0;
	}
	forget_folder(archive, folder);
	if (entry->depth == 2 && is_there && (scan->left_nr || st.st_mtime + EMPTY_FOR_SECONDS < time(NULL)))
		unlinkat(entry->dir_fd, entry->name, AT_REMOVEDIR); /* it stays if it holds anything */
	return 0;
}

static int visit_archived(void *scan_, const struct archive_entry *entry)
{
	struct scan *scan = scan_;

	switch (entry->kind) {
	case WALK_FOLDER:
		return enter_scanned(scan, entry);
	case WALK_LEFT:
		return leave_scanned(scan, entry);
	case WALK_FILE:
		return scan_file(scan, entry);
	case WALK_UNREADABLE:
		return entry->depth ? 0 : entry->err;
	default:
		return 0;
	}
}

/* Returns 0, or a negative errno; then only a part of the directory is known. */
static int scan_archive(struct archive *archive)
{
	char host[HOST_NAME_BYTES];
	struct scan scan = { .archive = archive, .own_host = host };
	int err;

	clean_file_name(own_host_name(host));
	forget_all_archived(archive);
	archive->is_stale = true;
	err = archive_walk(archive->dir, visit_archived, &scan);
	if (err)
		return err;
	archive->is_stale = false;
	return sort_archived(archive);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void begin_clock(struct archive *archive)
{
	size_t nr = archive->item_nr;

	keep_clock_begin(&archive->keep_clock, nr ? archived_time_ms(archive, &archive->item[nr - 1]) : 0,
			 clock_now_ns(CLOCK_REALTIME) / MS_NS, clock_now_ns(CLOCK_BOOTTIME) / MS_NS);
}

struct archive *archive__open(const char *dir, const struct archive_bounds *bounds,
			      struct reason *why)
{
	struct archive *archive = calloc(1, sizeof(*archive));
	int err = -ENOMEM;
	char clean[200];

	if (archive) {
		archive->bounds = *bounds;
		archive->dir = strdup(dir);
		err = archive->dir ? scan_archive(archive) : -ENOMEM;
	}
	if (!err) {
		begin_clock(archive);
		log_news(archive);
		return archive;
	}
	archive__close(archive);
	reason_set(why, err, "cannot read the directory %s: %s",
		   clean_path(clean, sizeof(clean), dir), strerror(-err));
	errno = -err;
	return NULL;
}

void archive__close(struct archive *archive)
{
	if (!archive)
		return;
	forget_all_archived(archive);
	free(archive->item);
	free(archive->dir);
	free(archive);
}

/* ---- new snapshots --------------------------------------------------------------------------- */

/* Counts a folder again: a new file may have made it larger. */
static void count_folder(struct archive *archive, struct folder *folder, const char *path)
{
	struct stat st;

	if (!stat(path, &st))
		set_folder_blocks(archive, folder, st.st_blocks);
}

static int add_saved_file(struct archive *archive, const char *path, const char *folder_path, const char *host_path)
{
	const char *name = path_name(folder_path), *host_name = path_name(host_path);
	struct folder *host, *folder;
	struct stat file;
	struct moment moment;
	int err;

	if (stat(path, &file) || !archive_is_host_name(host_name) || !archive_is_folder_name(name) ||
	    !moment_parse(path_name(path), &moment))
		return 0;
	host = get_folder(archive, NULL, host_name);
	folder = host ? get_folder(archive, host, name) : NULL;
	err = folder ? add_archived(archive, folder, &moment, file.st_blocks) : -ENOMEM;
	if (err)
		return err;
	count_folder(archive, host, host_path);
	count_folder(archive, folder, folder_path);
	return 0;
}

void archive__add_saved(struct archive *archive, const char *path)
{
	char *folder = folder_of_path(path), *host = folder ? folder_of_path(folder) : NULL;

	if (!archive->is_stale && (!host || add_saved_file(archive, path, folder, host)))
		archive->is_stale = true;
	free(host);
	free(folder);
}

/* ---- the clock ------------------------------------------------------------------------------- */

void keep_clock_begin(struct keep_clock *clock, uint64_t newest_ms, uint64_t wall_ms, uint64_t boot_ms)
{
	*clock = (struct keep_clock){
		.wall_ms = wall_ms,
		.boot_ms = boot_ms,
		.time_ms = newest_ms && newest_ms < wall_ms ? newest_ms : wall_ms,
		.ahead_boot_ms = boot_ms,
	};
}

uint64_t keep_clock_look(struct keep_clock *clock, uint64_t keep_ms, uint64_t wall_ms, uint64_t boot_ms)
{
	uint64_t passed_ms = boot_ms - clock->boot_ms;

	if (wall_ms > clock->wall_ms + passed_ms + KEEP_CLOCK_STEP_MS)
		clock->ahead_boot_ms = boot_ms;
	clock->wall_ms = wall_ms;
	clock->boot_ms = boot_ms;
	clock->time_ms += passed_ms;
	if (wall_ms <= clock->time_ms + KEEP_CLOCK_STEP_MS || boot_ms - clock->ahead_boot_ms >= keep_ms)
		clock->time_ms = wall_ms;
	return clock->time_ms;
}

/* ---- removing a snapshot --------------------------------------------------------------------- */

/* In this order. */
enum removal {
	REMOVE_OLD,
	REMOVE_BETWEEN, /* neither the first nor the newest one of its process */
	REMOVE_FIRST,
	REMOVE_NEWEST,
	REMOVAL_NR,
};

struct remover {
	struct archive *archive;
	enum removal step;
	uint64_t oldest_ms; /* earlier snapshots are too old */
	uint64_t end_ns; /* when it must stop */
	int dir_fd;
};

/* The error concerns this file only: the next one can often be removed. */
static bool is_stuck_error(int err)
{
	return err == -EPERM || err == -EACCES || err == -EBUSY || err == -EISDIR;
}

/* Removes a name from a folder, or the folder itself. Returns 0 or a negative errno. */
static int remove_below(const struct remover *remover, const struct folder *folder, const char *name)
{
	int host_fd = archive_open_folder(remover->dir_fd, folder->host->name), fd = host_fd, err;

	if (host_fd >= 0 && name)
		fd = archive_open_folder(host_fd, folder->name);
	err = fd < 0 ? fd : unlinkat(fd, name ?: folder->name, name ? 0 : AT_REMOVEDIR) ? -errno : 0;
	if (fd >= 0 && fd != host_fd)
		close(fd);
	if (host_fd >= 0)
		close(host_fd);
	return err;
}

/* Returns 0 if the archive no longer has the snapshot. */
static int remove_snapshot(const struct remover *remover, const struct archived *item)
{
	struct archive *archive = remover->archive;
	uint64_t bytes = (uint64_t)item->blocks * BLOCK_BYTES;
	char name[MOMENT_NAME_MAX];
	int err = remove_below(remover, item->folder, moment_name(name, &item->moment));

	if (err && !is_stuck_error(err) && !is_gone_error(err))
		return err;
	if (!err) {
		archive->removed++;
		add_news(archive, remover->step == REMOVE_OLD ? NEWS_OLD : NEWS_TOO_MUCH, 1, bytes);
	} else if (is_stuck_error(err)) {
		add_news(archive, NEWS_STUCK, 1, bytes);
	}
	if (!forget_archived(archive, item))
		return 0;
	/* A folder that holds anything else stays, and is no longer the archive's. */
	remove_below(remover, item->folder, NULL);
	forget_folder(archive, item->folder);
	return 0;
}

/* ---- which snapshots are removed ------------------------------------------------------------- */

static bool is_over_limit(const struct archive *archive)
{
	uint64_t most = archive->bounds.max_disk_bytes;

	return most && archive->blocks * BLOCK_BYTES > most;
}

static bool is_removal_needed(const struct remover *remover, const struct archived *item)
{
	return remover->step == REMOVE_OLD ? archived_time_ms(remover->archive, item) < remover->oldest_ms :
					     is_over_limit(remover->archive);
}

/* Asked of all snapshots, the oldest first. */
static bool is_due(const struct remover *remover, const struct archived *item)
{
	struct folder *folder = item->folder;
	bool is_newest = !moment_compare(&item->moment, &folder->newest, NULL);
	bool is_first = remover->step == REMOVE_BETWEEN && folder->seen_in != remover->archive->removal_nr;

	if (remover->step == REMOVE_BETWEEN)
		folder->seen_in = remover->archive->removal_nr;
	return remover->step == REMOVE_OLD || remover->step == REMOVE_NEWEST || !(is_first || is_newest);
}

/*
 * Removes due items, the oldest first, while that is needed and there is time, and closes the gaps. An item whose
 * removal failed stays.
 */
static int remove_due_items(struct remover *remover)
{
	struct archive *archive = remover->archive;
	struct archived *item = archive->item;
	size_t kept = 0, i = 0;
	int err = 0;

	for (; i < archive->item_nr && is_removal_needed(remover, &item[i]) &&
	       monotonic_now_ns() < remover->end_ns; i++) {
		if (!is_due(remover, &item[i])) {
			item[kept++] = item[i];
			continue;
		}
		err = remove_snapshot(remover, &item[i]);
		if (err)
			break;
	}
	if (kept < i)
		memmove(&item[kept], &item[i], (archive->item_nr - i) * sizeof(*item));
	archive->item_nr -= i - kept;
	return err;
}

/* Returns 0, or a negative errno if the file system refuses removals. */
static int remove_beyond(struct archive *archive, uint64_t time_ms)
{
	uint64_t keep_ms = archive->bounds.keep_ns / MS_NS;
	struct remover remover = {
		.archive = archive,
		.dir_fd = open(archive->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.oldest_ms = keep_ms && keep_ms < time_ms ? time_ms - keep_ms : 0,
		.end_ns = monotonic_now_ns() + WORK_NS,
	};
	int err = 0;

	if (remover.dir_fd < 0)
		return -errno;
	archive->removal_nr++;
	for (; remover.step < REMOVAL_NR && !err; remover.step++)
		err = remove_due_items(&remover);
	close(remover.dir_fd);
	return err;
}

/* ---- making room ----------------------------------------------------------------------------- */

/* Another directory may be at that path now, or reading it may have failed before. */
static int check_directory(struct archive *archive)
{
	struct stat st;

	if (stat(archive->dir, &st))
		return -errno;
	if (!archive->is_stale && st.st_dev == archive->device && st.st_ino == archive->inode)
		return sort_archived(archive);
	return scan_archive(archive);
}

static void report_remove_failure(struct archive *archive, int err)
{
	if (err && err != archive->remove_err)
		log_info("cannot remove old snapshots from %.200s: %s", archive->dir, strerror(-err));
	archive->remove_err = err;
}

/* Reports a clock that is so far ahead that all snapshots would be too old. */
static void report_clock_ahead(struct archive *archive, uint64_t keep_ms)
{
	uint64_t wall_ms = archive->keep_clock.wall_ms, time_ms = archive->keep_clock.time_ms;
	bool is_ahead = keep_ms && wall_ms - time_ms >= keep_ms;

	if (is_ahead && !archive->is_ahead)
		log_info("no snapshots for %.1f h, or the clock was set forward: --keep does not count these hours",
			 (wall_ms - time_ms) * 1.0 / HOUR_MS);
	archive->is_ahead = is_ahead;
}

static uint64_t read_keep_clock(struct archive *archive)
{
	uint64_t keep_ms = archive->bounds.keep_ns / MS_NS;
	uint64_t time_ms = keep_clock_look(&archive->keep_clock, keep_ms, clock_now_ns(CLOCK_REALTIME) / MS_NS,
					   clock_now_ns(CLOCK_BOOTTIME) / MS_NS);

	report_clock_ahead(archive, keep_ms);
	return time_ms;
}

void archive__make_room(struct archive *archive)
{
	int err = check_directory(archive);

	if (!err && (archive->bounds.keep_ns || is_over_limit(archive)))
		err = remove_beyond(archive, read_keep_clock(archive));
	report_remove_failure(archive, err);
	log_news(archive);
}

void archive__get_totals(const struct archive *archive, struct archive_totals *ret)
{
	*ret = (struct archive_totals){
		.bytes = archive->blocks * BLOCK_BYTES,
		.snapshots = archive->item_nr,
		.processes = archive->process_nr,
		.removed = archive->removed,
	};
}

