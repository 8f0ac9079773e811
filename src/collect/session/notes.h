/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_NOTES_H
#define ALLOCSNAP_COLLECT_NOTES_H

/* Lines for the user that the caller has not read yet: see collector__next_note(). */

#include <stddef.h>

/* Zeroed: none. */
struct notes {
	char **note;
	size_t note_nr, note_alloc;
};

#endif
