/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_TEMPORARY_FOLDER_H
#define ALLOCSNAP_CLI_TEMPORARY_FOLDER_H

#include "helper/helper.h"

/*
 * A folder that does not outlive the process, whichever way this ends: a child makes the folder, waits for the end of
 * this process, and then removes it. A zeroed struct has none.
 */
struct temporary_folder {
	char *path;
	struct helper child;
};

/*
 * Makes allocsnap-NAME.XXXXXX, mode 0700, in $TMPDIR if that belongs to root or to the own user, otherwise in /tmp.
 * Returns an exit status; logs failures, and that $TMPDIR is not used.
 */
int temporary_folder_make(const char *name, struct temporary_folder *ret);

/* Removes the folder with all that is in it; logs failures. */
void temporary_folder_remove(struct temporary_folder *folder);

#endif
