// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/launch_user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"

static const char *const replaced[] = { "HOME", "USER", "LOGNAME", "SHELL" };

/* They describe root, or the user behind sudo. */
static const char *const dropped[] = {
	"SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME", "MAIL", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS",
};

static int add_variable(char **variable, const char *name, const char *value)
{
	return asprintf(variable, "%s=%s", name, value) < 0 ? (*variable = NULL, -ENOMEM) : 0;
}

static bool is_variable_of(const char *variable, const char *const *names, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		size_t len = strlen(names[i]);

		if (!strncmp(variable, names[i], len) && variable[len] == '=')
			return true;
	}
	return false;
}

static bool is_kept_variable(const char *variable)
{
	return !is_variable_of(variable, replaced, ARRAY_SIZE(replaced)) &&
	       !is_variable_of(variable, dropped, ARRAY_SIZE(dropped));
}

static int make_environment(struct launch_user *user, const struct passwd *entry)
{
	const char *const value[] = { entry->pw_dir, entry->pw_name, entry->pw_name, entry->pw_shell };
	size_t nr = 0, at = 0;
	int err = 0;

	while (environ && environ[nr])
		nr++;
	user->environment = calloc(nr + ARRAY_SIZE(replaced) + 1, sizeof(*user->environment));
	if (!user->environment)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !err; i++)
		if (is_kept_variable(environ[i]) && !(user->environment[at++] = strdup(environ[i])))
			err = -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(replaced) && !err; i++)
		err = add_variable(&user->environment[at++], replaced[i], value[i]);
	return err;
}

static int find_user_groups(struct launch_user *user, const char *name)
{
	int nr = 16;

	for (;;) {
		gid_t *group = realloc(user->group, nr * sizeof(*group));

		if (!group)
			return -ENOMEM;
		user->group = group;
		user->group_nr = nr;
		if (getgrouplist(name, user->gid, user->group, &user->group_nr) >= 0)
			return 0;
		nr = user->group_nr > nr ? user->group_nr : 2 * nr;
	}
}

static const struct passwd *find_user_entry(const char *name)
{
	const struct passwd *entry = getpwnam(name);
	uint64_t uid;

	if (!entry && !parse_count(name, 0, UINT32_MAX - 1, &uid))
		entry = getpwuid(uid);
	return entry;
}

int launch_user_find(const char *name, struct launch_user *ret, struct reason *why)
{
	const struct passwd *entry = find_user_entry(name);
	int err;

	*ret = (struct launch_user){};
	if (!entry)
		return reason_set(why, -ENOENT, "there is no user '%.100s'", name);
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	err = make_environment(ret, entry) ?: find_user_groups(ret, entry->pw_name);
	if (err)
		launch_user_release(ret);
	return err;
}

void launch_user_release(struct launch_user *user)
{
	for (size_t i = 0; user->environment && user->environment[i]; i++)
		free(user->environment[i]);
	free(user->environment);
	free(user->group);
	*user = (struct launch_user){};
}

int launch_user_become(const struct launch_user *user)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) || setgroups(user->group_nr, user->group) ||
	    setresgid(user->gid, user->gid, user->gid) || setresuid(user->uid, user->uid, user->uid))
		return -errno;
	return 0;
}
