// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "archive/archive_private.h"
#include "base/reason.h"
#include "base/units.h"

#define MS_NS 1000000ULL
#define HOUR_MS 3600000
#define SAY_EVERY_NS (3600 * SECOND_NS)

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

/* ---- opening ------------------------------------------------------------------------------------ */

static struct archive *new_archive(const char *dir, const struct archive_bounds *bounds)
{
	struct archive *archive = calloc(1, sizeof(*archive));

	if (archive)
		archive->dir = strdup(dir);
	if (archive && !archive->dir) {
		free(archive);
		return NULL;
	}
	if (archive)
		archive->bounds = *bounds;
	return archive;
}

static void begin_clock(struct archive *archive)
{
	size_t nr = archive->item_nr;

	keep_clock_begin(&archive->keep_clock, nr ? archived_time_ms(archive, &archive->item[nr - 1]) : 0,
			 clock_now_ns(CLOCK_REALTIME) / MS_NS, clock_now_ns(CLOCK_BOOTTIME) / MS_NS);
}

struct archive *archive__open(const char *dir, const struct archive_bounds *bounds,
			      struct reason *why)
{
	struct archive *archive = new_archive(dir, bounds);
	int err = archive ? archive_scan(archive) : -ENOMEM;
	char clean[200];

	if (!err) {
		begin_clock(archive);
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
	archive_forget_all(archive);
	free(archive->item);
	free(archive->folder);
	free(archive->host);
	free(archive->dir);
	free(archive);
}

/* ---- new snapshots ------------------------------------------------------------------------------ */

/* Cuts a path into its last three parts. Returns false if it has fewer. */
static bool split_path(char *path, char *ret_part[3])
{
	for (int i = 2; i >= 0; i--) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return false;
		*slash = '\0';
		ret_part[i] = slash + 1;
	}
	return true;
}

/* Counts the folders of a new file again: the file may have made them larger. */
static void count_folders(struct archive *archive, uint32_t id, char *part[3], const char *path)
{
	struct stat st;

	part[0][-1] = '/';
	if (!stat(path, &st))
		archive_set_host_blocks(archive, archive->folder[id].host, st.st_blocks);
	part[1][-1] = '/';
	if (!stat(path, &st))
		archive_set_folder_blocks(archive, id, st.st_blocks);
}

static int add_saved_file(struct archive *archive, const char *path, char *parts)
{
	struct stat file;
	struct moment moment;
	char *part[3];
	int64_t id;
	int err;

	if (stat(path, &file) || !split_path(parts, part) || !archive_is_host_name(part[0]) ||
	    !archive_is_folder_name(part[1]) || !moment_parse(part[2], &moment))
		return 0;
	id = archive_get_folder(archive, part[0], part[1]);
	err = id < 0 ? (int)id : archive_add(archive, id, &moment, file.st_blocks);
	if (err)
		return err;
	count_folders(archive, id, part, parts);
	return 0;
}

void archive__add_saved(struct archive *archive, const char *path)
{
	char *parts = strdup(path);

	outage_count_saved(&archive->write_errors);
	if (!archive->is_stale && (!parts || add_saved_file(archive, path, parts)))
		archive->is_stale = true;
	free(parts);
}

