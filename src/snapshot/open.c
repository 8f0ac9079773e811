// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Opens a snapshot: the file is read into memory, once, and not mapped.
 *
 * The owner of a mapped file can still change it. If the owner truncates it meanwhile, this process
 * dies of SIGBUS. If the owner writes to it after the checks, ids are used that were never checked
 * (MAP_PRIVATE does not help: pages that this process did not write follow the file). Snapshots
 * come from untrusted users and hosts, so the bytes that are checked must be the bytes that are
 * used.
 *
 * The copy is cheap. It goes to huge pages, block by block, and each block is added to the checksum
 * while it is still in the cache. So nothing is read twice for its checksum. For a big file two
 * threads each read every other section.
 */
#include "snapshot/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK_BYTES (1 << 20)

/* The source of a file's bytes: a descriptor, or memory (fd -1). */
struct source {
	int fd;
	char *bytes; /* all bytes; those from a descriptor are valid once they were read */
	XXH3_state_t *sum;
	_Atomic uint64_t *read_nr; /* bytes, by all threads */
	const struct progress *progress;
};

/* Returns a descriptor or a negative errno. Never blocks, even for a FIFO or a device. */
static int open_snapshot_file(struct snap_reading *r, const char *path, struct file_version *ret_stamp)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int err = 0;

	if (fd < 0)
		return snap_system_error(r, -errno);
	if (fstat(fd, &st))
		err = snap_system_error(r, -errno);
	else if (S_ISDIR(st.st_mode))
		err = snap_system_error(r, -EISDIR);
	else if (!S_ISREG(st.st_mode))
		err = reason_set(r->why, -EINVAL, "%s: not a regular file", r->name);
	if (err) {
		close(fd);
		return err;
	}
	r->len = st.st_size;
	*ret_stamp = file_version_of(&st);
	return fd;
}

static int read_at(const struct snap_reading *r, int fd, void *bytes, uint64_t from, uint64_t len)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t got = pread(fd, (char *)bytes + done, len - done, from + done);

		if (got < 0 && errno != EINTR)
			return snap_system_error(r, -errno);
		if (!got)
			return snap_damaged(r, 0, "it shrank while it was read");
		done += got > 0 ? got : 0;
	}
	return 0;
}

/* Ensures that the bytes [from, to) are in source->bytes. */
static int fetch(const struct snap_reading *r, const struct source *source, uint64_t from,
		 uint64_t to)
{
	if (source->fd < 0)
		return 0;
	return read_at(r, source->fd, source->bytes + from, from, to - from);
}

static int read_gap(const struct snap_reading *r, const struct source *source, uint32_t type,
		    uint64_t from, uint64_t to)
{
	return fetch(r, source, from, to) ?:
	       snap_check_gap(r, type, source->bytes + from, to - from);
}

static int read_snapshot_section(const struct snap_reading *r, const struct source *source,
				 const struct snap_section *section)
{
	uint64_t end = section->offset + section->size, next;

	XXH3_64bits_reset(source->sum);
	for (uint64_t at = section->offset; at < end; at = next) {
		int err;

		next = end - at > BLOCK_BYTES ? at + BLOCK_BYTES : end;
		err = fetch(r, source, at, next);
		if (err)
			return err;
		XXH3_64bits_update(source->sum, source->bytes + at, next - at);
		progress_show(source->progress, atomic_fetch_add(source->read_nr, next - at) + next - at);
	}
	return snap_check_sum(r, section, XXH3_64bits_digest(source->sum));
}

/* The lowest offset of section number i: the end of the section before it, or of the table. */
static uint64_t end_before(const struct snap_reading *r, uint32_t i)
{
	if (!i)
		return sizeof(r->header) + r->header.section_nr * sizeof(*r->table);
	return r->table[i - 1].offset + r->table[i - 1].size;
}

/* A thread's share: every section, or every other one, with its own checksum and reason. */
struct share {
	struct snap_reading r;
	struct reason why;
	struct source source;
	XXH3_state_t sum;
	uint32_t at, step; /* at: the current section; at the end the one that failed */
	int err;
};

static void read_share(void *share_)
{
	struct share *share = share_;
	const struct snap_reading *r = &share->r;

	for (; share->at < r->header.section_nr; share->at += share->step) {
		const struct snap_section *section = &r->table[share->at];

		share->err = read_gap(r, &share->source, section->type, end_before(r, share->at),
				      section->offset) ?:
			     read_snapshot_section(r, &share->source, section);
		if (share->err)
			return;
	}
}

static void share_init(struct share *share, const struct snap_reading *r, const struct source *source)
{
	share->r = *r;
	share->r.why = &share->why;
	share->source = *source;
	share->source.sum = &share->sum;
	share->err = 0;
}

/* Reports the error that comes first in the file. */
static int share_result(const struct share *share, const struct share *other,
			const struct snap_reading *r)
{
	const struct share *first = other->err && (!share->err || other->at < share->at) ?
				    other : share;

	return first->err ? reason_set(r->why, first->err, "%s", first->why.text) : 0;
}

#define WORTH_A_THREAD (8 << 20) /* bytes */

static int read_sections(const struct snap_reading *r, const struct source *source)
{
	bool in_two = r->len >= WORTH_A_THREAD && processor_nr() > 1;
	struct progress progress = progress_begin("reading", NULL, r->len);
	_Atomic uint64_t read_nr = 0;
	const struct source shown = { source->fd, source->bytes, NULL, &read_nr, &progress };
	struct share even, odd;

	share_init(&even, r, &shown);
	share_init(&odd, r, &shown);
	even.step = odd.step = in_two ? 2 : 1;
	even.at = 0;
	odd.at = in_two ? 1 : r->header.section_nr;
	if (in_two)
		run_both(read_share, &even, &odd);
	else
		read_share(&even);
	progress_end(&progress);
	return share_result(&even, &odd, r) ?:
	       read_gap(r, source, 0, end_before(r, r->header.section_nr), r->len);
}

