// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect.h"
#include "process/launch.h"
#include "collect/recording/admission.h"

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

/* ---- admission ---- */

/* Rules as the command line has them, and as the kernel's side gets them. */

static int parse(enum admission_key key, const char *text, struct rule *ret, struct reason *why)
{
	return admission_parse(&(struct admission_rule){ key, false, text }, ret, why);
}

Test(admission, parses_patterns)
{
	struct rule rule;
	struct reason why;

	cr_assert_eq(admission_parse(&(struct admission_rule){ ADMISSION_EXE, true, "/usr/*" }, &rule,
				     &why), 0);
	cr_expect_eq(rule.key, RULE_EXE);
	cr_expect_eq(rule.excludes, 1);
	cr_expect_str_eq(rule.pattern, "/usr/*");
}

Test(admission, accepts_patterns_of_up_to_255_bytes)
{
	char text[ADMISSION_PATTERN_MOST + 2];
	struct rule rule;
	struct reason why;

	memset(text, 'a', sizeof(text));
	text[ADMISSION_PATTERN_MOST] = '\0';
	cr_expect_eq(parse(ADMISSION_COMM, text, &rule, &why), 0);
	text[ADMISSION_PATTERN_MOST] = 'a';
	text[ADMISSION_PATTERN_MOST + 1] = '\0';
	cr_expect_eq(parse(ADMISSION_COMM, text, &rule, &why), -EINVAL);
	cr_expect_str_eq(why.text, "a pattern has 1 to 255 bytes");
	cr_expect_eq(parse(ADMISSION_COMM, "", &rule, &why), -EINVAL);
}

/* Brackets would match themselves, which users do not expect: they are refused. */
Test(admission, refuses_brackets)
{
	struct rule rule;
	struct reason why;

	cr_expect_eq(parse(ADMISSION_CGROUP, "/a[0-9]", &rule, &why), -EINVAL);
	cr_expect_str_eq(why.text, "'/a[0-9]': a pattern has * and ?, and no []");
}

Test(admission, accepts_users_by_name_and_by_number)
{
	struct rule rule;
	struct reason why;

	cr_assert_eq(parse(ADMISSION_UID, "root", &rule, &why), 0);
	cr_expect_eq(rule.number, 0);
	cr_assert_eq(parse(ADMISSION_UID, "65534", &rule, &why), 0);
	cr_expect_eq(rule.number, 65534);
	cr_expect_eq(parse(ADMISSION_UID, "no-such-user", &rule, &why), -EINVAL);
	cr_expect_str_eq(why.text, "'no-such-user' is no user");
}

Test(admission, accepts_pids)
{
	struct rule rule;
	struct reason why;

	cr_assert_eq(parse(ADMISSION_PID, "7", &rule, &why), 0);
	cr_expect_eq(rule.number, 7);
	cr_expect_eq(parse(ADMISSION_PID, "0", &rule, &why), -EINVAL);
	cr_expect_eq(parse(ADMISSION_PID, "x", &rule, &why), -EINVAL);
}

static int configure(const struct admission_rule *rule, size_t nr, struct rules *rules)
{
	const struct collector_options options = {
		.system_wide = true, .rule = rule, .rule_nr = nr, .min_bytes = 5,
	};
	struct reason why;

	return admission_configure(rules, &options, &why);
}

Test(admission, records_which_facts_the_rules_need)
{
	static struct rules rules;
	const struct admission_rule rule[] = { { ADMISSION_COMM, false, "a" },
					       { ADMISSION_CGROUP, true, "b" } };

	cr_assert_eq(configure(rule, 2, &rules), 0);
	cr_expect_eq(rules.nr, 2);
	cr_expect_eq(rules.system_wide, 1);
	cr_expect_eq(rules.min_bytes, 5);
	cr_expect_eq(rules.has_pids, 0);
	cr_expect(rules.has_texts & 1 << RULE_CGROUP);
	cr_expect(!(rules.has_texts & 1 << RULE_EXE));
	cr_assert_eq(configure((struct admission_rule[]){ { ADMISSION_PID, false, "7" }, rule[0] }, 2, &rules), 0);
	cr_expect_eq(rules.has_pids, 1);
}

Test(admission, accepts_64_rules_at_most)
{
	static struct rules rules;
	struct admission_rule rule[ADMISSION_RULES_MOST + 1];

	for (int i = 0; i <= ADMISSION_RULES_MOST; i++)
		rule[i] = (struct admission_rule){ ADMISSION_PID, false, "7" };
	cr_expect_eq(configure(rule, ADMISSION_RULES_MOST, &rules), 0);
	cr_expect_eq(rules.has_pids, 1);
	cr_expect_eq(configure(rule, ADMISSION_RULES_MOST + 1, &rules), -EINVAL);
}