void archive__count_lost(struct archive *archive, int err, const struct reason *why)
{
	archive->totals.lost++;
	if (outage_count_lost(&archive->write_errors, err))
		snprintf(archive->said, sizeof(archive->said), "%s; the recording goes on",
			 why ? why->text : strerror(-err));
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

/* ---- removing ------------------------------------------------------------------------------- */

/* Another directory may be at that path now, or reading it may have failed before. */
static int check_directory(struct archive *archive)
{
	struct stat st;

	if (stat(archive->dir, &st))
		return -errno;
	if (!archive->is_stale && st.st_dev == archive->device && st.st_ino == archive->inode)
		return archive_tidy(archive);
	return archive_scan(archive);
}

/* A disk that cannot be written to lets nothing be removed either. Then only the failed writes are reported. */
static void report_remove_failure(struct archive *archive, int err)
{
	if (err && err != archive->remove_err && !archive->write_errors.lost)
		snprintf(archive->said, sizeof(archive->said), "cannot remove old snapshots from %.200s: %s",
			 archive->dir, strerror(-err));
	archive->remove_err = err;
}

/* Reports a clock that is so far ahead that all snapshots would be too old. */
static void report_clock_ahead(struct archive *archive, uint64_t keep_ms)
{
	uint64_t wall_ms = archive->keep_clock.wall_ms, time_ms = archive->keep_clock.time_ms;
	bool is_ahead = keep_ms && wall_ms - time_ms >= keep_ms;

	if (is_ahead && !archive->is_ahead)
		snprintf(archive->said, sizeof(archive->said),
			 "no snapshots for %.1f h, or the clock was set forward: --keep does not count these hours",
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

static bool is_needed(const struct archive *archive)
{
	uint64_t most = archive->bounds.max_disk_bytes;

	return archive->bounds.keep_ns || (most && archive->blocks * BLOCK_BYTES > most);
}

void archive__make_room(struct archive *archive)
{
	uint64_t over = write_errors_end_pass(&archive->write_errors);
	int err = check_directory(archive);

	if (over)
		archive->news[NEWS_OVER].nr = over;
	if (!err && is_needed(archive))
		err = archive_remove(archive, read_keep_clock(archive));
	report_remove_failure(archive, err);
}

/* ---- reports ---------------------------------------------------------------------------- */

void archive__get_totals(const struct archive *archive, struct archive_totals *ret)
{
	*ret = archive->totals;
	ret->bytes = archive->blocks * BLOCK_BYTES;
	ret->snapshots = archive->item_nr;
	ret->processes = archive->folder_nr - archive->gone_nr;
}

/* Arguments: number, plural, bytes, limit. */
static const char *const news_text[NEWS_NR] = {
	[NEWS_OLD] = "removed %" PRIu64 " snapshot%s (%s) older than --keep allows",
	[NEWS_TOO_MUCH] = "removed %" PRIu64 " snapshot%s (%s) to stay within --max-disk %s",
	[NEWS_LEFTOVERS] = "removed %" PRIu64 " unfinished file%s (%s) of a recording that was killed",
	[NEWS_STUCK] = "%" PRIu64 " snapshot%s (%s) may not be removed: not counted any more",
	[NEWS_OVER] = "snapshots are written again: %" PRIu64 " could not be",
};

static char *format_news(const struct archive *archive, enum news_kind kind)
{
	const struct news *news = &archive->news[kind];
	char bytes[UNIT_TEXT_MAX], most[UNIT_TEXT_MAX], *line;

	format_size(bytes, news->bytes, false);
	format_size(most, archive->bounds.max_disk_bytes, false);
	if (asprintf(&line, news_text[kind], news->nr, news->nr == 1 ? "" : "s", bytes, most) < 0)
		return NULL;
	return line;
}

static char *format_lost_last(struct lost_last *lost)
{
	char others[64] = "", *line;

	if (lost->nr > lost->named_nr)
		snprintf(others, sizeof(others), " and %zu more", lost->nr - lost->named_nr);
	if (asprintf(&line, "last snapshots that could not be written: %s%s", lost->names, others) < 0)
		line = NULL;
	*lost = (struct lost_last){};
	return line;
}

char *archive__next_note(struct archive *archive)
{
	uint64_t now = monotonic_now_ns();
	char *line = NULL;

	if (archive->said[0]) {
		line = strdup(archive->said);
		archive->said[0] = '\0';
		return line;
	}
	if (archive->lost_last.nr)
		return format_lost_last(&archive->lost_last);
	for (int kind = 0; kind < NEWS_NR && !line; kind++) {
		struct news *news = &archive->news[kind];
		bool is_rare = kind == NEWS_OVER || kind == NEWS_LEFTOVERS;

		if (!news->nr || (!is_rare && news->said_ns && now - news->said_ns < SAY_EVERY_NS))
			continue;
		line = format_news(archive, kind);
		*news = (struct news){ .said_ns = now };
	}
	return line;
}
