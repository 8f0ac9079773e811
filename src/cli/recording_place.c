// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/recording_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/host_name.h"
#include "base/privileges.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/file_owner.h"
#include "cli/find_snapshot.h"
#include "collect.h"
#include "record/recording.h"
#include "snapshot.h"

/* ---- the folder --------------------------------------------------------------------------- */

/* The folder that is written to. The caller frees it; NULL: no memory. */
static char *recording_folder(const struct recording_options *recording)
{
	return recording->file ? folder_of_path(recording->file) : strdup(recording->dir);
}

/* Whether the default folder is a real one, or is still to be made: a link may lead anywhere. */
static bool is_own_data_folder(const char *folder)
{
	struct stat st;

	return !strcmp(folder, DATA_DIR) && (lstat(folder, &st) ? errno == ENOENT : S_ISDIR(st.st_mode));
}

void recording_place_resolve(struct recording_options *recording)
{
	char *folder;

	recording->file = is_snapshot_path(recording->dir) && !is_folder(recording->dir) ? recording->dir : NULL;
	folder = recording_folder(recording);
	/* Without -o, the files belong to the user behind sudo wherever the current folder is. */
	recording->owner = choose_owner_in(folder, folder && is_own_data_folder(folder));
}

/* ---- checks ------------------------------------------------------------------------------- */

int recording_place_refuse(const struct command *command, struct recording_options *recording, size_t process_nr,
			   bool follows)
{
	if (!recording->file)
		return EXIT_DONE;
	if (process_nr != 1)
		return log_refusal(command, "-o FILE.snap is for one process; several need -o DIR");
	if (follows)
		return log_refusal(command, "-o FILE.snap is for one process; --follow-forks needs -o DIR");
	if (recording->count > 1)
		return log_refusal(command, "-o FILE.snap is for one snapshot; --count %ju needs -o DIR",
				   (uintmax_t)recording->count);
	if (triggers__are_set(&recording->triggers) || recording->triggers.on_oom)
		return log_refusal(command, "-o FILE.snap is for one snapshot; --on-growth, --on-peak and --on-oom "
				   "need -o DIR");
	recording->count = 1;
	return EXIT_DONE;
}

int recording_place_look(const struct recording_options *recording)
{
	char *wanted = recording_folder(recording), *folder = wanted ? nearest_folder(wanted) : NULL;
	int err = folder ? 0 : ENOMEM;
	struct stat st;

	if (!err)
		err = stat(folder, &st) ? errno : !S_ISDIR(st.st_mode) ? ENOTDIR : 0;
	if (!err && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
		err = errno;
	if (err)
		log_failure("cannot write into %s: %s", wanted ?: recording->dir, strerror(err));
	free(folder);
	free(wanted);
	return err ? EXIT_FAILED : EXIT_DONE;
}

int recording_place_check(const struct recording_options *recording)
{
	char *folder = recording_folder(recording);
	struct reason why = { "out of memory" };
	struct stat st;
	int err = folder ? archive_check_folder(folder, &recording->owner, &why) : -ENOMEM;

	if (!err && recording->file && !lstat(recording->file, &st))
		err = reason_set(&why, -EEXIST, "%s: it exists already, and is not replaced", recording->file);
	free(folder);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

/* ---- privileges --------------------------------------------------------------------------- */

uint64_t privileges_to_make(const char *path)
{
	char *folder = nearest_folder(path);
	uint64_t needed = folder ? privileges__to_write(folder) : 0;

	free(folder);
	return needed;
}

/* The folder of this host may already exist and belong to another user. */
static uint64_t needed_below(const char *dir)
{
	char host[HOST_NAME_BYTES];
	uint64_t needed;
	char *path;

	clean_file_name(own_host_name(host));
	if (asprintf(&path, "%s/%s", dir, host) < 0)
		return 0;
	needed = privileges_to_make(path);
	free(path);
	return needed;
}

/* Folders of another user can only be written to with the second of them. */
static uint64_t needed_for_owner(const struct recording_options *recording)
{
	return recording->owner.is_set ? CAPABILITY(CAP_CHOWN) | CAPABILITY(CAP_DAC_OVERRIDE) : 0;
}

int drop_privileges(const struct collector *collector, const struct recording_options *recording, uint64_t also)
{
	char *folder = recording_folder(recording);
	struct reason why = { "out of memory" };
	uint64_t kept;
	int err = -ENOMEM;

	if (folder) {
		kept = privileges__needed(collector__has_events(collector)) | privileges__to_write(folder) |
		       needed_below(folder) | needed_for_owner(recording) | also;
		err = privileges__drop(kept, &why);
	}
	free(folder);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}
