// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target/exited_totals.h"

#include <string.h>

#include "collect/target/target.h"

void gone_add(struct gone *gone, const struct process *books)
{
	gone->allocations += books->counter[COUNTER_allocations];
	gone->frees += books->counter[COUNTER_frees];
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += books->loss[i];
}

void found_losses_add(struct found_losses *found, uint64_t exec_cnt, const uint64_t loss[LOSS_NR])
{
	if (found->exec_cnt != exec_cnt)
		memset(found->last, 0, sizeof(found->last));
	found->exec_cnt = exec_cnt;
	for (int i = 0; i < LOSS_NR; i++) {
		if (loss[i] > found->last[i])
			found->sum[i] += loss[i] - found->last[i];
		found->last[i] = loss[i];
	}
}

void gone_add_target(struct gone *gone, const struct target *target)
{
	gone_add(gone, &target->now.books);
	for (int i = 0; i < LOSS_NR; i++)
		gone->loss[i] += target->losses.found.sum[i];
}

bool target_is_unprobed(const struct target *target)
{
	const uint64_t *counter = target->now.books.counter;
	struct object *const *object = target->mappings.objects->object;
	bool is_unknown = !target->late.seen_nr;

	for (size_t i = 0; i < target->late.seen_nr; i++)
		is_unknown |= object[target->late.seen[i].object]->unreadable != NULL;
	return is_unknown && !target->now.books.is_forked && !counter[COUNTER_allocations] &&
	       !counter[COUNTER_unknown_frees];
}
