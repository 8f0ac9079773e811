// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "archive/archive_private.h"

#define GONE_LEAST 64 /* fewer rows are not worth the work */

struct folder_key {
	const char *name;
	uint32_t host;
};

static bool same_folder(uint32_t id, const void *key, const void *table)
{
	const struct folder *folder = &((const struct archive *)table)->folder[id];
	const struct folder_key *want = key;

	return folder->host == want->host && !strcmp(folder->name, want->name);
}

static int64_t host_id(struct archive *archive, const char *name)
{
	struct host host = {};
	int err;

	for (size_t i = 0; i < archive->host_nr; i++)
		if (!strcmp(archive->host[i].name, name))
			return i;
	host.name = strdup(name);
	err = host.name ? array_push(archive, host, host) : -ENOMEM;
	if (err) {
		free(host.name);
		return err;
	}
	return archive->host_nr - 1;
}

static uint64_t folder_key_hash(const struct folder_key *key)
{
	return hash_bytes(key->name, strlen(key->name), key->host);
}

int64_t archive_get_folder(struct archive *archive, const char *host, const char *name)
{
	int64_t host_nr = host_id(archive, host);
	struct folder_key key = { name, host_nr };
	struct folder folder = { .host = host_nr };
	uint64_t hash = folder_key_hash(&key);
	uint32_t id;
	int err;

	if (host_nr < 0)
		return host_nr;
	id = idmap_find(&archive->folder_ids, hash, same_folder, &key, archive);
	if (id != IDMAP_NONE)
		return id;
	strncpy(folder.name, name, sizeof(folder.name) - 1);
	err = array_push(archive, folder, folder);
	if (err)
		return err;
	err = idmap_add(&archive->folder_ids, hash, archive->folder_nr - 1);
	if (err)
		return archive->folder_nr--, err;
	return archive->folder_nr - 1;
}

int archive_add(struct archive *archive, uint32_t id, const struct moment *moment, uint64_t blocks)
{
	struct folder *folder = &archive->folder[id];
	struct archived item = { *moment, id, blocks < UINT32_MAX ? blocks : UINT32_MAX };
	int step = boot_clocks_add(&archive->clocks, moment);
	int err = step < 0 ? step : array_push(archive, item, item);

	if (err)
		return err;
	if (step || (archive->item_nr > 1 &&
		     moment_compare(&archive->item[archive->item_nr - 2].moment, moment, &archive->clocks) > 0))
		archive->is_unordered = true;
	folder->nr++;
	folder->newest = *moment; /* unless it is_unordered now */
	archive->blocks += item.blocks;
	return 0;
}

uint64_t archived_time_ms(const struct archive *archive, const struct archived *item)
{
	return moment_time_ns(&item->moment, &archive->clocks) / 1000000;
}

void archive_set_folder_blocks(struct archive *archive, uint32_t id, uint64_t blocks)
{
	struct folder *folder = &archive->folder[id];

	archive->blocks += blocks - folder->blocks;
	folder->blocks = blocks;
}

void archive_set_host_blocks(struct archive *archive, uint32_t id, uint64_t blocks)
{
	archive->blocks += blocks - archive->host[id].blocks;
	archive->host[id].blocks = blocks;
}

bool archive_forget(struct archive *archive, const struct archived *item)
{
	struct folder *folder = &archive->folder[item->folder];

	archive->blocks -= item->blocks;
	return !--folder->nr;
}

void archive_forget_folder(struct archive *archive, uint32_t id)
{
	archive_set_folder_blocks(archive, id, 0);
	archive->folder[id].host = FOLDER_GONE;
	archive->gone_nr++;
}

static int compare_archived_folders(const void *a, const void *b)
{
	const struct archived *left = a, *right = b;

	return (left->folder > right->folder) - (left->folder < right->folder);
}

static int sort_archived(struct archive *archive)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct archived),
		.compare_rest = compare_archived_folders,
	};
	int err = moments_sort(archive->item, archive->item_nr, &order);

	if (err)
		return err;
	for (size_t i = 0; i < archive->item_nr; i++)
		archive->folder[archive->item[i].folder].newest = archive->item[i].moment;
	archive->is_unordered = false;
	return 0;
}

/* Removes the rows of gone folders. new_id gets the new id of each folder, and all ids are replaced. */
static void renumber_folders(struct archive *archive, uint32_t *new_id)
{
	size_t nr = 0;

	for (size_t i = 0; i < archive->folder_nr; i++) {
		new_id[i] = nr;
		if (archive->folder[i].host != FOLDER_GONE)
			archive->folder[nr++] = archive->folder[i];
	}
	archive->folder_nr = nr;
	archive->gone_nr = 0;
	for (size_t i = 0; i < archive->item_nr; i++)
		archive->item[i].folder = new_id[archive->item[i].folder];
}

/* Changes nothing if there is no memory. */
static int fill_ids(struct archive *archive)
{
	struct idmap ids = {};
	int err = 0;

	for (size_t i = 0; i < archive->folder_nr && !err; i++) {
		const struct folder *folder = &archive->folder[i];
		struct folder_key key = { folder->name, folder->host };

		err = idmap_add(&ids, folder_key_hash(&key), i);
	}
	if (err) {
		idmap_release(&ids);
		return err;
	}
	idmap_release(&archive->folder_ids);
	archive->folder_ids = ids;
	return 0;
}

static int drop_gone(struct archive *archive)
{
	uint32_t *new_id = calloc(archive->folder_nr, sizeof(*new_id));
	int err;

	if (!new_id)
		return -ENOMEM;
	renumber_folders(archive, new_id);
	free(new_id);
	err = fill_ids(archive);
	if (err)
		archive->is_stale = true; /* the former ids are no longer valid */
	return err;
}

int archive_tidy(struct archive *archive)
{
	int err = archive->is_unordered ? sort_archived(archive) : 0;

	if (err)
		return err;
	if (archive->gone_nr < GONE_LEAST || archive->gone_nr < archive->folder_nr / 2)
		return 0;
	return drop_gone(archive);
}

void archive_forget_all(struct archive *archive)
{
	for (size_t i = 0; i < archive->host_nr; i++)
		free(archive->host[i].name);
	archive->host_nr = archive->item_nr = archive->folder_nr = archive->gone_nr = 0;
	archive->blocks = archive->dir_blocks = 0;
	archive->is_unordered = false;
	boot_clocks_release(&archive->clocks);
	idmap_release(&archive->folder_ids);
}
