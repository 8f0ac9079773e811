// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Trials run in a child: the results if the child does not survive them. */
#include "collect/probe/feature_probes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>


#define NO_CALL 100000

Test(trials, of_filters_show_whether_a_filtered_call_kills)
{
	cr_expect_eq(trial_filtered_call(SYS_getpid), -EFAULT);
	cr_expect_eq(trial_filtered_call(NO_CALL), -ENOSYS);
}

/* As a service manager does: from here on the calls that it does not know fail. */
static void hide_unknown_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_CALL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(trials, of_filters_are_inconclusive_under_our_own_filter)
{
	hide_unknown_calls();
	cr_expect_eq(trial_filtered_call(NO_CALL), -EACCES);
	cr_expect_eq(trial_filtered_call(SYS_getpid), -EFAULT);
}

Test(trials, of_return_calls_give_a_known_result)
{
	int err = trial_return_call();

	cr_expect(!err || err == -ENOSYS || err == -EFAULT, "%d", err);
}
