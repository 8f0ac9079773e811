// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void notes_add(struct notes *notes, const char *what)
{
	char *note = strdup(what);

	if (note && array_push(notes, note, note))
		free(note);
}

char *notes_take(struct notes *notes)
{
	char *note;

	if (!notes->note_nr)
		return NULL;
	note = notes->note[0];
	memmove(notes->note, notes->note + 1, --notes->note_nr * sizeof(*notes->note));
	return note;
}

void notes_release(struct notes *notes)
{
	for (size_t i = 0; i < notes->note_nr; i++)
		free(notes->note[i]);
	free(notes->note);
}
