// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/retention/write_errors.h"

bool outage_lost(struct outage *outage, int err)
{
	bool is_news = !outage->lost || outage->err != err;

	outage->lost++;
	outage->lost_in_pass++;
	outage->err = err;
	return is_news;
}

void outage_saved(struct outage *outage)
{
	outage->saved_in_pass++;
}

uint64_t outage_end_pass(struct outage *outage)
{
	bool is_over = outage->saved_in_pass && !outage->lost_in_pass;
	uint64_t lost = is_over ? outage->lost : 0;

	if (is_over)
		outage->lost = 0;
	outage->lost_in_pass = outage->saved_in_pass = 0;
	return lost;
}
