/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_FILE_OWNER_H
#define ALLOCSNAP_CLI_FILE_OWNER_H

#include <stdbool.h>

#include "snapshot.h"

/* The owner of a file that a command writes there: the user behind sudo, in a folder of that user; else not set. */
struct snapshot_file_owner choose_file_owner(const char *path);

/* The same in a folder; is_own: in any case. Takes the folder's name over; NULL: no memory for it. */
struct snapshot_file_owner choose_owner_in(char *folder, bool is_own);

/* The folder, or the nearest one above it that exists. The caller frees it; NULL: no memory. */
char *nearest_folder(const char *path);

#endif
