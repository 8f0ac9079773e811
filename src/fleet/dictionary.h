/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_DICTIONARY_H
#define ALLOCSNAP_FLEET_DICTIONARY_H

/*
 * What the rows of a catalogue refer to, as a snapshot for the engine (engine/tally.h): trace n is origin n.
 *
 * Keys hold across builds. A frame with a line is its file and line; one without is its function and
 * object, wherever that was mapped; one without a name its build-id and offset, and the object is then called
 * PATH@BUILD-ID, the first 12 digits of it. Code in no file has no offset.
 */

#include <stdbool.h>
#include <stddef.h>

#include "reason.h"

struct catalogue;
struct snapshot;

struct dictionary_options {
	const char *const *strip_prefix; /* of filenames and objects; the first that fits is taken away */
	size_t strip_prefix_nr;
	/*
	 * A line is its function and how far it lies behind that one's first: "FILE:FUNCTION+3". Where the
	 * first line is not known, the line is as it is. The frame's filename is FILE:FUNCTION, its lineno the distance.
	 */
	bool line_drift;
};

/* Ends with snapshot__close(). */
int dictionary_read(struct catalogue *catalogue, const struct dictionary_options *options,
		    struct snapshot **ret, struct reason *why);

#endif
