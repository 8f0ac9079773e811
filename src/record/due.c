// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/due.h"

#include <stdlib.h>

#include "base/array.h"
#include "collect.h"

static void due_check_process(struct due *due, struct collector *collector, size_t i,
			      const struct trigger_options *options)
{
	struct due_process process = {};
	struct process_view view;

	collector__view(collector, i, &view);
	process = (struct due_process){ view.pid, triggers__judge(options, &view) };
	if (!process.trigger)
		due->is_soon |= collector__ring_at(collector, i, triggers__threshold(options, &view));
	else if (array_push(due, process, process)) /* no memory: look again soon */
		due->is_soon = true;
}

void due_find(struct due *due, struct collector *collector, const struct trigger_options *options)
{
	due->process_nr = 0;
	due->is_soon = false;
	if (!triggers__any(options))
		return;
	for (size_t i = 0; i < collector__process_nr(collector); i++)
		due_check_process(due, collector, i, options);
}

enum trigger due_trigger(const struct due *due, pid_t pid)
{
	for (size_t i = 0; i < due->process_nr; i++)
		if (due->process[i].pid == pid)
			return due->process[i].trigger;
	return TRIGGER_NONE;
}

void due_release(struct due *due)
{
	free(due->process);
	*due = (struct due){};
}
