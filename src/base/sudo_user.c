// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/sudo_user.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/units.h"

/* (uid_t)-1 is no user: chown() takes it for "do not change". */
static bool parse_sudo_id(const char *name, uint64_t *ret_id)
{
	const char *text = getenv(name);

	return text && !parse_count(text, 0, UINT32_MAX - 1, ret_id);
}

bool sudo_user_find(uid_t *ret_uid, gid_t *ret_gid)
{
	uint64_t uid, gid;

	if (geteuid() || !parse_sudo_id("SUDO_UID", &uid) || !parse_sudo_id("SUDO_GID", &gid) || !uid)
		return false;
	*ret_uid = uid;
	*ret_gid = gid;
	return true;
}
