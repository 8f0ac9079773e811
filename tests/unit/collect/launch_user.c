// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/process/launch_user.h"

/* The value of the only variable of this name, or NULL. */
static const char *variable_of(const struct launch_user *user, const char *name)
{
	const char *value = NULL;
	size_t len = strlen(name);

	for (size_t i = 0; user->environment[i]; i++) {
		if (strncmp(user->environment[i], name, len) || user->environment[i][len] != '=')
			continue;
		cr_expect_null(value, "%s is there twice", name);
		value = user->environment[i] + len + 1;
	}
	return value;
}

static void expect_root(const char *name)
{
	struct launch_user user;
	struct reason why = {};

	cr_assert_eq(launch_user_find(name, &user, &why), 0, "%s", why.text);
	cr_expect(user.uid == 0 && user.gid == 0 && user.group_nr >= 1);
	cr_expect_str_eq(variable_of(&user, "HOME"), "/root");
	cr_expect_str_eq(variable_of(&user, "USER"), "root");
	cr_expect_str_eq(variable_of(&user, "LOGNAME"), "root");
	cr_expect_not_null(variable_of(&user, "SHELL"));
	cr_expect_str_eq(variable_of(&user, "KEPT"), "as it is");
	launch_user_release(&user);
}

Test(launch_user, has_its_own_home_and_our_other_variables)
{
	setenv("HOME", "/home/somebody", 1);
	setenv("USER", "somebody", 1);
	setenv("KEPT", "as it is", 1);
	expect_root("root");
	expect_root("0");
}

Test(launch_user, is_named_if_it_does_not_exist)
{
	struct launch_user user;
	struct reason why = {};

	cr_expect_eq(launch_user_find("no such user", &user, &why), -ENOENT);
	cr_expect_str_eq(why.text, "there is no user 'no such user'");
	cr_expect_eq(launch_user_find("4294967294", &user, &why), -ENOENT);
}
