// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Decides which snapshots to remove, in which order, and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/retention/private.h"

#define WORK_NS (2 * SECOND_NS) /* the recorder must not wait for longer */

/* The folder of the last snapshot stays open: the next snapshot is often in the same folder. */
struct remover {
	struct archive *archive;
	uint64_t oldest_ms; /* earlier snapshots are too old */
	uint64_t end_ns; /* when it must stop */
	enum news_kind kind;
	int dir_fd, folder_fd;
	uint32_t folder;
};

/* ---- one snapshot ---------------------------------------------------------------------------- */

static bool is_one_of(int err, const int *errs, size_t nr)
{
	while (nr--)
		if (errs[nr] == -err)
			return true;
	return false;
}

/* The file, or its folder, is gone, or is something else now. */
static bool is_gone_error(int err)
{
	static const int errs[] = { ENOENT, ENOTDIR, ELOOP };

	return is_one_of(err, errs, ARRAY_SIZE(errs));
}

/* The error concerns this file only: the next one can often be removed. */
static bool is_stuck_error(int err)
{
	static const int errs[] = { EPERM, EACCES, EBUSY, EISDIR };

	return is_one_of(err, errs, ARRAY_SIZE(errs));
}

static void close_folder(struct remover *remover)
{
	if (remover->folder_fd >= 0)
		close(remover->folder_fd);
	remover->folder_fd = -1;
}

static int open_snapshot_folder(struct remover *remover, uint32_t id)
{
	const struct archive *archive = remover->archive;
	const struct folder *folder = &archive->folder[id];
	int host_fd;

	if (remover->folder_fd >= 0 && remover->folder == id)
		return 0;
	close_folder(remover);
	host_fd = open_folder_below(remover->dir_fd, archive->host[folder->host].name);
	if (host_fd < 0)
		return host_fd;
	remover->folder_fd = open_folder_below(host_fd, folder->name);
	remover->folder = id;
	close(host_fd);
	return remover->folder_fd < 0 ? remover->folder_fd : 0;
}

/* A folder that holds anything else stays, and is no longer the archive's. */
static void remove_folder(struct remover *remover, uint32_t id)
{
	struct archive *archive = remover->archive;
	const struct host *host = &archive->host[archive->folder[id].host];
	int host_fd = open_folder_below(remover->dir_fd, host->name);

	close_folder(remover);
	if (host_fd >= 0) {
		unlinkat(host_fd, archive->folder[id].name, AT_REMOVEDIR);
		close(host_fd);
	}
	archive_forget_folder(archive, id);
}

static void count_removed_snapshot(struct remover *remover, const struct archived *item)
{
	uint64_t bytes = (uint64_t)item->blocks * BLOCK_BYTES;

	remover->archive->totals.removed++;
	remover->archive->totals.removed_bytes += bytes;
	archive_add_news(remover->archive, remover->kind, 1, bytes);
}

/* Returns 0 if the archive no longer has the snapshot. */
static int remove_snapshot(struct remover *remover, const struct archived *item)
{
	char name[STAMP_TEXT_MAX];
	int err = open_snapshot_folder(remover, item->folder);

	if (!err && unlinkat(remover->folder_fd, stamp_text(name, item->stamp), 0))
		err = -errno;
	if (is_stuck_error(err))
		archive_add_news(remover->archive, NEWS_STUCK, 1, (uint64_t)item->blocks * BLOCK_BYTES);
	else if (!err)
		count_removed_snapshot(remover, item);
	else if (!is_gone_error(err))
		return err;
	if (archive_forget(remover->archive, item))
		remove_folder(remover, item->folder);
	return 0;
}

/* ---- which ones ------------------------------------------------------------------------------ */

static bool is_over_limit(const struct archive *archive)
{
	uint64_t most = archive->bounds.max_disk_bytes;

	return most && archive->blocks * BLOCK_BYTES > most;
}

typedef bool (*judge_fn)(const struct remover *remover, const struct archived *item);

static bool is_too_old(const struct remover *remover, const struct archived *item)
{
	return stamp_ms(item->stamp) < remover->oldest_ms;
}

