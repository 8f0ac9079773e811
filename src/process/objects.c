// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/objects.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "base/reason.h"
#include "process/open_file.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/user_allocators.h"
#include "sandbox/client.h"
#include "unwind/unwind_table.h"

/* ---- object content ---- */

/* Looks into files: their bytes, their frame pointers, whether two have the same names. */

size_t object_read(const struct object *object, uint64_t offset, void *to, size_t bytes)
{
	bool has_it = object->fd >= 0 && !object->has_changed && offset <= INT64_MAX;
	ssize_t got = has_it ? pread(object->fd, to, bytes, offset) : 0;

	return got < 0 ? 0 : got;
}

bool objects_keeps_frame_pointer(struct objects *objects, uint32_t i, uint64_t return_offset)
{
	struct object *object = objects->object[i];
	struct unwind_rule rule;
	uint64_t vaddr;

	if (!object->probe_info || object->has_no_table || object->has_changed || !return_offset)
		return true;
	if (!object->table)
		object->has_no_table = sandbox__unwind_table(objects->sandbox, object->fd,
							    &object->table, NULL);
	if (object->has_no_table || unwind_table__vaddr(object->table, return_offset - 1, &vaddr))
		return true;
	rule = unwind_table__rule(object->table, vaddr);
	return rule.cfa_kind == UNWIND_CFA_FP || rule.cfa_kind == UNWIND_CFA_NONE ||
	       rule.cfa_kind == UNWIND_CFA_ROOT;
}

const char *object_names_key(const struct object *object, char text[24])
{
	snprintf(text, 24, "%" PRIu64, object->names_id);
	return text;
}

/* ---- files with the same content ---- */

#define TWIN_BYTES_MAX (128u << 20) /* the recorder does nothing else while it compares */

static bool may_be_twin(const struct object *a, const struct object *b)
{
	return a && a != b && a->fd >= 0 && a->probe_info && !a->has_changed && *a->probe_info->build_id &&
	       !strcmp(a->path, b->path) && !strcmp(a->probe_info->build_id, b->probe_info->build_id) &&
	       a->identity.bytes == b->identity.bytes && a->identity.bytes <= TWIN_BYTES_MAX;
}

static const struct object *find_twin(const struct objects *objects, const struct object *object)
{
	for (size_t i = 0; i < objects->object_nr && object->probe_info; i++)
		if (may_be_twin(objects->object[i], object))
			return objects->object[i];
	return NULL;
}

/*
 * Gives a new object its names_id, once its facts are read.
 * Only one candidate is compared: anyone can make many files that seem to be the same.
 */
static void object_give_names_id(struct objects *objects, struct object *object)
{
	const struct object *twin = find_twin(objects, object);

	if (twin && file_bytes_are_same(twin->fd, object->fd, object->identity.bytes))
		object->names_id = twin->names_id;
	else
		object->names_id = ++objects->names_nr;
}

/* ---- objects ---- */

static void drop_probe_info(struct object *object)
{
	stored_info_put(object->stored_info);
	object->stored_info = NULL;
	object->probe_info = NULL;
}

static void object_free(struct object *object)
{
	if (!object)
		return;
	drop_probe_info(object);
	unwind_table__free(object->table);
	if (object->fd >= 0)
		close(object->fd);
	free(object->path);
	free(object->unreadable);
	free(object->told_build_id);
	free(object);
}

/* A process may map ever more files. */
#define NOTED_MAX 32

static bool is_to_be_noted(unsigned int *noted_nr)
{
	return *noted_nr < NOTED_MAX && ++*noted_nr;
}

/* If so, the bytes that were read belong to no single version of the file. */
static bool is_being_written(const struct object *object)
{
	struct file_identity now;

	return !object->is_copy && !file_identity_read(object->fd, &now) &&
	       !file_identity_is_unwritten(&object->identity, &now);
}

static int read_probe_info(struct objects *objects, struct object *object, struct reason *why)
{
	const struct user_allocators *user_allocators = objects->user_allocators;
	bool wants = user_allocators && user_allocators_may_be_in(user_allocators, object->path);
	const struct file_to_read file = {
		.sandbox = objects->sandbox, .fd = object->fd, .wanted = wants ? &user_allocators->wanted : NULL,
	};
	int err = probe_info_store_get(&objects->probe_info, &file, &object->stored_info, why);

	if (!err)
		object->probe_info = &object->stored_info->probe_info;
	if (!err && object->probe_info->nameless_heap && is_to_be_noted(&objects->nameless_nr))
		objects_note(objects,
			     "%s has %s in it, of which nothing is recorded: none of its functions has a name there (stripped); see allocsnap doctor",
			     object->path, domain_name(object->probe_info->nameless_heap));
	if (!err && object->probe_info->has_more_heaps && is_to_be_noted(&objects->more_heaps_nr))
		objects_note(objects,
			     "%s may have more allocators under prefixes of its own than are recorded; see allocsnap doctor",
			     object->path);
	object->is_given_up = err == -EIO && !is_being_written(object);
	if (object->is_given_up && is_to_be_noted(&objects->given_up_nr))
		objects_note(objects, "nothing in %s is probed: %s", object->path, why->text);
	return err;
}

