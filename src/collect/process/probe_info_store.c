// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/probe_info_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "elf/python/python_info.h"
#include "sandbox/client.h"

#define COPIES_MAX 64
#define COPIES_BYTES_MAX (64ull << 20)

static bool has_room(const struct probe_info_store *store, uint64_t bytes)
{
	return store->kept_nr < COPIES_MAX && bytes <= COPIES_BYTES_MAX - store->bytes;
}

/* Only the store uses these facts: they can be removed. */
static bool is_unused(const struct file_facts *facts)
{
	return facts->user_nr == 1;
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

static struct file_facts *remove_facts(struct probe_info_store *store, size_t i)
{
	struct file_facts *facts = store->kept[i];

	store->kept_nr--;
	memmove(&store->kept[i], &store->kept[i + 1], (store->kept_nr - i) * sizeof(*store->kept));
	return facts;
}

/* Removes the least recently used facts first. */
static void make_facts_room(struct probe_info_store *store, uint64_t bytes)
{
	size_t i = 0;

	while (i < store->kept_nr && !has_room(store, bytes)) {
		struct file_facts *facts = store->kept[i];

		if (!is_unused(facts)) {
			i++;
			continue;
		}
		store->bytes -= file_copy__bytes(facts->copy);
		file_facts_put(remove_facts(store, i));
	}
}

/* Moves the facts that it finds to the end: they are now the most recently used ones. */
static struct file_facts *find_facts(struct probe_info_store *store, const struct file_to_read *file)
{
	for (size_t i = 0; i < store->kept_nr; i++) {
		struct file_facts *facts = store->kept[i];

		if (facts->wanted != file->wanted || !file_copy__is_of(facts->copy, file->fd))
			continue;
		remove_facts(store, i);
		store->kept[store->kept_nr++] = facts;
		return facts;
	}
	return NULL;
}

/* If there is no room for the copy, the facts belong to this file only. */
static void keep_facts(struct probe_info_store *store, struct file_facts *facts)
{
	uint64_t bytes = facts->copy ? file_copy__bytes(facts->copy) : 0;

	if (!bytes)
		return;
	if (can_have_room(store, bytes)) {
		make_facts_room(store, bytes);
		if (!array_push(store, kept, facts)) {
			store->bytes += bytes;
			facts->user_nr++;
			return;
		}
	}
	file_copy__free(facts->copy);
	facts->copy = NULL;
}

int probe_info_store_get(struct probe_info_store *store, const struct file_to_read *file,
		    struct file_facts **ret, struct reason *why)
{
	struct file_facts *facts = find_facts(store, file);
	int err;

	if (facts) {
		facts->user_nr++;
		*ret = facts;
		return 0;
	}
	facts = calloc(1, sizeof(*facts));
	if (!facts)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	facts->wanted = file->wanted;
	facts->user_nr = 1;
	err = sandbox__facts_and_copy(file->sandbox, file->fd, file->wanted, &facts->facts,
				     can_have_room(store, 1) ? &facts->copy : NULL, why);
	if (err) {
		file_facts_put(facts);
		return err;
	}
	keep_facts(store, facts);
	*ret = facts;
	return 0;
}

void file_facts_put(struct file_facts *facts)
{
	if (!facts || --facts->user_nr)
		return;
	probe_info_release(&facts->facts);
	if (facts->python)
		python_info_release(facts->python);
	free(facts->python);
	file_copy__free(facts->copy);
	free(facts);
}

int file_facts_python(struct file_facts *facts, struct sandbox *sandbox, int fd, const struct python_asked *asked,
		      const struct python_info **ret)
{
	struct python_info info = {}, *python = facts->is_python_asked ? NULL : malloc(sizeof(*python));

	if (!facts->is_python_asked && !python)
		return -ENOMEM;
	if (python && !sandbox__python(sandbox, fd, asked, &info, NULL)) {
		*python = info;
		facts->python = python;
	} else {
		free(python);
	}
	facts->is_python_asked = true;
	*ret = facts->python;
	return facts->python ? 0 : -ENOENT;
}

void probe_info_store_release(struct probe_info_store *store)
{
	for (size_t i = 0; i < store->kept_nr; i++)
		file_facts_put(store->kept[i]);
	free(store->kept);
	memset(store, 0, sizeof(*store));
}
