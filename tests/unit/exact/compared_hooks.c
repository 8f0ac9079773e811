// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define PYTHON_HOOKS_COMPARE
#include "exact/python_hooks.c"

#include "compared_hooks.h"

void turn_compared_hooks(int on)
{
	python_hooks_on.is_on = on;
}

static struct hook late_hook;

void begin_late_free(void)
{
	late_hook = begin_hook();
}

void end_late_free(void *block)
{
	uint64_t size;

	leave_block(&late_hook, (uint64_t)block, &size, true);
	end_hook(&late_hook);
	((free_fn)python_hooks.old[PYTHON_RAW][PYTHON_FREE])(NULL, block);
}

uint64_t own_state_of_hooks(void)
{
	return own_thread_state();
}
