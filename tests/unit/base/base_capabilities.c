// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "skip.h"

/* Giving up capabilities: of a process that has some, so as root; each test is a process of its own. */

#define BPF_ONLY CAPABILITY(CAP_BPF)

static void need(uint64_t set)
{
	if ((capabilities_held() & set) != set)
		skip_because("it takes root to give up what only root has");
}

/* A line of /proc/self/status, as the kernel has it. */
static uint64_t told(const char *name)
{
	FILE *file = fopen("/proc/thread-self/status", "re");
	char line[256];
	uint64_t value = ~0ull;

	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, strcmp(name, "NoNewPrivs") ? 16 : 10);
	fclose(file);
	return value;
}

Test(base_capabilities, are_read_as_the_kernel_reports_them)
{
	cr_expect_eq(capabilities_held(), told("CapEff"));
}

Test(base_capabilities, are_dropped_from_all_sets)
{
	static const char *const sets[] = { "CapEff", "CapPrm", "CapBnd" };

	need(BPF_ONLY | CAPABILITY(CAP_SETPCAP));
	cr_assert_eq(capabilities_keep(BPF_ONLY), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		cr_expect_eq(told(sets[i]), BPF_ONLY, "%s", sets[i]);
	cr_expect_eq(told("CapInh"), 0);
	cr_expect_eq(told("CapAmb"), 0);
	cr_expect_eq(told("NoNewPrivs"), 1);
	cr_assert_eq(capabilities_keep(~0ull), 0);
	cr_expect_eq(told("CapPrm"), BPF_ONLY, "what is gone does not come back");
}

Test(base_capabilities, are_dropped_without_cap_setpcap)
{
	need(BPF_ONLY | CAPABILITY(CAP_SETPCAP) | CAPABILITY(CAP_KILL));
	cr_assert_eq(capabilities_keep(BPF_ONLY | CAPABILITY(CAP_KILL)), 0);
	cr_assert_eq(capabilities_keep(BPF_ONLY), 0);
	cr_expect_eq(told("CapPrm"), BPF_ONLY);
	cr_expect_eq(told("CapBnd"), BPF_ONLY | CAPABILITY(CAP_KILL));
}

/* A thread's are its own: it keeps what the others have. */
static void *give_up(void *unused)
{
	(void)unused;
	return (void *)(long)(capabilities_keep(0) ?: told("CapPrm") != 0);
}

Test(base_capabilities, are_dropped_by_a_thread_for_itself_only)
{
	uint64_t before = told("CapPrm");
	pthread_t thread;
	void *failed;

	need(BPF_ONLY);
	cr_assert_eq(pthread_create(&thread, NULL, give_up, NULL), 0);
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_expect_null(failed);
	cr_expect_eq(told("CapPrm"), before);
}

Test(base_capabilities, are_lowered_and_restored)
{
	uint64_t before, held = capabilities_held();

	need(BPF_ONLY);
	cr_assert_eq(capabilities_lower(BPF_ONLY, &before), 0);
	cr_expect_eq(told("CapEff"), held & ~BPF_ONLY);
	cr_assert_eq(capabilities_restore(before), 0);
	cr_expect_eq(told("CapEff"), held);
}

/* ---- capabilities that recording needs ---- */

Test(service_privileges, are_fewer_after_the_programs_are_loaded)
{
	uint64_t needed = privileges__needed(false);

	cr_expect_eq(needed, CAPABILITY(CAP_BPF) | CAPABILITY(CAP_SYS_PTRACE) |
			     CAPABILITY(CAP_CHECKPOINT_RESTORE) | CAPABILITY(CAP_DAC_READ_SEARCH));
	cr_expect_eq(privileges__needed(true) & ~needed,
		     CAPABILITY(CAP_SYS_ADMIN) | CAPABILITY(CAP_SYS_NICE) | CAPABILITY(CAP_LEASE));
}

Test(service_privileges, to_write_are_those_that_the_folder_needs)
{
	char folder[] = "/tmp/allocsnap-privileges.XXXXXX";

	need(CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_CHOWN));
	cr_assert(mkdtemp(folder));
	cr_expect_eq(privileges__to_write(folder), 0, "it is ours");
	cr_assert_eq(chown(folder, 65534, 65534), 0);
	cr_expect_eq(privileges__to_write(folder), CAPABILITY(CAP_DAC_OVERRIDE));
	cr_assert_eq(chmod(folder, 0777), 0);
	cr_expect_eq(privileges__to_write(folder), 0, "it is everybody's");
	cr_expect_neq(capabilities_held() & CAPABILITY(CAP_DAC_OVERRIDE), 0, "it was given back");
	cr_assert_eq(rmdir(folder), 0);
}

static bool find(const char *uid, const char *gid, uid_t *ret_uid, gid_t *ret_gid)
{
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	if (uid)
		setenv("SUDO_UID", uid, 1);
	if (gid)
		setenv("SUDO_GID", gid, 1);
	return sudo_user_find(ret_uid, ret_gid);
}

Test(sudo_user, is_who_ran_sudo)
{
	uid_t uid = 7;
	gid_t gid = 7;

	if (geteuid())
		skip_because("only root is behind sudo");
	cr_expect(find("4242", "4343", &uid, &gid));
	cr_expect(uid == 4242 && gid == 4343);
}

Test(sudo_user, is_none_if_a_variable_is_no_id)
{
	static const char *const bad[][2] = {
		{ NULL, NULL }, { "4242", NULL }, { NULL, "4343" }, { "0", "0" }, { "-1", "1" }, { "4294967295", "1" },
		{ "1", "4294967295" }, { "1x", "1" }, { "", "" }, { "99999999999999999999", "1" },
	};
	uid_t uid = 7;
	gid_t gid = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_not(find(bad[i][0], bad[i][1], &uid, &gid), "%s %s", bad[i][0] ?: "-", bad[i][1] ?: "-");
	cr_expect(uid == 7 && gid == 7, "outputs stay untouched");
}
