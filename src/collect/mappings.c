// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/elf_object.h"
#include "collect/proc.h"

/* One line of /proc/PID/maps (fs/proc/task_mmu.c, show_map_vma). */
struct maps_line {
	uint64_t start, end, offset, dev, inode;
	char perms[5];
	const char *path; /* "" for anonymous memory */
};

static bool parse_line(char *text, struct maps_line *line)
{
	unsigned int major, minor;
	int path_at = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &line->start, &line->end, line->perms, &line->offset, &major, &minor,
		   &line->inode, &path_at) < 7)
		return false;
	line->dev = (uint64_t)major << 32 | minor;
	line->path = text + path_at;
	return true;
}

/*
 * Opens a regular file only: opening a device or a FIFO that the target maps or names could
 * have effects. O_PATH opens nothing yet.
 */
static int open_regular(const char *path)
{
	int at = open(path, O_PATH | O_CLOEXEC), fd = -1;
	char again[64];
	struct stat st;

	if (at < 0)
		return -1;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	if (fstat(at, &st))
		; /* errno is set */
	else if (!S_ISREG(st.st_mode))
		errno = ENODEV;
	else
		fd = open(again, O_RDONLY | O_CLOEXEC);
	close(at);
	return fd;
}

static int open_mapped(pid_t pid, const struct maps_line *line)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, line->start,
		 line->end);
	return open_regular(path);
}

static char *object_path(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), tail = sizeof(deleted) - 1;

	if (len > tail && !strcmp(path + len - tail, deleted))
		len -= tail;
	return strndup(path, len);
}

static int object_open(struct object *object, pid_t pid, const struct maps_line *line)
{
	struct reason why = {};

	*object = (struct object){ .dev = line->dev, .inode = line->inode, .fd = -1 };
	object->path = object_path(line->path);
	if (!object->path)
		return -ENOMEM;
	if (!line->inode)
		return 0;
	object->fd = open_mapped(pid, line);
	if (object->fd < 0)
		reason_set(&why, 0, "%s", strerror(errno));
	else
		object->elf = elf_object__open(object->fd, &why);
	if (!object->elf)
		object->unreadable = strdup(why.text);
	return 0;
}

static void object_release(struct object *object)
{
	elf_object__close(object->elf);
	if (object->fd >= 0)
		close(object->fd);
	free(object->path);
	free(object->unreadable);
}

static bool is_object(const struct object *object, const struct maps_line *line)
{
	if (line->inode)
		return object->inode == line->inode && object->dev == line->dev;
	return !object->inode && !strcmp(object->path, line->path);
}

/* Code of the kernel's own, the same at the same offset in every process. */
static bool is_vdso(const struct maps_line *line)
{
	return !strcmp(line->path, "[vdso]") || !strcmp(line->path, "[vsyscall]");
}

/* The index of the line's object, opened if it is new. */
static int object_of(struct mappings *mappings, pid_t pid, const struct maps_line *line,
		     uint32_t *ret_object)
{
	struct object object;
	int err;

	*ret_object = OBJECT_NONE;
	if (!line->inode && !is_vdso(line))
		return 0;
	for (size_t i = 0; i < mappings->object_nr; i++)
		if (is_object(&mappings->object[i], line)) {
			*ret_object = i;
			return 0;
		}
	err = object_open(&object, pid, line);
	if (!err)
		err = array_push(mappings, object, object);
	if (err) {
		object_release(&object);
		return err;
	}
	*ret_object = mappings->object_nr - 1;
	return 0;
}

static int add_line(struct mappings *mappings, pid_t pid, const struct maps_line *line)
{
	struct mapping mapping = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
	};
	int err = object_of(mappings, pid, line, &mapping.object);

	return err ?: array_push(mappings, mapping, mapping);
}

static int compare_address(const void *key, const void *element)
{
	uint64_t address = *(const uint64_t *)key;
	const struct mapping *mapping = element;

	return address < mapping->start ? -1 : address >= mapping->end;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	if (!mappings->mapping_nr)
		return NULL;
	return bsearch(&address, mappings->mapping, mappings->mapping_nr,
		       sizeof(*mappings->mapping), compare_address);
}

static bool overlaps(const struct mapping *a, const struct mapping *b)
{
	return a->start < b->end && b->start < a->end;
}

/* Code made at run time moves all the time, and has no names to be wrong. */
static bool is_the_same_code(const struct mapping *a, const struct mapping *b)
{
	return a->object == b->object &&
	       (a->object == OBJECT_NONE || a->start - a->offset == b->start - b->offset);
}

/* What has been unmapped stays known, until something else is mapped there. */
static int keep_unmapped(struct mappings *mappings, const struct mapping *old)
{
	bool is_free = true;

	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		if (!overlaps(&mappings->mapping[i], old))
			continue;
		is_free = false;
		mappings->replaced_nr += !is_the_same_code(&mappings->mapping[i], old);
	}
	return is_free && old->object != OBJECT_NONE ? array_push(mappings, mapping, *old) : 0;
}

static int by_address(const void *a, const void *b)
{
	const struct mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int read_lines(struct mappings *mappings, pid_t pid, char *text)
{
	struct maps_line line;
	char *next;
	int err = 0;

	while (!err && (next = strsep(&text, "\n")))
		if (parse_line(next, &line) && line.perms[2] == 'x')
			err = add_line(mappings, pid, &line);
	return err;
}

int mappings_refresh(struct mappings *mappings, pid_t pid, struct reason *why)
{
	char *text = proc_read(pid, "maps", NULL);
	struct mappings before = *mappings;
	int err = 0;

	if (!text)
		return reason_set(why, -errno, "cannot read /proc/%d/maps: %s", pid,
				  strerror(errno));
	if (*text) {
		mappings->mapping = NULL;
		mappings->mapping_nr = mappings->mapping_alloc = 0;
		err = read_lines(mappings, pid, text);
		for (size_t i = 0; i < before.mapping_nr && !err; i++)
			err = keep_unmapped(mappings, &before.mapping[i]);
		qsort(mappings->mapping, mappings->mapping_nr, sizeof(*mappings->mapping),
		      by_address);
		free(before.mapping);
	}
	free(text);
	return err;
}

void mappings_release(struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->object_nr; i++)
		object_release(&mappings->object[i]);
	free(mappings->object);
	free(mappings->mapping);
	memset(mappings, 0, sizeof(*mappings));
}
