// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Decides which snapshots to remove, in which order, and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "archive/archive_private.h"

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
	char name[MOMENT_NAME_MAX];
	int err = open_snapshot_folder(remover, item->folder);

	if (!err && unlinkat(remover->folder_fd, moment_name(name, &item->moment), 0))
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
	return archived_time_ms(remover->archive, item) < remover->oldest_ms;
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

static bool is_newest(const struct archive *archive, const struct archived *item)
{
	return !moment_compare(&item->moment, &archive->folder[item->folder].newest, NULL);
}

/* Neither the first snapshot of its process nor the newest. Asked of all snapshots, the oldest first. */
static bool is_between(const struct remover *remover, const struct archived *item)
{
	struct folder *folder = &remover->archive->folder[item->folder];
	bool is_first = !folder->is_seen;

	folder->is_seen = true;
	return !is_first && !is_newest(remover->archive, item);
}

static bool is_not_newest(const struct remover *remover, const struct archived *item)
{
	return !is_newest(remover->archive, item);
}

static bool is_late(const struct remover *remover)
{
	return monotonic_now_ns() >= remover->end_ns;
}

/*
 * Removes due items, the oldest first, while that is needed and there is time, and closes the gaps. An item whose
 * removal failed stays.
 */
static int remove_due_items(struct remover *remover, enum news_kind kind, judge_fn is_needed, judge_fn is_due)
{
	struct archive *archive = remover->archive;
	struct archived *item = archive->item;
	size_t kept = 0, i = 0;
	int err = 0;

	remover->kind = kind;
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
	return err;
}

/* ---- the order ------------------------------------------------------------------------------- */

static int remove_all_due(struct remover *remover, uint64_t time_ms)
{
	struct archive *archive = remover->archive;
	uint64_t keep_ms = archive->bounds.keep_ns / 1000000;

	remover->oldest_ms = keep_ms && keep_ms < time_ms ? time_ms - keep_ms : 0;
	for (size_t i = 0; i < archive->folder_nr; i++)
		archive->folder[i].is_seen = false;
	return remove_due_items(remover, NEWS_OLD, is_too_old, allow_any) ?:
	       remove_due_items(remover, NEWS_TOO_MUCH, is_too_much, is_between) ?:
	       remove_due_items(remover, NEWS_TOO_MUCH, is_too_much, is_not_newest) ?:
	       remove_due_items(remover, NEWS_TOO_MUCH, is_too_much, allow_any);
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
