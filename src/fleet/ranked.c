// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/ranked.h"

int64_t ranked_get(const struct ranked *ranked, size_t at)
{
	return at < ranked->zeros ? 0 : ranked->bytes[at - ranked->zeros];
}

static size_t nearest_rank(size_t nr, unsigned int percent)
{
	return (nr * percent + 99) / 100;
}

int64_t ranked_quantile(const struct ranked *ranked, unsigned int percent)
{
	return ranked_get(ranked, nearest_rank(ranked->nr, percent) - 1);
}

/* Walks outwards from the median, each time to the nearer of the two neighbours, until half of all values are met. */
int64_t ranked_mad(const struct ranked *ranked)
{
	size_t rank = nearest_rank(ranked->nr, 50), low = rank - 1, high = low;
	int64_t median = ranked_get(ranked, low), distance = 0;

	if (!median && ranked->zeros >= rank)
		return 0; /* usual if few hosts have the group */
	while (high - low < rank) {
		int64_t below = low ? median - ranked_get(ranked, low - 1) : INT64_MAX;
		int64_t above = high < ranked->nr ? ranked_get(ranked, high) - median : INT64_MAX;

		if (low && (high == ranked->nr || below < above)) {
			distance = below;
			low--;
		} else {
			distance = above;
			high++;
		}
	}
	return distance;
}
