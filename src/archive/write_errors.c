// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/write_errors.h"

bool outage_count_lost(struct write_errors *write_errors, int err)
{
	bool is_news = !write_errors->lost || write_errors->err != err;

	write_errors->lost++;
	write_errors->lost_in_pass++;
	write_errors->err = err;
	return is_news;
}

void outage_count_saved(struct write_errors *write_errors)
{
	write_errors->saved_in_pass++;
}

uint64_t write_errors_end_pass(struct write_errors *write_errors)
{
	bool is_over = write_errors->saved_in_pass && !write_errors->lost_in_pass;
	uint64_t lost = is_over ? write_errors->lost : 0;

	if (is_over)
		write_errors->lost = 0;
	write_errors->lost_in_pass = write_errors->saved_in_pass = 0;
	return lost;
}
