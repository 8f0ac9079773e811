/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REASON_H
#define ALLOCSNAP_REASON_H

/*
 * An error message for a person. A function with errors that a user must act on takes a `struct reason *why` (NULL:
 * not wanted). On failure it returns a negative errno (or NULL with errno set) and stores one line in *why, without a
 * newline and without the program's name. If a file caused the failure, the line begins with the name of the file.
 */
struct reason {
	char text[512];
};

#endif