static bool has_build_id(const struct object *object, const char *build_id)
{
	return object->probe_info && !strcmp(object->probe_info->build_id, build_id);
}

static bool is_other_file(const struct object *object, const struct mapped_file *file)
{
	return file->root && file->build_id && object->probe_info && !has_build_id(object, file->build_id);
}

/* Code of the kernel itself, the same at the same offset in every process. */
static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]");
}

/* ---- checking for changes ---- */

static bool has_same_build_id(struct objects *objects, const struct object *object, int fd)
{
	struct probe_info probe_info = {};
	bool is_same = object->probe_info && *object->probe_info->build_id &&
		       !sandbox__probe_info(objects->sandbox, fd, NULL, &probe_info, NULL) &&
		       has_build_id(object, probe_info.build_id);

	probe_info_release(&probe_info);
	return is_same;
}

/*
 * Only the change time differs: by a rename, a link or a permission, or because someone set back the modification
 * time. A breakpoint in the middle of an instruction kills programs: files with probes are compared byte by byte.
 */
static bool holds_the_same(struct objects *objects, const struct object *object, int fd)
{
	if (!object->probe_info)
		return true; /* nothing was read from it */
	if (object->stored_info->copy)
		return file_copy__is_of(object->stored_info->copy, fd);
	return !probe_info_has_places(object->probe_info) && has_same_build_id(objects, object, fd);
}

static void has_been_written(struct objects *objects, struct object *object)
{
	object->has_changed = true;
	objects->changed_nr++;
}

/* `now` is the identity of the file behind fd. The object has the same inode. */
static bool is_still(struct objects *objects, struct object *object, int fd,
		     const struct file_identity *now)
{
	if (object->has_changed || file_identity_is_same(&object->identity, now))
		return !object->has_changed;
	if (file_identity_is_unwritten(&object->identity, now) && holds_the_same(objects, object, fd)) {
		object->identity = *now;
		return true;
	}
	has_been_written(objects, object);
	return false;
}

/* Nothing shows when the original of a copy was written to, so the bytes are compared. Both copies stay as they are. */
static bool is_same_copy(struct objects *objects, struct object *object, const struct opened *opened)
{
	if (object->identity.bytes == opened->identity.bytes &&
	    file_bytes_are_same(object->fd, opened->fd, opened->identity.bytes))
		return true;
	has_been_written(objects, object);
	return false;
}

bool objects_check(struct objects *objects, uint32_t i)
{
	struct object *object = objects->object[i];
	struct file_identity now;

	if (object->fd < 0 || object->is_copy)
		return !object->has_changed;
	if (file_identity_read(object->fd, &now))
		return false; /* its file system gives no answer at the moment */
	return is_still(objects, object, object->fd, &now);
}

/* ---- finding known objects ---- */

static uint32_t find_named(const struct objects *objects, const char *path)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		if (objects->object[i] && !objects->object[i]->identity.inode &&
		    !strcmp(objects->object[i]->path, path))
			return i;
	return OBJECT_NONE;
}

/* Compares only numbers and names: the file is not opened again, because its file system may not answer. */
static bool is_copy_of(const struct object *object, const struct mapped_file *file)
{
	if (!object->is_copy || object->has_changed || strcmp(object->path, file->path))
		return false;
	if (file->inode)
		return object->identity.inode == file->inode && object->identity.device == file->dev;
	return has_build_id(object, file->build_id);
}

static uint32_t find_copy(const struct objects *objects, const struct mapped_file *file)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		if (objects->object[i] && is_copy_of(objects->object[i], file))
			return i;
	return OBJECT_NONE;
}

/* Containers of an image share its layers. A probe is in the lower file, so a file that counted once for each would be probed as often. */
static bool is_same_below(const struct object *object, const struct opened *opened)
{
	return opened->below.inode && object->below.inode == opened->below.inode && object->below.number == opened->below.number;
}

