// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/reason.h"

#define NOTES_MORE 1000 /* notes since the last look that make another one */

static const char *const outcome_names[] = {
	[OUTCOME_PUSHED] = "pushed", [OUTCOME_REJECTED] = "rejected", [OUTCOME_GIVEN_UP] = "given-up",
};

struct push_queue {
	char *folder, *note_path;
	int note_fd; /* -1: there is no folder yet */
	struct strpool done; /* paths below the folder */
	size_t done_most;    /* when there are more, those whose files are gone are looked for */
	bool has_warned;     /* of a folder in it that cannot be read */
	struct snapshot_file *waiting; /* by the moments in their names, or else when they were written */
	size_t waiting_nr, waiting_alloc;
};

/* ---- notes ------------------------------------------------------------------------------------------ */

/* The same in every build: FNV-1a, 64 bits. */
static uint64_t url_id(const char *url)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *url; url++)
		hash = (hash ^ (unsigned char)*url) * 0x100000001b3;
	return hash;
}

/* "pushed host/4711-redis/1.snap"; a line that a crash cut off has no path of a snapshot. */
static int read_note(struct push_queue *queue, const char *line)
{
	const char *path = strchr(line, ' ');
	uint32_t id;

	return path ? strpool_add(&queue->done, path + 1, strcspn(path + 1, "\n"), &id) : 0;
}

/* Whether a file below the folder may be there: a folder that cannot be read now hides its files. */
static bool may_exist(const struct push_queue *queue, const char *path)
{
	char full[PATH_MAX];
	int len = snprintf(full, sizeof(full), "%s/%.*s", queue->folder, (int)strcspn(path, "\n"), path);

	return len < PATH_MAX && (!faccessat(AT_FDCWD, full, F_OK, AT_SYMLINK_NOFOLLOW) ||
				  (errno != ENOENT && errno != ENOTDIR));
}

static bool has_gone_notes(const struct push_queue *queue)
{
	for (size_t id = 1; id < queue->done.start_nr; id++)
		if (!may_exist(queue, strpool_get(&queue->done, id)))
			return true;
	return false;
}

