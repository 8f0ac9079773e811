// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads one file, in any thread: opens and checks it, adds up its rows and looks them up. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "fleet/index_private.h"

/* Whether a file that snapshot__open() rejects begins as a snapshot does. */
static bool begins_as_snapshot(const char *path)
{
	char magic[sizeof(SNAP_MAGIC) - 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool is_one;

	if (fd < 0)
		return false;
	is_one = pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
		 !memcmp(magic, SNAP_MAGIC, sizeof(magic));
	close(fd);
	return is_one;
}

/* found->why has the line of snapshot__open(). */
static void not_opened(struct found *found, const char *path, int err)
{
	found->is_gone = err == ENOENT || err == ENOTDIR || err == EISDIR;
	if (err == EBADMSG || err == ENOTSUP)
		found->problem = begins_as_snapshot(path) ? INDEX_DAMAGED : INDEX_FOREIGN;
	else if (!found->is_gone)
		found->problem = INDEX_UNREADABLE;
}

static int add_up_snapshot(struct index_reading *reading, struct found *found)
{
	const struct snapshot *snapshot = reading->digest.snapshot;
	int err = found_rows(found, reading);

	found->gap_blocks = (struct cost){};
	if (err || !snapshot__tables(snapshot)->gap_nr)
		return err;
	return snapshot_gap_blocks(snapshot, &(struct engine_options){}, &found->gap_blocks, &found->why);
}

static int read_snapshot(struct index_reading *reading, const char *path, struct found *found)
{
	struct reason line;
	int err = found_facts(found, reading->digest.snapshot, path) ?: add_up_snapshot(reading, found);

	if (!err || err == -ENOMEM || found->problem)
		return err;
	line = found->why;
	found->problem = INDEX_DAMAGED;
	return reason_set(&found->why, err, "%s: %s", path, line.text);
}

int index_read(struct index_reading *reading, const char *path, struct found *found)
{
	struct snapshot *snapshot = snapshot__open(path, &found->why);
	int err;

	if (!snapshot) {
		not_opened(found, path, errno);
		return 0;
	}
	reading->digest.snapshot = snapshot;
	err = read_snapshot(reading, path, found);
	snapshot__close(snapshot);
	reading->digest.snapshot = NULL;
	return err == -ENOMEM ? err : 0;
}

void index_reading_release(struct index_reading *reading)
{
	digest_release(&reading->digest);
	fleet_rows_release(&reading->room);
	free(reading->frame_at);
}