/* Reads bytes from the start of the file to a separate place. */
static int fetch_start(const struct snap_reading *r, const struct source *source, void *to,
		       uint64_t from, uint64_t len)
{
	if (source->fd >= 0)
		return read_at(r, source->fd, to, from, len);
	if (len)
		memcpy(to, source->bytes + from, len);
	return 0;
}

/*
 * Checks the header before anything else is read: a file that is no snapshot costs little, however
 * large it is. The table is used only after it was checked.
 */
static int read_start(struct snap_reading *r, const struct source *source)
{
	size_t len = r->len < sizeof(r->header) ? r->len : sizeof(r->header);
	int err = fetch_start(r, source, &r->header, 0, len) ?: snap_check_start(r) ?:
		  snap_check_table_size(r);

	return err ?: fetch_start(r, source, r->table, sizeof(r->header),
				  r->header.section_nr * sizeof(*r->table)) ?:
	       snap_check_layout(r);
}

/* Reads a small file at once: the cache holds all of it. */
static int read_small(const struct snap_reading *r, struct source *source)
{
	int fd = source->fd;

	if (fd < 0 || r->len > BLOCK_BYTES)
		return 0;
	source->fd = -1;
	return read_at(r, fd, source->bytes, 0, r->len);
}

static int read_rest_of_snapshot(struct snap_reading *r, const struct source *from, struct snapshot *s)
{
	struct source source = *from;
	int err;

	if (source.fd >= 0) {
		source.bytes = huge_pages_new(r->len);
		s->memory[0] = (struct snap_memory){ source.bytes, r->len };
	}
	err = source.bytes ? read_small(r, &source) ?: read_sections(r, &source) :
			     snap_system_error(r, -ENOMEM);
	return err ?: snap_unpack(r, source.bytes, s) ?: snap_expand(r, s) ?:
	       snap_check_tables(r, s);
}

static bool is_head_section(const struct snap_section *section)
{
	return section->type == SNAP_METADATA || section->type == SNAP_STRING_START ||
	       section->type == SNAP_STRING_BYTES;
}

/* Memory that is not read into costs nothing. The table keeps the sections of the head only. */
static int read_head_of_snapshot(struct snap_reading *r, const struct source *from, struct snapshot *s)
{
	struct source source = { .fd = from->fd, .bytes = huge_pages_new(r->len) };
	int err = source.bytes ? 0 : snap_system_error(r, -ENOMEM);
	uint32_t kept = 0;

	s->memory[0] = (struct snap_memory){ source.bytes, r->len };
	for (uint32_t i = 0; i < r->header.section_nr && !err; i++) {
		const struct snap_section section = r->table[i];
		const char *bytes = source.bytes + section.offset;

		if (!is_head_section(&section))
			continue;
		err = fetch(r, &source, section.offset, section.offset + section.size) ?:
		      snap_check_sum(r, &section, snap_checksum(bytes, section.size));
		r->table[kept++] = section;
	}
	r->header.section_nr = kept;
	return err ?: snap_unpack(r, source.bytes, s) ?: snap_check_head(r, s);
}

typedef int (*read_part_fn)(struct snap_reading *r, const struct source *from, struct snapshot *s);

static int open_source(struct snap_reading *r, const struct source *source, read_part_fn read_part,
		       struct snapshot **ret)
{
	struct snapshot *snapshot;
	int err = read_start(r, source);

	if (err)
		return err;
	snapshot = calloc(1, sizeof(*snapshot));
	err = snapshot ? read_part(r, source, snapshot) : snap_system_error(r, -ENOMEM);
	if (err)
		snapshot__close(snapshot);
	else
		*ret = snapshot;
	return err;
}

static struct snapshot *open_part(const char *path, read_part_fn read_part, struct reason *why)
{
	struct snap_reading r = { .why = why };
	struct source source = { 0 };
	struct snapshot *snapshot = NULL;
	struct file_version stamp;
	int err = 0;

	clean_path(r.name, sizeof(r.name), path);
	source.fd = open_snapshot_file(&r, path, &stamp);
	err = source.fd < 0 ? source.fd : open_source(&r, &source, read_part, &snapshot);
	if (!err) {
		snapshot->is_of_file = true;
		snapshot->file = stamp;
	}
	if (source.fd >= 0)
		close(source.fd);
	if (err)
		errno = -err;
	return snapshot;
}

struct snapshot *snapshot__open(const char *path, struct reason *why)
{
	return open_part(path, read_rest_of_snapshot, why);
}

struct snapshot *snap_open_head(const char *path, struct reason *why)
{
	return open_part(path, read_head_of_snapshot, why);
}

struct snapshot *snapshot__open_memory(const void *bytes, size_t len, struct reason *why)
{
	struct snap_reading r = { .name = "snapshot", .why = why, .len = len };
	struct source source = { .fd = -1, .bytes = (char *)bytes };
	struct snapshot *snapshot = NULL;
	int err;

	if ((uintptr_t)bytes % SNAP_ALIGN)
		err = reason_set(why, -EINVAL, "%s: not aligned in memory", r.name);
	else
		err = open_source(&r, &source, read_rest_of_snapshot, &snapshot);
	if (err)
		errno = -err;
	return snapshot;
}