/* Reads all notes from the file's beginning. copy: gets those whose files may be there, and only these are read. */
static int read_notes(struct push_queue *queue, FILE *copy)
{
	int fd = fcntl(queue->note_fd, F_DUPFD_CLOEXEC, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	size_t room = 0;
	char *line = NULL;
	int err = file ? 0 : -errno;

	if (file)
		rewind(file); /* of all duplicates of the descriptor */
	while (!err && getline(&line, &room, file) > 0) {
		if (copy && (!strchr(line, ' ') || !may_exist(queue, strchr(line, ' ') + 1)))
			continue;
		err = read_note(queue, line);
		if (copy)
			fputs(line, copy);
	}
	if (!err && file && ferror(file))
		err = -EIO;
	free(line);
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return err;
}

/* Writes the notes anew into a file of another name, which is locked before it gets the name. */
static int rewrite_notes(struct push_queue *queue, const char *draft)
{
	int fd = open(draft, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *copy = fd < 0 ? NULL : fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 0), "w");
	struct strpool before = queue->done;
	int err = copy ? 0 : -errno;

	queue->done = (struct strpool){};
	if (!err && flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	err = err ?: read_notes(queue, copy);
	if (copy && fclose(copy) && !err)
		err = -errno;
	if (!err && (fdatasync(fd) || rename(draft, queue->note_path)))
		err = -errno;
	if (err) {
		strpool_release(&queue->done);
		queue->done = before;
		if (fd >= 0)
			close(fd);
		return err;
	}
	strpool_release(&before);
	close(queue->note_fd);
	queue->note_fd = fd;
	return 0;
}

/*
 * Forgets the notes of files that are gone: when the folder is opened, and then each time when there are twice as many
 * notes, and NOTES_MORE. If that fails, all stay.
 */
static void forget_gone(struct push_queue *queue)
{
	char *draft;

	if (queue->done.start_nr <= queue->done_most)
		return;
	if (has_gone_notes(queue) && asprintf(&draft, "%s~", queue->note_path) >= 0) {
		if (rewrite_notes(queue, draft))
			unlink(draft);
		free(draft);
	}
	queue->done_most = 2 * queue->done.start_nr + NOTES_MORE;
}

/* Between open() and flock() another process may have put a new file in its place. */
static bool is_still_named(int fd, const char *path)
{
	struct stat opened, named;

	return !fstat(fd, &opened) && S_ISREG(opened.st_mode) && !lstat(path, &named) &&
	       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* Only the folder's owner and root may add notes, so no link of another user is followed. */
static int open_notes(struct push_queue *queue, struct reason *why)
{
	int fd = open(queue->note_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	int err;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return reason_set(why, -errno, "%s: %s: it notes what was pushed", queue->note_path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) || !is_still_named(fd, queue->note_path)) {
		close(fd);
		return reason_set(why, -EBUSY, "%s: another process pushes this folder to this URL", queue->note_path);
	}
	queue->note_fd = fd;
	err = read_notes(queue, NULL);
	if (err) {
		close(fd);
		queue->note_fd = -1;
		return reason_set(why, err, "%s: %s", queue->note_path, strerror(-err));
	}
	forget_gone(queue);
	return 0;
}

/* ---- the folder ------------------------------------------------------------------------------------- */

static const char *path_below(const struct push_queue *queue, const char *path)
{
	path += strlen(queue->folder);
	return path + (*path == '/');
}

static bool was_pushed(const struct push_queue *queue, const char *path)
{
	const char *below = path_below(queue, path);

	return strpool_find(&queue->done, below, strlen(below)) != IDMAP_NONE;
}

static uint64_t written_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0 ? 0 : (uint64_t)st->st_mtim.tv_sec * SECOND_NS + st->st_mtim.tv_nsec;
}

/* A folder below that may not be read, such as lost+found, has no snapshots of ours. */
static int skip_unreadable(struct push_queue *queue, const char *path, int err)
{
	if (is_gone_error(err))
		return 0;
	if (err != -EACCES)
		return err;
	if (!queue->has_warned)
		log_line(LOG_WARNING, "push: %s: %s: left out", path, strerror(EACCES));
	queue->has_warned = true;
	return 0;
}

static int add_waiting(struct push_queue *queue, const struct archive_entry *entry)
{
	struct snapshot_file waiting = {};
	struct stat st;
	int err = archive_entry_stat(entry, &st);

	if (err)
		return skip_unreadable(queue, entry->path, err);
	if (was_pushed(queue, entry->path))
		return 0;
	if (!moment_parse(entry->name, &waiting.moment))
		waiting.moment.wall_ns = written_ns(&st);
	waiting.path = strdup(entry->path);
	err = waiting.path ? array_push(queue, waiting, waiting) : -ENOMEM;
	if (err)
		free(waiting.path);
	return err;
}

static int visit_queued(void *queue_, const struct archive_entry *entry)
{
	struct push_queue *queue = queue_;

	if (entry->depth && (*entry->name == '.' || strchr(entry->name, '\n')))
		return WALK_PASS_OVER;
	if (entry->kind == WALK_UNREADABLE)
		return skip_unreadable(queue, entry->path, entry->err);
	return entry->kind == WALK_FILE && is_snapshot_name(entry->name) ? add_waiting(queue, entry) : 0;
}

static void release_waiting(struct snapshot_file *waiting, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(waiting[i].path);
	free(waiting);
}

/* Counts what waited before and is neither there nor done. */
static uint64_t count_vanished(const struct snapshot_file *before, size_t nr)
{
	uint64_t vanished = 0;

	for (size_t i = 0; i < nr; i++)
		vanished += access(before[i].path, F_OK) && errno == ENOENT;
	return vanished;
}

int push_queue__scan(struct push_queue *queue, uint64_t *ret_vanished, struct reason *why)
{
	struct snapshot_file *before = queue->waiting;
	size_t before_nr = queue->waiting_nr;
	int err = queue->note_fd < 0 ? open_notes(queue, why) : 0;

	if (err)
		return err;
	queue->waiting = NULL;
	queue->waiting_nr = queue->waiting_alloc = 0;
	err = queue->note_fd < 0 ? 0 : archive_walk(queue->folder, visit_queued, queue); /* < 0: there is no folder yet */
	if (err == -ENOENT)
		err = 0;
	*ret_vanished = count_vanished(before, before_nr);
	release_waiting(before, before_nr);
	if (queue->note_fd >= 0 && !err)
		forget_gone(queue);
	err = err ?: snapshot_rows_sort(queue->waiting, queue->waiting_nr, sizeof(*queue->waiting), false);
	return err ? reason_set(why, err, "%s: %s", queue->folder, strerror(-err)) : 0;
}

size_t push_queue__nr(const struct push_queue *queue)
{
	return queue->waiting_nr;
}

const char *push_queue__path(const struct push_queue *queue, size_t at)
{
	return queue->waiting[at].path;
}

/* A disk that is full may take the first bytes of a line: they go again, or the next line would go on from there. */
static int append_note(const struct push_queue *queue, const char *outcome, const char *below)
{
	struct stat before;
	char line[PATH_MAX + sizeof("given-up \n")];
	int err, len = snprintf(line, sizeof(line), "%s %s\n", outcome, below);

	if (len >= (int)sizeof(line))
		return -ENAMETOOLONG;
	if (fstat(queue->note_fd, &before))
		return -errno;
	errno = ENOSPC; /* of a part of it */
	if (write(queue->note_fd, line, len) == len && !fdatasync(queue->note_fd))
		return 0;
	err = -errno;
	return ftruncate(queue->note_fd, before.st_size) ? -errno : err;
}

int push_queue__note(struct push_queue *queue, size_t at, enum push_outcome outcome, struct reason *why)
{
	const char *below = path_below(queue, queue->waiting[at].path);
	uint32_t id;
	int err = strpool_add(&queue->done, below, strlen(below), &id);

	err = err ?: append_note(queue, outcome_names[outcome], below);
	free(queue->waiting[at].path);
	memmove(&queue->waiting[at], &queue->waiting[at + 1], (--queue->waiting_nr - at) * sizeof(*queue->waiting));
	return err ? reason_set(why, err, "%s: %s", queue->note_path, strerror(-err)) : 0;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

struct push_queue *push_queue__open(const char *folder, const char *url, struct reason *why)
{
	struct push_queue *queue = calloc(1, sizeof(*queue));
	size_t len = strlen(folder);
	int err = queue ? 0 : -ENOMEM;

	while (len > 1 && folder[len - 1] == '/')
		len--;
	if (!err) {
		queue->note_fd = -1;
		queue->folder = strndup(folder, len);
		if (!queue->folder || asprintf(&queue->note_path, "%s/.push-%016" PRIx64, queue->folder, url_id(url)) < 0) {
			queue->note_path = NULL;
			err = -ENOMEM;
		}
	}
	if (err)
		reason_set(why, err, "out of memory");
	else
		err = open_notes(queue, why);
	if (!err)
		return queue;
	push_queue__close(queue);
	errno = -err;
	return NULL;
}

void push_queue__close(struct push_queue *queue)
{
	if (!queue)
		return;
	release_waiting(queue->waiting, queue->waiting_nr);
	strpool_release(&queue->done);
	if (queue->note_fd >= 0)
		close(queue->note_fd);
	free(queue->folder);
	free(queue->note_path);
	free(queue);
}
