/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_PATTERN_H
#define ALLOCSNAP_ENGINE_PATTERN_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Python's fnmatch.fnmatchcase() (3.11), for UTF-8. A byte that is not valid UTF-8 is the code point that
 * surrogateescape gives it. It allocates no memory and takes at most length × length steps.
 *
 *	*	anything, including slashes and newlines
 *	?	any code point
 *	[a-z]	one of these; an empty range (z-a) is ignored
 *	[!a-z]	none of these; ^ is an ordinary member
 *	[	itself, if no ] follows
 *
 * A ] that comes first is a member. There is no escape: [*] is an asterisk.
 */
bool pattern_matches(const char *pattern, const char *name);

/* Whether the pattern matches nothing but itself. */
bool pattern_is_plain(const char *pattern);

/* Writes a regular expression of RE2 that matches the same valid UTF-8. Returns -EILSEQ: the pattern is no UTF-8. */
int pattern_write_regex(const char *pattern, FILE *out);

/* Matches as tracemalloc.Filter does: ".pyc" at the end of either text becomes ".py". */
bool pattern_matches_filename(const char *pattern, const char *filename);

/* Whether the pattern matches a folder that the path lies in: "*shop" matches "/home/me/shop/src/a.c". */
bool pattern_matches_folder(const char *pattern, const char *path);

#endif
