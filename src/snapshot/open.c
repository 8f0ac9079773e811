// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Opening a snapshot: the file is read into memory, once, and not mapped.
 *
 * A mapped file stays its owner's: one who truncates it while we read ends us with SIGBUS, one
 * who writes to it after the checks hands us ids that were never checked (MAP_PRIVATE does not
 * help: pages that we did not write follow the file). Snapshots come from people and hosts that
 * we do not trust, so what is checked must be what is used. All of it has to be read for the
 * checksums anyway; the copy costs a fraction of that.
 */
#include "snapshot/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"

static int system_error(const struct snap_reading *r, int err)
{
	return reason_set(r->why, err, "%s: %s", r->name, strerror(-err));
}

/* A descriptor or a negative errno. Never blocks: a FIFO or a device must not hold us up. */
static int open_regular(struct snap_reading *r, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int err = 0;

	if (fd < 0)
		return system_error(r, -errno);
	if (fstat(fd, &st))
		err = system_error(r, -errno);
	else if (S_ISDIR(st.st_mode))
		err = system_error(r, -EISDIR);
	else if (!S_ISREG(st.st_mode))
		err = reason_set(r->why, -EINVAL, "%s: not a regular file", r->name);
	if (err) {
		close(fd);
		return err;
	}
	r->len = st.st_size;
	return fd;
}

static int read_all(const struct snap_reading *r, int fd, void *bytes, uint64_t len)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t got = pread(fd, (char *)bytes + done, len - done, done);

		if (got < 0 && errno != EINTR)
			return system_error(r, -errno);
		if (!got)
			return snap_damaged(r, 0, "it shrank while it was read");
		done += got > 0 ? got : 0;
	}
	return 0;
}

/* The header is looked at first: what is no snapshot is not read, however large it is. */
static int read_file(struct snap_reading *r, const char *path, void **ret_bytes)
{
	struct snap_header header = { 0 };
	void *bytes = NULL;
	int fd = open_regular(r, path);
	int err;

	if (fd < 0)
		return fd;
	err = read_all(r, fd, &header, r->len < sizeof(header) ? r->len : sizeof(header)) ?:
	      snap_check_start(r, &header);
	if (err)
		goto out;
	bytes = malloc(r->len);
	err = bytes ? read_all(r, fd, bytes, r->len) : system_error(r, -ENOMEM);
	if (err)
		goto out;
	*ret_bytes = bytes;
	bytes = NULL;
out:
	free(bytes);
	close(fd);
	return err;
}

static int check(struct snap_reading *r, struct snapshot **ret)
{
	struct snap_header header = { 0 };
	struct snapshot *snapshot;
	int err;

	memcpy(&header, r->bytes, r->len < sizeof(header) ? r->len : sizeof(header));
	err = snap_check_start(r, &header) ?: snap_check_layout(r);
	if (err)
		return err;
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return system_error(r, -ENOMEM);
	err = snap_check_tables(r, snapshot);
	if (err)
		free(snapshot);
	else
		*ret = snapshot;
	return err;
}

struct snapshot *snapshot__open(const char *path, struct reason *why)
{
	struct snap_reading r = { .why = why };
	struct snapshot *snapshot = NULL;
	void *bytes = NULL;
	int err;

	snap_clean_path(r.name, path);
	err = read_file(&r, path, &bytes);
	if (!err) {
		r.bytes = bytes;
		err = check(&r, &snapshot);
	}
	if (err) {
		free(bytes);
		errno = -err;
		return NULL;
	}
	snapshot->owned = bytes;
	return snapshot;
}

struct snapshot *snapshot__open_memory(const void *bytes, size_t len, struct reason *why)
{
	struct snap_reading r = { .name = "snapshot", .why = why, .bytes = bytes, .len = len };
	struct snapshot *snapshot = NULL;
	int err;

	if ((uintptr_t)bytes % SNAP_ALIGN)
		err = reason_set(why, -EINVAL, "%s: not aligned in memory", r.name);
	else
		err = check(&r, &snapshot);
	if (err)
		errno = -err;
	return snapshot;
}

void snapshot__close(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	free(snapshot->owned);
	free(snapshot);
}
