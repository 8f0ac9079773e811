/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_NAME_H
#define ALLOCSNAP_BASE_FILE_NAME_H

/* What a name of somebody else's may hold where it becomes a file's: other bytes become '_'. */
#define FILE_NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* In place. A leading dot becomes '_', too: no file is hidden, none is "..". */
void clean_file_name(char *name);

#endif
