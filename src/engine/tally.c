// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/tally.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/keys.h"
#include "engine/selector.h"
#include "engine/statistics.h"
#include "snapshot.h"

int tally_check(const struct engine_options *options, struct reason *why)
{
	int err = engine_options_check(options, why);

	if (err)
		return err;
	if (options->measure != MEASURE_LIVE)
		return reason_set(why, -EINVAL, "sums of many snapshots are of live blocks: measure "
				  "\"%s\" is not in them", measure_name(options->measure));
	if (key_type_row(options->key_type)->asks_blocks)
		return reason_set(why, -EINVAL, "key type \"%s\" cannot be used with sums of many "
				  "snapshots", key_type_name(options->key_type));
	if (selection_asks_blocks(&options->select))
		return reason_set(why, -EINVAL, "sums of many snapshots do not tell blocks apart by "
				  "size, age, thread or gap");
	return 0;
}

static struct side side_of(const struct snapshot *dictionary, const struct tally *tally,
			   bool has_estimates)
{
	return (struct side){
		dictionary,
		{
			.is_asked = has_estimates, .tally = tally,
			.unseen_bytes = tally->unseen_bytes, .unseen_apart_bytes = tally->unseen_bytes,
			.is_open = tally->is_open,
		},
	};
}

int tally_statistics(const struct snapshot *dictionary, const struct tally *tally,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why)
{
	const struct side side = side_of(dictionary, tally, tally->sums);
	int err = tally_check(options, why);

	return err ?: statistics_make(NULL, &side, options, ret, why);
}

int tally_compare(const struct snapshot *dictionary, const struct tally *old_tally,
		  const struct tally *new_tally, const struct engine_options *options,
		  struct statistics **ret, struct reason *why)
{
	bool has_estimates = old_tally->sums || new_tally->sums;
	const struct side before = side_of(dictionary, old_tally, has_estimates);
	const struct side now = side_of(dictionary, new_tally, has_estimates);
	int err = tally_check(options, why);

	return err ?: statistics_make(&before, &now, options, ret, why);
}

/* The first member is the caller's result; the others own the memory that it points into. */
struct owned_groups {
	struct groups groups;
	struct key_memory memory;
	size_t group_nr, group_alloc;
};

static int groups_append(struct owned_groups *owned, const struct key_list *list)
{
	size_t end = owned->group_nr + list->id_nr;
	int err = end > UINT32_MAX ? -ENOMEM :
				     array_reserve(&owned->groups.group, &owned->group_alloc, end);

	for (size_t i = 0; i < list->id_nr && !err; i++)
		owned->groups.group[owned->group_nr++] = list->id[i];
	return err;
}

static int find_groups(struct owned_groups *owned, struct keyspace *keys, struct selector *selector,
		       struct key_source *source)
{
	const struct snapshot_tables *tables = source->traces->tables;
	const struct class_type *classes = keys->type->classes;
	struct key_list list = {};
	int err = 0;

	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		uint32_t at = tables->trace_traceback[i];

		owned->groups.first[i] = owned->group_nr;
		if (!selector_takes(selector, i))
			continue;
		if (classes)
			err = classes->find(&source->classes, i, &at);
		err = err ?: keyspace_find(keys, source, at, &list) ?: groups_append(owned, &list);
	}
	owned->groups.first[tables->trace_nr] = owned->group_nr;
	free(list.id);
	return err;
}

static int name_groups(struct owned_groups *owned, struct keyspace *keys)
{
	size_t nr = keyspace_nr(keys);
	struct statistic *key = calloc(nr ?: 1, sizeof(*key));

	if (!key)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		keyspace_view(keys, i, &key[i]);
	owned->memory = keyspace_take_memory(keys);
	owned->groups.key = key;
	owned->groups.key_nr = nr;
	return 0;
}

static int fill_groups(struct owned_groups *owned, const struct snapshot *dictionary,
		       const struct engine_options *options, struct reason *why)
{
	struct key_source source = {};
	struct selector selector = {};
	struct keyspace keys;
	struct source traces;
	int err;

	keyspace_init(&keys, options);
	err = source_init(&traces, dictionary, options);
	if (!err)
		err = key_source_init(&source, &traces);
	if (!err)
		err = selector_init(&selector, &traces, why);
	owned->groups.first = calloc(traces.tables->trace_nr + 1, sizeof(*owned->groups.first));
	if (!err && !owned->groups.first)
		err = -ENOMEM;
	if (!err)
		err = find_groups(owned, &keys, &selector, &source);
	if (!err)
		err = name_groups(owned, &keys);
	selector_release(&selector);
	key_source_release(&source);
	source_release(&traces);
	keyspace_release(&keys);
	return err;
}

int groups_make(const struct snapshot *dictionary, const struct engine_options *options,
		struct groups **ret, struct reason *why)
{
	int err = tally_check(options, why);
	struct owned_groups *owned;

	if (err)
		return err;
	owned = calloc(1, sizeof(*owned));
	err = owned ? fill_groups(owned, dictionary, options, why) : -ENOMEM;
	if (!err)
		*ret = &owned->groups;
	else
		groups_free(owned ? &owned->groups : NULL);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

void groups_free(struct groups *groups)
{
	struct owned_groups *owned = (struct owned_groups *)groups;

	if (!owned)
		return;
	free(owned->memory.views);
	free(owned->memory.texts);
	free(groups->first);
	free(groups->group);
	free(groups->key);
	free(owned);
}
