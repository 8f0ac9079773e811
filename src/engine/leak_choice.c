// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_choice.h"

/* Snapshots before traces were cleared do not count. */
static void choose_begin(const struct leak_moment *moment, size_t nr, const struct leak_span *span,
			 struct leak_times *ret)
{
	uint64_t end_ns = moment[nr - 1].now_ns;

	ret->begin_ns = span->begin_ns;
	ret->is_part = false;
	for (size_t i = 1; i < nr; i++)
		if (moment[i].clears != moment[i - 1].clears) {
			ret->begin_ns = moment[i - 1].now_ns;
			ret->is_part = true;
		}
	if (span->last_ns && span->last_ns < end_ns && end_ns - span->last_ns > ret->begin_ns) {
		ret->begin_ns = end_ns - span->last_ns;
		ret->is_part = true;
	}
}

static size_t next_kept(const bool *keep, size_t at)
{
	while (!keep[at])
		at++;
	return at;
}

/* Keeps the last one, and the others as evenly in time as they are there. kept: how many there are. */
static size_t choose_evenly(const struct leak_moment *moment, size_t nr, size_t kept, uint64_t begin, bool *keep)
{
	uint64_t end = moment[nr - 1].now_ns;
	size_t at = 0, left = kept; /* left: those from `at` on that may be chosen */

	for (uint32_t k = 1; k <= LEAK_SNAPSHOTS; k++) {
		uint64_t wanted = begin + (unsigned __int128)(end - begin) * k / LEAK_SNAPSHOTS;

		at = next_kept(keep, at);
		while (left > LEAK_SNAPSHOTS - k + 1 && moment[at].now_ns < wanted) {
			keep[at] = false;
			at = next_kept(keep, at);
			left--;
		}
		at++;
		left--;
	}
	for (; at < nr; at++)
		keep[at] = false;
	return LEAK_SNAPSHOTS;
}

size_t leak_moments_choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span, bool *keep,
			   struct leak_times *ret)
{
	size_t kept = 0;

	*ret = (struct leak_times){};
	if (!nr)
		return 0;
	choose_begin(moment, nr, span, ret);
	for (size_t i = 0; i < nr; i++) {
		keep[i] = moment[i].now_ns > ret->begin_ns && (i + 1 == nr || moment[i].now_ns < moment[i + 1].now_ns);
		kept += keep[i];
	}
	return kept > LEAK_SNAPSHOTS ? choose_evenly(moment, nr, kept, ret->begin_ns, keep) : kept;
}
