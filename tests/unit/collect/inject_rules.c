// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernels and processes that a machine of tests does not have: nothing is injected there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/inject/inject_rules.h"

static const struct kernel_row {
	struct kernel_texts kernel;
	int err;
	const char *word; /* of the line that says why */
} kernels[] = {
	{ { "5.13.0", "", "", "" }, 0, "" },
	{ { "6.18.44", "", "", "" }, 0, "" },
	{ { "10.0", "[none] integrity confidentiality", "0", "1" }, 0, "" },
	{ { "6.8.0-31-generic", "none [integrity] confidentiality", "", "1" }, 0, "" },
	{ { "6.1.0", "", "0\n", "2\n" }, 0, "" },
	{ { "5.12.19", "", "", "" }, -ENOTSUP, "needs Linux 5.13, this is 5.12.19" },
	{ { "4.18.0-553.el8", "", "", "" }, -ENOTSUP, "needs Linux 5.13" },
	{ { "", "", "", "" }, -ENOTSUP, "needs Linux 5.13" },
	{ { "6.11.4-hardened1-1-hardened", "", "", "" }, -ENOTSUP, "hardened kernel" },
	{ { "6.1.2-grsec", "", "", "" }, -ENOTSUP, "hardened kernel" },
	{ { "6.8.0", "none integrity [confidentiality]\n", "", "" }, -ENOTSUP, "locked down" },
	{ { "6.8.0", "", "1", "" }, -ENOTSUP, "SELinux" },
	{ { "6.8.0", "", "", "3\n" }, -ENOTSUP, "ptrace_scope is 3" },
};

Test(inject_rules, refuse_old_and_hardened_kernels)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		struct reason why = {};
		int err = judge_kernel(&kernels[i].kernel, &why);

		cr_expect_eq(err, kernels[i].err, "row %zu: %d", i, err);
		cr_expect(strstr(why.text, kernels[i].word), "row %zu: %s", i, why.text);
	}
}

#define STATUS(state, tgid, tracer, features)                                                       \
	"Name:\tserver\nUmask:\t0022\nState:\t" state "\nTgid:\t" tgid "\nNgid:\t0\nPid:\t4711\n" \
	"TracerPid:\t" tracer "\nVmPeak:\t9 kB\nVmSize:\t8 kB\nThreads:\t1\n" features

static const struct status_row {
	const char *status;
	int err;
	const char *word;
} statuses[] = {
	{ STATUS("S (sleeping)", "4711", "0", ""), 0, "" },
	{ STATUS("R (running)", "4711", "0", "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"), 0, "" },
	{ STATUS("S (sleeping)", "4711", "0", "x86_Thread_features:\tshstk \n"), -ENOTSUP, "shadow stack" },
	{ STATUS("S (sleeping)", "4711", "0", "x86_Thread_features:\tshstk wrss \n"), -ENOTSUP, "shadow stack" },
	{ STATUS("T (stopped)", "4711", "0", ""), -EAGAIN, "process 4711 is stopped" },
	{ STATUS("t (tracing stop)", "4711", "12", ""), -EAGAIN, "is stopped" },
	{ STATUS("S (sleeping)", "4711", "12", ""), -EAGAIN, "process 12 traces it" },
	{ STATUS("Z (zombie)", "4711", "0", ""), -ESRCH, "has ended" },
	{ STATUS("S (sleeping)", "4700", "0", ""), -ENOTSUP, "4711 is a thread of process 4700" },
	{ "Name:\tkthreadd\nState:\tS (sleeping)\nTgid:\t4711\nTracerPid:\t0\n", -ENOTSUP, "thread of the kernel" },
};

Test(inject_rules, refuse_processes_by_their_status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		struct reason why = {};
		int err = judge_target(4711, statuses[i].status, &why);

		cr_expect_eq(err, statuses[i].err, "row %zu: %d", i, err);
		cr_expect(strstr(why.text, statuses[i].word), "row %zu: %s", i, why.text);
	}
}
