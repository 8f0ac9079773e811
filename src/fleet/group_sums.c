// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/group_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace_cost.h"
#include "engine/frame.h"

int group_sums_init(struct group_sums *sums, const struct groups *groups)
{
	size_t room = groups->key_nr ?: 1;

	*sums = (struct group_sums){
		.groups = groups,
		.sum = calloc(room, sizeof(*sums->sum)),
		.used = calloc(room, sizeof(*sums->used)),
	};
	if (sums->sum && sums->used)
		return 0;
	group_sums_release(sums);
	return -ENOMEM;
}

void group_sums_release(struct group_sums *sums)
{
	free(sums->sum);
	free(sums->used);
	*sums = (struct group_sums){};
}

static int add_to_group(struct group_sums *sums, uint32_t group, int64_t size, double beyond,
			struct reason *why)
{
	struct group_sum *sum = &sums->sum[group];

	if (!sum->is_used) {
		sum->is_used = true;
		sums->used[sums->used_nr++] = group;
	}
	sum->beyond += beyond;
	return __builtin_add_overflow(sum->size, size, &sum->size) ? cost_too_much(why) : 0;
}

int group_sums_add(struct group_sums *sums, const struct fleet_rows *rows, struct reason *why)
{
	const struct groups *groups = sums->groups;
	int err = 0;

	for (size_t i = 0; i < rows->nr && !err; i++) {
		const struct fleet_row *row = &rows->row[i];
		double beyond = rows->spread ? rows->spread[i].size.beyond : 0;
		uint32_t end = groups->first[row->origin + 1];

		for (uint32_t at = groups->first[row->origin]; at < end && !err; at++)
			err = add_to_group(sums, groups->group[at], row->cost.size, beyond, why);
	}
	return err;
}

int group_sums_get(const struct group_sums *sums, uint32_t group, int64_t *ret_bytes,
		   struct reason *why)
{
	struct cost cost = { .size = sums->sum[group].size };
	const struct sums beyond = { .all.size.beyond = sums->sum[group].beyond };
	int err = estimate_cost(&cost, &beyond, why);

	if (!err)
		*ret_bytes = cost.size;
	return err;
}

void group_sums_clear(struct group_sums *sums)
{
	for (size_t i = 0; i < sums->used_nr; i++)
		sums->sum[sums->used[i]] = (struct group_sum){};
	sums->used_nr = 0;
}

int group_compare_keys(const struct groups *groups, uint32_t a, uint32_t b)
{
	const struct statistic *left = &groups->key[a], *right = &groups->key[b];

	return left->key ? strcmp(left->key, right->key) : traceback_compare(left, right);
}
