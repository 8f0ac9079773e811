/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REASON_H
#define ALLOCSNAP_REASON_H

/*
 * Why something failed, for a person to read. A function that can fail in a way that a user must
 * act upon takes a `struct reason *why` (NULL: not wanted), returns a negative errno (or NULL,
 * with errno set), and leaves one line there, without a newline and without the program's name;
 * where a file is what failed, the line begins with its name.
 */
struct reason {
	char text[512];
};

#endif
