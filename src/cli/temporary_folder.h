/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_TEMPORARY_FOLDER_H
#define ALLOCSNAP_CLI_TEMPORARY_FOLDER_H

/*
 * Makes allocsnap-NAME.XXXXXX, mode 0700, in $TMPDIR if that belongs to root or to the own user, otherwise in /tmp.
 * Returns an exit status; logs failures, and that $TMPDIR is not used. The caller frees *ret_path.
 */
int temporary_folder_make(const char *name, char **ret_path);

/* Removes the folder with all that is in it; logs failures. */
void temporary_folder_remove(const char *path);

#endif
