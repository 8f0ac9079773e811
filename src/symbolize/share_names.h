/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_SHARE_NAMES_H
#define ALLOCSNAP_SYMBOLIZE_SHARE_NAMES_H

/*
 * Makes the names of two snapshots comparable. A place is an offset in an object with a build-id; without one nothing
 * says which file it was, and nothing is lent. Nor is it if the place has a function of another name already. If one of two snapshots has a line, inlined calls or a
 * function for a place, and the other has not, both get them: a snapshot and its symbolized copy have equal rows then.
 */

#include <stdint.h>

struct snapshot;

/* Places that stay without a line, in an object that has no line in this snapshot and some in the other one. */
struct unshared_names {
	uint64_t place_nr;
	const char *path; /* of the first such object; valid as long as the snapshot */
};

struct shared_names {
	/* Copies with more names. NULL: the snapshot can gain none. The caller closes them. */
	struct snapshot *named[2];
	struct unshared_names unshared[2];
};

/* 0 or a negative errno; -EFBIG: with inlined calls a snapshot would have too many frames. */
int names_share(const struct snapshot *const both[2], struct shared_names *ret);

#endif
