// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/tally.h"

#include <errno.h>

#include "base/reason.h"
#include "engine/key_type.h"
#include "engine/selector.h"
#include "engine/statistics.h"

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
	return (struct side){ dictionary, { .is_asked = has_estimates, .tally = tally } };
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