static bool is_too_much(const struct remover *remover, const struct archived *item)
{
	(void)item;
	return is_over_limit(remover->archive);
}

static bool allow_any(const struct remover *remover, const struct archived *item)
{
	(void)remover, (void)item;
	return true;
}

/*
 * Chooses every second snapshot of each process that has more than half as many as the largest had. The first one
 * stays, unless the newest is the only other one.
 */
static bool is_second(const struct remover *remover, const struct archived *item)
{
	const struct sweep *sweep = &remover->archive->sweep;
	struct folder *folder = &remover->archive->folder[item->folder];
	bool is_due;

	if (item->stamp == folder->newest || folder->nr <= sweep->most / 2)
		return false;
	if (folder->sweep != sweep->nr) {
		folder->sweep = sweep->nr;
		folder->is_due = folder->nr == 2;
	}
	is_due = folder->is_due;
	folder->is_due = !is_due;
	return is_due;
}

static bool is_late(const struct remover *remover)
{
	return monotonic_now_ns() >= remover->end_ns;
}

/*
 * Removes due items from index `from` on, while that is needed and there is time, and closes the gaps. *ret_next is
 * the first item that was not looked at. An item whose removal failed stays, and is that one.
 */
static int remove_due_items(struct remover *remover, size_t from, judge_fn is_needed, judge_fn is_due,
			    size_t *ret_next)
{
	struct archive *archive = remover->archive;
	struct archived *item = archive->item;
	size_t kept = from, i = from;
	int err = 0;

	for (; i < archive->item_nr && is_needed(remover, &item[i]) && !is_late(remover); i++) {
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
	*ret_next = kept;
	return err;
}

/* ---- the order ------------------------------------------------------------------------------- */

static uint32_t most_of_one(const struct archive *archive)
{
	uint32_t most = 0;

	for (size_t i = 0; i < archive->folder_nr; i++)
		if (archive->folder[i].host != FOLDER_GONE && archive->folder[i].nr > most)
			most = archive->folder[i].nr;
	return most;
}

static size_t index_of(const struct archive *archive, const struct archived *wanted)
{
	size_t low = 0, high = archive->item_nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (archived_order(&archive->item[middle], wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Continues from where the last sweep stopped to the newest snapshot, then starts from the oldest with a new `most`. */
static int thin_snapshots(struct remover *remover)
{
	struct archive *archive = remover->archive;
	struct sweep *sweep = &archive->sweep;
	int err = 0;

	while (is_over_limit(archive) && !is_late(remover) && !err) {
		size_t next = index_of(archive, &sweep->from);

		if (next == archive->item_nr || sweep->most < 2) {
			*sweep = (struct sweep){ .nr = sweep->nr + 1, .most = most_of_one(archive) };
			next = 0;
		}
		if (sweep->most < 2)
			break;
		err = remove_due_items(remover, next, is_too_much, is_second, &next);
		sweep->from = next < archive->item_nr ? archive->item[next] :
							(struct archived){ .stamp = UINT64_MAX };
	}
	return err;
}

static int remove_all_due(struct remover *remover, uint64_t time_ms)
{
	struct archive *archive = remover->archive;
	uint64_t keep_ms = archive->bounds.keep_ns / 1000000;
	size_t next;
	int err = 0;

	remover->oldest_ms = keep_ms && keep_ms < time_ms ? time_ms - keep_ms : 0;
	remover->kind = NEWS_OLD;
	err = remove_due_items(remover, 0, is_too_old, allow_any, &next);
	remover->kind = NEWS_THINNED;
	if (!err)
		err = thin_snapshots(remover);
	return err ?: remove_due_items(remover, 0, is_too_much, allow_any, &next);
}

int archive_remove(struct archive *archive, uint64_t time_ms)
{
	struct remover remover = {
		.archive = archive,
		.dir_fd = archive_open_dir(archive),
		.folder_fd = -1,
		.end_ns = monotonic_now_ns() + WORK_NS,
	};
	int err;

	if (remover.dir_fd < 0)
		return remover.dir_fd;
	err = remove_all_due(&remover, time_ms);
	close_folder(&remover);
	close(remover.dir_fd);
	return err;
}
