/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_PATTERN_H
#define ALLOCSNAP_ENGINE_PATTERN_H

#include <stdbool.h>

/*
 * Python's fnmatch.fnmatchcase() (3.11), over UTF-8; a byte that is not part of it is the code
 * point that surrogateescape gives it. No memory, and time at most length × length.
 *
 *	*	anything, slashes and newlines too
 *	?	any code point
 *	[a-z]	one of these; a range that is empty (z-a) is as if it were not written
 *	[!a-z]	none of these; ^ is a member like any other
 *	[	itself, where no ] follows
 *
 * A ] that comes first is a member. There is no escape: [*] is an asterisk.
 */
bool pattern_matches(const char *pattern, const char *name);

/* tracemalloc.Filter's reading: ".pyc" at the end of either is ".py". */
bool pattern_matches_filename(const char *pattern, const char *filename);

#endif
