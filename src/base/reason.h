/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_REASON_H
#define ALLOCSNAP_BASE_REASON_H

/*
 * Why something failed, for a person to read.
 *
 * Library code never prints. A function that can fail in a way that a user must act upon takes
 * a `struct reason *why` (NULL: not wanted), returns a negative errno, and leaves one line
 * there, without a newline and without the program's name.
 */
struct reason {
	char text[512];
};

/* Formats the line and returns err, so that `return reason_set(why, -EINVAL, …)` reads well. */
__attribute__((format(printf, 3, 4)))
int reason_set(struct reason *why, int err, const char *fmt, ...);

#endif
