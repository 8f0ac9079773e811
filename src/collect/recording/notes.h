/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_NOTES_H
#define ALLOCSNAP_COLLECT_RECORDING_NOTES_H

/* Lines for the user that the caller has not read yet: see collector__next_note(). */

#include <stddef.h>

/* Zeroed: none. */
struct notes {
	char **note;
	size_t note_nr, note_alloc;
};

/* Adds a copy of the line. Without memory for it the line is lost. */
void notes_add(struct notes *notes, const char *what);

/* Takes the oldest line out, which the caller frees; NULL: there is none. */
char *notes_take(struct notes *notes);

void notes_release(struct notes *notes);

#endif
