// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/custom_allocators.h"
#include "elf/object_facts.h"
#include "parser/parser.h"
#include "unwind/unwind_table.h"

/*
 * What is mapped stays open. A quarter of the descriptors is for what must go on when there are too
 * many: snapshots are files, too.
 */
static int keep_spare(int fd)
{
	struct rlimit limit;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd < limit.rlim_cur / 4 * 3)
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

/*
 * Opens a regular file only: opening a device or a FIFO that the target maps or names could
 * have effects. `at` was opened with O_PATH, which opens nothing yet; it is closed.
 */
static int open_regular(int at)
{
	char again[64];
	struct stat st;
	int fd = -1;

	if (at < 0)
		return -1;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	if (fstat(at, &st))
		; /* errno is set */
	else if (!S_ISREG(st.st_mode))
		errno = ENODEV;
	else
		fd = keep_spare(open(again, O_RDONLY | O_CLOEXEC));
	close(at);
	return fd;
}

static int open_mapped(const struct mapped_file *file)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, file->pid,
		 file->start, file->end);
	return open_regular(open(path, O_PATH | O_CLOEXEC));
}

/* No link in that tree leads out of it. */
static int open_below(const char *root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), at;

	if (dir < 0)
		return -1;
	at = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	close(dir);
	return open_regular(at);
}

static char *object_path(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), tail = sizeof(deleted) - 1;

	if (len > tail && !strcmp(path + len - tail, deleted))
		len -= tail;
	return strndup(path, len);
}

static void drop_facts(struct object *object)
{
	file_facts_put(object->file_facts);
	object->file_facts = NULL;
	object->facts = NULL;
}

static void object_free(struct object *object)
{
	if (!object)
		return;
	drop_facts(object);
	unwind_table__free(object->table);
	if (object->fd >= 0)
		close(object->fd);
	free(object->path);
	free(object->unreadable);
	free(object->told_build_id);
	free(object);
}

static int read_facts(struct objects *objects, struct object *object, struct reason *why)
{
	const struct custom_allocators *custom = objects->custom;
	bool wants = custom && custom_allocators_may_be_in(custom, object->path);
	const struct file_to_read file = {
		.parser = objects->parser, .fd = object->fd, .wanted = wants ? &custom->wanted : NULL,
	};
	int err = facts_store_get(&objects->facts, &file, &object->file_facts, why);

	if (!err)
		object->facts = &object->file_facts->facts;
	return err;
}

static void take_facts(struct objects *objects, struct object *object, struct reason *why)
{
	int err;

	if (object->fd < 0) {
		reason_set(why, 0, "%s", strerror(errno));
		return;
	}
	err = read_facts(objects, object, why);
	object->is_given_up = err == -EIO;
	if (object->is_given_up)
		objects_note(objects, "nothing in %s is probed: %s", object->path, why->text);
}

static bool has_build_id(const struct object *object, const char *build_id)
{
	return object->facts && !strcmp(object->facts->build_id, build_id);
}

/* By its name, when the process has ended: only what it is known to have mapped. */
static void open_by_path(struct objects *objects, struct object *object,
			 const struct mapped_file *file, struct reason *why)
{
	if (!file->build_id) {
		reason_set(why, 0, "the process ended too soon to see which file it was");
		object->is_too_late = true;
		return;
	}
	object->fd = open_below(file->root, object->path);
	take_facts(objects, object, why);
	if (object->fd < 0 || has_build_id(object, file->build_id))
		return;
	reason_set(why, 0, "it is another file by now");
	drop_facts(object);
	close(object->fd); /* or it would pass for that other one */
	object->fd = -1;
}

/* Code of the kernel's own, the same at the same offset in every process. */
static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]");
}

static struct object *object_new(const struct mapped_file *file)
{
	struct object *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	*object = (struct object){ .dev = file->dev, .inode = file->inode, .fd = -1 };
	object->path = object_path(file->path);
	if (object->path)
		return object;
	free(object);
	return NULL;
}

/* 0 also where it cannot be read; -ESRCH, -ENOENT: it is not mapped any more. */
static int object_open(struct objects *objects, struct object *object,
		       const struct mapped_file *file)
{
	struct reason why = {};

	if (is_vdso(object->path))
		return 0;
	object->fd = open_mapped(file);
	if (object->fd < 0 && file->root)
		open_by_path(objects, object, file, &why);
	else if (object->fd < 0 && (errno == ESRCH || errno == ENOENT))
		return -errno;
	else
		take_facts(objects, object, &why);
	if (object->facts)
		return 0;
	object->unreadable = strdup(why.text);
	object->told_build_id = file->build_id ? strdup(file->build_id) : NULL;
	return 0;
}

/* ---- which are known ---- */

static bool is_as_told(const struct object *object, const char *build_id, const char *path)
{
	return object->told_build_id && !strcmp(object->told_build_id, build_id) &&
	       !strcmp(object->path, path);
}

