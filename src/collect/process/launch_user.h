/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_LAUNCH_USER_H
#define ALLOCSNAP_COLLECT_PROCESS_LAUNCH_USER_H

#include <stddef.h>
#include <sys/types.h>

struct reason;

/* Another user that a program is started as. */
struct launch_user {
	uid_t uid;
	gid_t gid;
	gid_t *group; /* all groups of the user */
	int group_nr;
	char **environment; /* ours without sudo's; HOME, USER, LOGNAME and SHELL are the user's; ends with NULL */
};

/* Looks up a user by name or number. 0, or a negative errno with a line in *why. */
int launch_user_find(const char *name, struct launch_user *ret, struct reason *why);
void launch_user_release(struct launch_user *user);

/* Makes the calling process this user's, for good. 0 or a negative errno. Safe after fork. */
int launch_user_become(const struct launch_user *user);

#endif
