// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "skip.h"

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
