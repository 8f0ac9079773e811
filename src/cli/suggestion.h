/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_SUGGESTION_H
#define ALLOCSNAP_CLI_SUGGESTION_H

/* "did you mean …": finds the known word that is closest to an unknown one. */

#include <stddef.h>

#define SUGGESTION_WORD_MAX 32
#define SUGGESTION_TEXT_MAX (SUGGESTION_WORD_MAX + 32)

struct suggestion {
	char typed[SUGGESTION_WORD_MAX]; /* empty: too long to be a misspelt word */
	const char *closest;		 /* NULL: no known word is close */
	unsigned int distance;		 /* of closest */
};

/* The first `len` bytes of `typed` are the unknown word. */
void suggestion_start(struct suggestion *suggestion, const char *typed, size_t len);

/*
 * A known word is close if the unknown one is its beginning, or differs from it by at most two edits; a
 * word of two or three letters by one. Of equally close words the first one wins.
 */
void suggestion_consider(struct suggestion *suggestion, const char *known);

/* " (did you mean --count?)", with the dashes that are passed; "" if no known word is close. Returns text. */
const char *suggestion_format(char text[SUGGESTION_TEXT_MAX], const struct suggestion *suggestion,
			      const char *dashes);

#endif
