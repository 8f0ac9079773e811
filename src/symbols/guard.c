// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static __thread sigjmp_buf *landing;

static void on_sigbus(int number)
{
	if (landing)
		siglongjmp(*landing, 1);
	signal(number, SIG_DFL);
	raise(number);
}

bool guard_run(void (*work)(void *job), void *job)
{
	const struct sigaction catch = { .sa_handler = on_sigbus };
	struct sigaction before;
	volatile bool is_done = false;
	sigjmp_buf here;

	sigaction(SIGBUS, &catch, &before);
	if (!sigsetjmp(here, 1)) {
		landing = &here;
		work(job);
		is_done = true;
	}
	landing = NULL;
	sigaction(SIGBUS, &before, NULL);
	return is_done;
}
