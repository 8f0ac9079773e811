// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/retention/keep_clock.h"

void keep_clock_begin(struct keep_clock *clock, uint64_t newest_ms, uint64_t wall_ms, uint64_t boot_ms)
{
	*clock = (struct keep_clock){
		.wall_ms = wall_ms,
		.boot_ms = boot_ms,
		.time_ms = newest_ms && newest_ms < wall_ms ? newest_ms : wall_ms,
		.ahead_boot_ms = boot_ms,
	};
}

uint64_t keep_clock_look(struct keep_clock *clock, uint64_t keep_ms, uint64_t wall_ms, uint64_t boot_ms)
{
	uint64_t passed_ms = boot_ms - clock->boot_ms;

	if (wall_ms > clock->wall_ms + passed_ms + KEEP_CLOCK_STEP_MS)
		clock->ahead_boot_ms = boot_ms;
	clock->wall_ms = wall_ms;
	clock->boot_ms = boot_ms;
	clock->time_ms += passed_ms;
	if (wall_ms <= clock->time_ms + KEEP_CLOCK_STEP_MS || boot_ms - clock->ahead_boot_ms >= keep_ms)
		clock->time_ms = wall_ms;
	return clock->time_ms;
}
