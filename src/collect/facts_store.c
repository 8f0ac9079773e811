// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/facts_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "parser/parser.h"

#define COPIES_MAX 64
#define COPIES_BYTES_MAX (64ull << 20)

static bool has_room(const struct facts_store *store, uint64_t bytes)
{
	return store->kept_nr < COPIES_MAX && bytes <= COPIES_BYTES_MAX - store->bytes;
}

static struct file_facts *find(const struct facts_store *store, const struct file_to_read *file)
{
	for (size_t i = 0; i < store->kept_nr; i++)
		if (store->kept[i]->wanted == file->wanted &&
		    file_copy__is_of(store->kept[i]->copy, file->fd))
			return store->kept[i];
	return NULL;
}

/* Where there is no room any more, they are of this file only. */
static void keep(struct facts_store *store, struct file_facts *facts)
{
	uint64_t bytes = facts->copy ? file_copy__bytes(facts->copy) : 0;

	if (!bytes)
		return;
	if (has_room(store, bytes) && !array_push(store, kept, facts)) {
		store->bytes += bytes;
		facts->user_nr++;
		return;
	}
	file_copy__free(facts->copy);
	facts->copy = NULL;
}

int facts_store_get(struct facts_store *store, const struct file_to_read *file,
		    struct file_facts **ret, struct reason *why)
{
	struct file_facts *facts = find(store, file);
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
	err = parser__facts_and_copy(file->parser, file->fd, file->wanted, &facts->facts,
				     has_room(store, 1) ? &facts->copy : NULL, why);
	if (err) {
		file_facts_put(facts);
		return err;
	}
	keep(store, facts);
	*ret = facts;
	return 0;
}

void file_facts_put(struct file_facts *facts)
{
	if (!facts || --facts->user_nr)
		return;
	object_facts_release(&facts->facts);
	file_copy__free(facts->copy);
	free(facts);
}

void facts_store_release(struct facts_store *store)
{
	for (size_t i = 0; i < store->kept_nr; i++)
		file_facts_put(store->kept[i]);
	free(store->kept);
	memset(store, 0, sizeof(*store));
}
