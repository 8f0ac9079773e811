// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which leaks of a fleet are listed, and which processes could not be judged, in words. */
#include <inttypes.h>

#include "render/fleet.h"

#define UNJUDGED_PROCESS_MAX 160

size_t fleet_leaks_listed(const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	size_t nr = 0;

	while (nr < leaks->bundle_nr && (answer->shows_all || leaks->bundle[nr].kind <= LEAK_GROWS))
		nr++;
	return nr;
}

unsigned int fleet_leaks_hints(const struct fleet_answer *answer)
{
	const struct fleet_leaks *leaks = answer->leaks;
	size_t listed = fleet_leaks_listed(answer), top = answer->report->top;
	unsigned int hints = 0;

	for (size_t i = 0; i < listed && (!top || i < top); i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++)
			hints |= leaks->row[leaks->bundle[i].first + k].hints;
	return hints;
}

static const struct {
	const char *name, *text;
} unjudged_words[FLEET_UNJUDGED_NR] = {
	[FLEET_JUDGED] = { "judged", "" },
	[FLEET_UNJUDGED_GAPS] = { "gaps", "with gaps in the recording" },
	[FLEET_UNJUDGED_UNTRACED] = { "untraced", "with growth that no traced block explains" },
	[FLEET_UNJUDGED_SNAPSHOTS] = { "snapshots", "with fewer than four snapshots" },
	[FLEET_UNJUDGED_DROPPED] = { "dropped", "with too many dropped blocks" },
	[FLEET_UNJUDGED_UNBORN] = { "unborn", "without births" },
	[FLEET_UNJUDGED_UNTIMED] = { "untimed", "that do not say when they were recorded" },
	[FLEET_UNJUDGED_PARTS] = { "parts", "with filtered snapshots only" },
	[FLEET_UNJUDGED_GONE] = { "gone", "without files" },
	[FLEET_UNJUDGED_CHANGED] = { "changed", "with files that are unreadable or not what was indexed" },
};

const char *fleet_unjudged_name(enum fleet_unjudged unjudged)
{
	return unjudged_words[unjudged].name;
}

/* " (shopd.4711 on web-4)"; growth that is untraced has lines of its own, which name a process. */
static const char *unjudged_process(char text[UNJUDGED_PROCESS_MAX], const struct fleet_leaks *leaks, int unjudged)
{
	const struct fleet_snapshot *first = leaks->unjudged[unjudged];

	*text = '\0';
	if (unjudged != FLEET_UNJUDGED_UNTRACED)
		snprintf(text, UNJUDGED_PROCESS_MAX, " (%s%.32s.%" PRId64 " on %.64s)", leaks->unjudged_nr[unjudged] == 1 ? "" : "one is ",
			 first->comm, first->pid, first->host);
	return text;
}

const char *fleet_unjudged_text(char text[FLEET_UNJUDGED_MAX], const struct fleet_leaks *leaks)
{
	uint32_t nr = fleet_leaks_unjudged(leaks);
	const char *between = ": ";
	char process[UNJUDGED_PROCESS_MAX];
	size_t len;

	if (!nr)
		return NULL;
	len = snprintf(text, FLEET_UNJUDGED_MAX, "%" PRIu32 " of %" PRIu32 " process%s", nr, leaks->process_nr,
		       leaks->process_nr == 1 ? "" : "es");
	for (int i = FLEET_JUDGED + 1; i < FLEET_UNJUDGED_NR && len < FLEET_UNJUDGED_MAX; i++) {
		if (!leaks->unjudged_nr[i])
			continue;
		len += snprintf(text + len, FLEET_UNJUDGED_MAX - len, "%s%" PRIu32 " %s%s", between, leaks->unjudged_nr[i],
				unjudged_words[i].text, unjudged_process(process, leaks, i));
		between = ", ";
	}
	return text;
}
