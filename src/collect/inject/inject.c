// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/inject.h"

#include <errno.h>
#include <stddef.h>

#include "base/reason.h"

int inject_plan_make(struct parser *parser, pid_t pid, struct inject_plan **ret, struct reason *why)
{
	(void)parser;
	(void)pid;
	*ret = NULL;
	return reason_set(why, -ENOSYS, "not built yet");
}

void inject_plan_free(struct inject_plan *plan)
{
	(void)plan;
}

int inject_execute(struct inject_plan *plan, const struct inject_options *options, struct inject_times *ret,
		   struct reason *why)
{
	(void)plan;
	(void)options;
	(void)ret;
	return reason_set(why, -ENOSYS, "not built yet");
}

int inject_find(pid_t pid, struct inject_found *ret, struct reason *why)
{
	(void)pid;
	(void)ret;
	return reason_set(why, -ENOSYS, "not built yet");
}

int inject_eject(pid_t pid, pid_t owner, struct eject_result *ret, struct reason *why)
{
	(void)pid;
	(void)owner;
	(void)ret;
	return reason_set(why, -ENOSYS, "not built yet");
}
