// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/file_owner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/privileges.h"

char *nearest_folder(const char *path)
{
	char *folder = strdup(path);
	struct stat st;

	while (folder && stat(folder, &st) && errno == ENOENT && strcmp(folder, ".") && strcmp(folder, "/")) {
		char *parent = folder_of_path(folder);

		free(folder);
		folder = parent;
	}
	return folder;
}

/* Whether the folder, or the nearest one above it that exists, is this user's. */
static bool is_place_of(const char *path, uid_t uid)
{
	char *folder = nearest_folder(path);
	struct stat st;
	bool is_owner = false;

	if (folder && !stat(folder, &st))
		is_owner = st.st_uid == uid;
	free(folder);
	return is_owner;
}

struct snapshot_file_owner choose_owner_in(char *folder, bool is_own)
{
	struct snapshot_file_owner owner = {};

	if (folder && sudo_user_find(&owner.uid, &owner.gid))
		owner.is_set = is_own || is_place_of(folder, owner.uid);
	free(folder);
	return owner;
}

struct snapshot_file_owner choose_file_owner(const char *path)
{
	return choose_owner_in(folder_of_path(path), false);
}
