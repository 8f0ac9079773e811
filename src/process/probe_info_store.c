// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/probe_info_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "elf/python/python_info.h"
#include "sandbox/client.h"
#include "symbols/go_program.h"

#define COPIES_MAX 64
#define COPIES_BYTES_MAX (64ull << 20)

static bool has_room(const struct probe_info_store *store, uint64_t bytes)
{
	return store->kept_nr < COPIES_MAX && bytes <= COPIES_BYTES_MAX - store->bytes;
}

/* Only the store uses these facts: they can be removed. */
static bool is_unused(const struct stored_info *probe_info)
{
	return probe_info->user_nr == 1;
}

/* Whether `bytes` more would fit if all unused facts were removed. */
static bool can_have_room(const struct probe_info_store *store, uint64_t bytes)
{
	struct probe_info_store used = {};

	for (size_t i = 0; i < store->kept_nr; i++) {
		if (is_unused(store->kept[i]))
			continue;
		used.kept_nr++;
		used.bytes += file_copy__bytes(store->kept[i]->copy);
	}
	return has_room(&used, bytes);
}

static struct stored_info *remove_probe_info(struct probe_info_store *store, size_t i)
{
	struct stored_info *probe_info = store->kept[i];

	store->kept_nr--;
	memmove(&store->kept[i], &store->kept[i + 1], (store->kept_nr - i) * sizeof(*store->kept));
	return probe_info;
}

/* Removes the least recently used facts first. */
static void make_facts_room(struct probe_info_store *store, uint64_t bytes)
{
	size_t i = 0;

	while (i < store->kept_nr && !has_room(store, bytes)) {
		struct stored_info *probe_info = store->kept[i];

		if (!is_unused(probe_info)) {
			i++;
			continue;
		}
		store->bytes -= file_copy__bytes(probe_info->copy);
		stored_info_put(remove_probe_info(store, i));
	}
}

/* Moves the facts that it finds to the end: they are now the most recently used ones. */
static struct stored_info *find_probe_info(struct probe_info_store *store, const struct file_to_read *file)
{
	for (size_t i = 0; i < store->kept_nr; i++) {
		struct stored_info *probe_info = store->kept[i];

		if (probe_info->wanted != file->wanted || !file_copy__is_of(probe_info->copy, file->fd))
			continue;
		remove_probe_info(store, i);
		store->kept[store->kept_nr++] = probe_info;
		return probe_info;
	}
	return NULL;
}

/* If there is no room for the copy, the facts belong to this file only. */
static void keep_probe_info(struct probe_info_store *store, struct stored_info *probe_info)
{
	uint64_t bytes = probe_info->copy ? file_copy__bytes(probe_info->copy) : 0;

	if (!bytes)
		return;
	if (can_have_room(store, bytes)) {
		make_facts_room(store, bytes);
		if (!array_push(store, kept, probe_info)) {
			store->bytes += bytes;
			probe_info->user_nr++;
			return;
		}
	}
	file_copy__free(probe_info->copy);
	probe_info->copy = NULL;
}

int probe_info_store_get(struct probe_info_store *store, const struct file_to_read *file,
		    struct stored_info **ret, struct reason *why)
{
	struct stored_info *probe_info = find_probe_info(store, file);
	int err;

	if (probe_info) {
		probe_info->user_nr++;
		*ret = probe_info;
		return 0;
	}
	probe_info = calloc(1, sizeof(*probe_info));
	if (!probe_info)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	probe_info->wanted = file->wanted;
	probe_info->user_nr = 1;
	err = sandbox__probe_info_and_copy(file->sandbox, file->fd, file->wanted, &probe_info->probe_info,
				     can_have_room(store, 1) ? &probe_info->copy : NULL, why);
	if (err) {
		stored_info_put(probe_info);
		return err;
	}
	keep_probe_info(store, probe_info);
	*ret = probe_info;
	return 0;
}

void stored_info_put(struct stored_info *probe_info)
{
	if (!probe_info || --probe_info->user_nr)
		return;
	probe_info_release(&probe_info->probe_info);
	if (probe_info->python)
		python_info_release(probe_info->python);
	free(probe_info->python);
	free(probe_info->go);
	file_copy__free(probe_info->copy);
	free(probe_info);
}

int stored_info_python(struct stored_info *probe_info, struct sandbox *sandbox, int fd, const struct python_asked *asked,
		      const struct python_info **ret)
{
	struct python_info info = {}, *python = probe_info->is_python_asked ? NULL : malloc(sizeof(*python));

	if (!probe_info->is_python_asked && !python)
		return -ENOMEM;
	if (python && !sandbox__python(sandbox, fd, asked, &info, NULL)) {
		*python = info;
		probe_info->python = python;
	} else {
		free(python);
	}
	probe_info->is_python_asked = true;
	*ret = probe_info->python;
	return probe_info->python ? 0 : -ENOENT;
}

int stored_info_go(struct stored_info *probe_info, struct sandbox *sandbox, int fd, const struct go_program **ret)
{
	struct go_program *go = probe_info->is_go_asked ? NULL : malloc(sizeof(*go));

	if (!probe_info->is_go_asked && !go)
		return -ENOMEM;
	if (go && !sandbox__go(sandbox, fd, go, NULL))
		probe_info->go = go;
	else
		free(go);
	probe_info->is_go_asked = true;
	*ret = probe_info->go;
	return probe_info->go ? 0 : -ENOENT;
}

void probe_info_store_release(struct probe_info_store *store)
{
	for (size_t i = 0; i < store->kept_nr; i++)
		stored_info_put(store->kept[i]);
	free(store->kept);
	memset(store, 0, sizeof(*store));
}
