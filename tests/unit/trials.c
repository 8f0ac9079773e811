// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Trials on a child of ours: what they say of what it does not come through. */
#include "collect/trials.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/syscall.h>

#include "collect/trials_private.h"

#define NO_CALL 100000

Test(trials, filters_end_who_makes_a_call)
{
	cr_expect_eq(trial_filtered_call(SYS_getpid), -EFAULT);
	cr_expect_eq(trial_filtered_call(NO_CALL), -ENOSYS);
}

Test(trials, of_returns_are_made)
{
	int err = trial_return_call();

	cr_expect(!err || err == -ENOSYS || err == -EFAULT, "%d", err);
}
