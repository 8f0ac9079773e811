/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_FILE_NAME_H
#define ALLOCSNAP_BASE_FILE_NAME_H

/* Converts an untrusted name to a file name: bytes other than these become '_'. */
#define FILE_NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Changes the name in place. A leading dot becomes '_', too, so that no file is hidden or is "..". */
void clean_file_name(char *name);

#endif