static uint32_t find_opened(struct objects *objects, const struct opened *opened)
{
	for (size_t i = 0; i < objects->object_nr; i++) {
		struct object *object = objects->object[i];

		if (!object || object->fd < 0 || object->has_changed || object->is_copy != opened->is_copy)
			continue;
		if (is_same_below(object, opened) && objects_check(objects, i))
			return i;
		if (!file_identity_is_same_inode(&object->identity, &opened->identity))
			continue;
		if (object->is_copy ? is_same_copy(objects, object, opened) :
				      is_still(objects, object, opened->fd, &opened->identity))
			return i;
	}
	return OBJECT_NONE;
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* A file that could not be read is tried again each time that it is mapped, but remains one object. */
static uint32_t find_unopened(const struct objects *objects, const struct mapped_file *file)
{
	for (size_t i = 0; i < objects->object_nr; i++) {
		const struct object *object = objects->object[i];

		if (object && object->fd < 0 && object->unreadable && !strcmp(object->path, file->path) &&
		    is_same_text(object->told_build_id, file->build_id))
			return i;
	}
	return OBJECT_NONE;
}

/*
 * Without a build-id, device and inode must match; and only a file that was opened earlier, while a process
 * mapped it, is accepted by these numbers.
 */
static bool fits_mapped_file(struct objects *objects, const struct mapped_file *file, const struct opened *opened)
{
	uint32_t known = find_opened(objects, opened);

	if (file->build_id)
		return known == OBJECT_NONE || !objects->object[known]->probe_info ||
		       has_build_id(objects->object[known], file->build_id);
	return known != OBJECT_NONE && file->inode == opened->identity.inode &&
	       file->dev == opened->identity.device;
}

/* Opens the file by its path when it is no longer mapped, and accepts it only if the process is known to have mapped it. */
static void open_of_gone(struct objects *objects, const struct mapped_file *file, struct opened *ret)
{
	open_by_path(objects->opener, file, ret);
	if (ret->fd < 0 || fits_mapped_file(objects, file, ret))
		return;
	reason_set(&ret->why, 0, file->build_id ? "it is another file by now" :
			   "it was mapped too shortly to see which file it was");
	close_opened(ret);
}

/* 0 even if the file cannot be opened; -ESRCH, -ENOENT: it is no longer mapped. */
static int open_told(struct objects *objects, const struct mapped_file *file, struct opened *ret)
{
	int err = open_mapped(objects->opener, file, ret);

	if (ret->fd < 0 && file->root && !ret->is_silent) {
		open_of_gone(objects, file, ret);
		err = 0;
	}
	if (ret->is_first_silence)
		objects_note(objects, "%s: %s", file->path, ret->why.text);
	return err;
}

/* ---- new objects ---- */

/* To place a probe the kernel reads the file, and the process that asks for the probe would hang with it. */
static void note_copy(struct objects *objects, const struct object *object)
{
	if (object->probe_info && probe_info_has_places(object->probe_info) && is_to_be_noted(&objects->copied_nr))
		objects_note(objects, "%s is on a file system that may stop answering: nothing in it is probed",
			     object->path);
}

static int read_object(struct objects *objects, struct object *object, const struct mapped_file *file,
		       struct opened *opened)
{
	if (object->fd >= 0)
		read_probe_info(objects, object, &opened->why);
	opened->is_other = is_other_file(object, file);
	if (opened->is_other) {
		reason_set(&opened->why, 0, "it is another file by now");
		drop_probe_info(object);
		close(object->fd); /* or it would pass for the mapped file */
		object->fd = -1;
		object->identity = (struct file_identity){};
	}
	object_give_names_id(objects, object);
	if (object->is_copy)
		note_copy(objects, object);
	if (object->probe_info)
		return 0;
	object->unreadable = strdup(opened->why.text);
	object->told_build_id = file->build_id ? strdup(file->build_id) : NULL;
	return object->unreadable && (object->told_build_id || !file->build_id) ? 0 : -ENOMEM;
}

/* Takes ownership of what was opened, also on failure. */
static int object_new(struct objects *objects, const struct mapped_file *file, struct opened *opened,
		      struct object **ret)
{
	struct object *object = calloc(1, sizeof(*object));
	int err = object ? 0 : -ENOMEM;

	if (err) {
		close_opened(opened);
		return err;
	}
	*object = (struct object){
		.fd = opened->fd, .identity = opened->identity, .is_copy = opened->is_copy,
		.user = file->user, .kernel_file = opened->kernel_file, .below = opened->below,
	};
	object->path = path_of_mapping(file->path);
	if (!object->path)
		err = -ENOMEM;
	else if (!is_vdso(object->path))
		err = read_object(objects, object, file, opened);
	if (err)
		object_free(object);
	else
		*ret = object;
	return err;
}

static void count_file(struct objects *objects, const struct object *object, int change)
{
	if (object->fd < 0)
		return;
	objects->files_nr += change;
	objects->user_files[object->user] += change;
}

static int add_object(struct objects *objects, struct object *object, uint32_t *ret)
{
	size_t i = 0;
	int err = 0;

	while (i < objects->object_nr && objects->object[i])
		i++;
	if (i == objects->object_nr)
		err = array_push(objects, object, object);
	if (err) {
		object_free(object);
		return err;
	}
	objects->object[i] = object;
	count_file(objects, object, 1);
	objects->opened_nr++;
	*ret = i;
	return 0;
}

/* A file may prove to be unreadable only when it is read. An object for it may exist already. */
static int get_new(struct objects *objects, const struct mapped_file *file, struct opened *opened,
		   uint32_t *ret)
{
	struct object *object;
	int err = object_new(objects, file, opened, &object);

	if (err)
		return err;
	if (object->fd < 0 && object->unreadable)
		*ret = find_unopened(objects, file);
	if (*ret == OBJECT_NONE)
		return add_object(objects, object, ret);
	object_free(object);
	return 0;
}

uint32_t objects_user(const struct objects *objects, uint32_t uid)
{
	return USER_HASH(uid, objects->user_seed);
}

static bool has_share(const struct objects *objects, uint32_t user)
{
	return !objects->files_most ||
	       (objects->files_nr < objects->files_most &&
		objects->user_files[user] < SHARE_OF_FREE * (objects->files_most - objects->files_nr));
}

#define BEYOND_SHARE "[a file too many]"

/* All files beyond a user's share are one object: a user that maps ever more files takes no room from others. */
static int get_beyond_share(struct objects *objects, uint32_t *ret)
{
	const struct mapped_file none = { .path = BEYOND_SHARE };
	struct opened opened = { .fd = -1, .why.text = "its user maps too many files" };

	*ret = find_named(objects, BEYOND_SHARE);
	return *ret == OBJECT_NONE ? get_new(objects, &none, &opened, ret) : 0;
}

/* Takes ownership of what was opened. */
static int get_opened(struct objects *objects, const struct mapped_file *file, struct opened *opened, uint32_t *ret)
{
	*ret = opened->fd < 0 ? OBJECT_NONE : find_opened(objects, opened);
	if (*ret == OBJECT_NONE && opened->fd >= 0 && !has_share(objects, file->user)) {
		close_opened(opened);
		return get_beyond_share(objects, ret);
	}
	if (*ret == OBJECT_NONE)
		return get_new(objects, file, opened, ret);
	opened->is_other = is_other_file(objects->object[*ret], file);
	close_opened(opened);
	return 0;
}

int objects_get(struct objects *objects, const struct mapped_file *file, uint32_t *ret_object)
{
	struct opened opened = { .fd = -1 };
	int err;

	*ret_object = OBJECT_NONE;
	if (!is_vdso(file->path) && !file->inode && !file->build_id)
		return 0;
	*ret_object = is_vdso(file->path) ? find_named(objects, file->path) : find_copy(objects, file);
	if (*ret_object != OBJECT_NONE)
		return 0;
	err = is_vdso(file->path) ? 0 : open_told(objects, file, &opened);
	err = err ?: get_opened(objects, file, &opened, ret_object);
	if (err || !opened.is_other || opened.is_by_path)
		return err;
	opened = (struct opened){ .fd = -1 };
	open_of_gone(objects, file, &opened);
	return get_opened(objects, file, &opened, ret_object);
}

void objects_drop(struct objects *objects, uint32_t i)
{
	count_file(objects, objects->object[i], -1);
	object_free(objects->object[i]);
	objects->object[i] = NULL;
}

int objects_get_path(struct objects *objects, const char *path, uint32_t *ret_object, struct reason *why)
{
	struct opened opened;
	char *real;
	bool is_new;
	int err = open_own_path(objects->opener, path, &opened, &real);

	if (err)
		return reason_set(why, err, "%s", open_file_strerror(-err));
	*ret_object = find_opened(objects, &opened);
	is_new = *ret_object == OBJECT_NONE;
	if (is_new)
		err = get_new(objects, &(struct mapped_file){ .path = real }, &opened, ret_object);
	else
		close_opened(&opened);
	free(real);
	if (err)
		return reason_set(why, err, "%s", strerror(-err));
	if (objects->object[*ret_object]->probe_info)
		return 0;
	reason_set(why, -ENOEXEC, "%s", objects->object[*ret_object]->unreadable);
	if (is_new)
		objects_drop(objects, *ret_object);
	return -ENOEXEC;
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

void objects_release(struct objects *objects)
{
	for (size_t i = 0; i < objects->object_nr; i++)
		object_free(objects->object[i]);
	for (size_t i = 0; i < objects->note_nr; i++)
		free(objects->note[i]);
	probe_info_store_release(&objects->probe_info);
	free(objects->note);
	free(objects->object);
	memset(objects, 0, sizeof(*objects));
}
