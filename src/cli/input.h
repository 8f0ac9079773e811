/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INPUT_H
#define ALLOCSNAP_INPUT_H

/* Files in: what fails has been said, and what a snapshot does not know is said on stderr. */

#include <stddef.h>

struct snapshot;

/* A snapshot file. NULL: it failed, and that has been said. */
struct snapshot *open_snapshot(const char *path);

/* What was read, and the memory that a snapshot from a stream lies in. */
struct input {
	struct snapshot *snapshot;
	char *bytes;
	size_t len;
};

/*
 * A snapshot file or CPython's tuple form in JSON, told apart by what is in it; "-" is the
 * standard input, and other streams will do. An exit status. Ends with input_release(), also after
 * a failure.
 */
int input_read(struct input *input, const char *path);
void input_release(struct input *input);

#endif
