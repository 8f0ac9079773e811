// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/temporary_folder.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/*
 * A folder of another user is not used: this user could put another one in the place of ours, and root cannot remove
 * it there without the privileges that recording gives up.
 */
static const char *choose_temporary_base(void)
{
	const char *base = getenv("TMPDIR");
	struct stat st;

	if (!base || !*base)
		return "/tmp";
	if (stat(base, &st) || !st.st_uid || st.st_uid == geteuid())
		return base;
	log_info("temporary files go to /tmp: TMPDIR, %s, belongs to another user", base);
	return "/tmp";
}

int temporary_folder_make(const char *name, char **ret_path)
{
	char *path;

	if (asprintf(&path, "%s/allocsnap-%s.XXXXXX", choose_temporary_base(), name) < 0)
		return log_failure("out of memory");
	if (mkdtemp(path)) {
		*ret_path = path;
		return EXIT_DONE;
	}
	log_failure("%s: %s", path, strerror(errno));
	free(path);
	return EXIT_FAILED;
}

void temporary_folder_remove(const char *path)
{
	char *const roots[] = { (char *)path, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *entry;

	while (tree && (entry = fts_read(tree)))
		if (entry->fts_info != FTS_D && remove(entry->fts_accpath))
			log_failure("%s: %s", entry->fts_path, strerror(errno));
	if (tree)
		fts_close(tree);
}
