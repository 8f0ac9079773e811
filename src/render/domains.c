// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/domains.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"

const char *domain_text(char text[DOMAIN_TEXT_MAX], const struct snapshot *snapshot, uint32_t domain)
{
	const char *name = snapshot__domain_name(snapshot, domain);

	if (name)
		snprintf(text, DOMAIN_TEXT_MAX, "%" PRIu32 " (%s)", domain, name);
	else
		snprintf(text, DOMAIN_TEXT_MAX, "%" PRIu32, domain);
	return text;
}

/* Takes the name from the new snapshot of two, if it has one. */
const char *statistic_domain_name(const struct report *report, const struct statistic *statistic)
{
	const char *name = NULL;
	uint64_t domain;

	if (report->statistics->key_type != KEY_DOMAIN ||
	    parse_count(statistic->key, 0, UINT32_MAX, &domain))
		return NULL;
	for (size_t i = report->snapshot_nr; i-- && !name;)
		name = snapshot__domain_name(report->snapshot[i], domain);
	return name;
}
