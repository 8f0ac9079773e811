// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/recording_cost.h"

#include <errno.h>
#include <time.h>

int cpu_time_read(pid_t pid, uint64_t *ret_ns)
{
	struct timespec time;
	clockid_t clock;
	int err = clock_getcpuclockid(pid, &clock);

	if (err)
		return -err;
	if (clock_gettime(clock, &time))
		return -errno;
	*ret_ns = (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	return 0;
}

uint64_t cost_of_books(const struct trap_costs *costs, const struct process *books)
{
	const uint64_t *counter = books->counter;

	if (!costs->entry_ns)
		return 0;
	return counter[COUNTER_entry_traps] * costs->entry_ns +
	       counter[COUNTER_stepped_traps] * costs->stepped_ns +
	       counter[COUNTER_return_traps] * costs->return_ns + counter[COUNTER_program_ns];
}