static bool is_of(const struct object *object, const struct mapped_file *file)
{
	if (file->inode)
		return object->inode == file->inode && object->dev == file->dev;
	if (!file->build_id)
		return !object->inode && !strcmp(object->path, file->path);
	if (object->is_given_up && is_as_told(object, file->build_id, file->path))
		return true;
	return has_build_id(object, file->build_id) && !strcmp(object->path, file->path);
}

/* Opened under another identity: some file systems number a file otherwise where it is mapped. */
static bool is_same_file(const struct object *a, const struct object *b)
{
	struct stat x, y;

	return a->fd >= 0 && b->fd >= 0 && !fstat(a->fd, &x) && !fstat(b->fd, &y) &&
	       x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static uint32_t find(const struct objects *objects, const struct mapped_file *file)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		if (is_of(objects->object[i], file))
			return i;
	return OBJECT_NONE;
}

/* What could not be read is tried again each time that it is mapped, and is one object still. */
static bool is_as_unreadable(const struct object *a, const struct object *b)
{
	return b->told_build_id && is_as_told(a, b->told_build_id, b->path);
}

static uint32_t find_same(const struct objects *objects, const struct object *object)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		if (is_same_file(objects->object[i], object) ||
		    is_as_unreadable(objects->object[i], object))
			return i;
	return OBJECT_NONE;
}

/* One that an event told of has no inode yet: it would be opened again at each look at maps. */
static void learn_inode(struct object *known, const struct object *again)
{
	if (known->inode || !again->inode)
		return;
	known->dev = again->dev;
	known->inode = again->inode;
}

/* Takes object over. */
static int take_in(struct objects *objects, struct object *object, uint32_t *ret_object)
{
	int err = 0;

	*ret_object = find_same(objects, object);
	if (*ret_object != OBJECT_NONE)
		learn_inode(objects->object[*ret_object], object);
	if (*ret_object == OBJECT_NONE) {
		err = array_push(objects, object, object);
		if (!err) {
			*ret_object = objects->object_nr - 1;
			return 0;
		}
	}
	object_free(object);
	return err;
}

/* Who has this one keeps it, unread; from now on the file is another one, that is read. */
static void replace_late(struct object *late)
{
	late->is_too_late = false;
	late->dev = late->inode = 0;
}

int objects_get(struct objects *objects, const struct mapped_file *file, uint32_t *ret_object)
{
	struct object *object, *late = NULL;
	int err;

	*ret_object = OBJECT_NONE;
	if (!file->inode && !file->build_id && !is_vdso(file->path))
		return 0;
	*ret_object = find(objects, file);
	if (*ret_object != OBJECT_NONE)
		late = objects->object[*ret_object];
	if (late && !late->is_too_late)
		return 0;
	object = object_new(file);
	err = object ? object_open(objects, object, file) : -ENOMEM;
	if (late && (err ? err != -ENOMEM : object->is_too_late)) {
		object_free(object);
		return 0;
	}
	if (!err && late)
		replace_late(late);
	if (!err)
		err = take_in(objects, object, ret_object);
	else
		object_free(object);
	return err;
}

int objects_note(struct objects *objects, const char *fmt, ...)
{
	va_list values;
	char *note;
	int err;

	va_start(values, fmt);
	err = vasprintf(&note, fmt, values) < 0 ? -ENOMEM : array_push(objects, note, note);
	va_end(values);
	return err;
}

/* ---- what is in them ---- */

size_t object_read(const struct object *object, uint64_t offset, void *to, size_t bytes)
{
	ssize_t got = object->fd < 0 || offset > INT64_MAX ? 0 : pread(object->fd, to, bytes, offset);

	return got < 0 ? 0 : got;
}

bool objects_keeps_frame_pointer(struct objects *objects, uint32_t i, uint64_t return_offset)
{
	struct object *object = objects->object[i];
	struct unwind_rule rule;
	uint64_t vaddr;

	if (!object->facts || object->has_no_table || !return_offset)
		return true;
	if (!object->table)
		object->has_no_table = parser__unwind_table(objects->parser, object->fd,
							    &object->table, NULL);
	if (object->has_no_table || unwind_table__vaddr(object->table, return_offset - 1, &vaddr))
		return true;
	rule = unwind_table__rule(object->table, vaddr);
	return rule.cfa_kind == UNWIND_CFA_FP || rule.cfa_kind == UNWIND_CFA_NONE ||
	       rule.cfa_kind == UNWIND_CFA_ROOT;
}

void objects_release(struct objects *objects)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		object_free(objects->object[i]);
	for (size_t i = 0; i < objects->note_nr; i++)
		free(objects->note[i]);
	facts_store_release(&objects->facts);
	free(objects->note);
	free(objects->object);
	memset(objects, 0, sizeof(*objects));
}

const char *object_identity(const struct object *object, char text[64])
{
	const char *build_id = object->facts->build_id;
	struct stat st;

	if (fstat(object->fd, &st) || (*build_id && !st.st_uid && !(st.st_mode & 022)))
		return build_id;
	snprintf(text, 64, "inode %llx:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return text;
}
