/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_DICTIONARY_H
#define ALLOCSNAP_FLEET_DICTIONARY_H

/*
 * What the rows of a catalogue refer to, as a snapshot for the engine (engine/tally.h): trace n is origin n.
 *
 * Its frames have their own names, which filters see, but for what differs from build to build and tells nothing:
 * build-id and offset, where there is a line or a function. Code in no file has no offset either.
 *
 * Keys hold across builds. A frame with a line is its file and line; one without is its function and
 * object, wherever that was mapped; one without a name its build-id and offset, and the object is then called
 * PATH@BUILD-ID, the first 12 digits of it. Files and objects as keys are their paths.
 */

#include <stdbool.h>
#include <stddef.h>

#include "engine.h"

struct catalogue;
struct snapshot;

struct dictionary_options {
	enum key_type key_type; /* that will be asked for */
	const char *const *strip_prefix; /* of filenames and objects; the first that fits is taken away */
	size_t strip_prefix_nr;
	/*
	 * As a key a line is its function and how far it lies behind that one's first: its filename is FILE:FUNCTION,
	 * its lineno the distance, and the first line itself is in no object, or it would be another one in each.
	 * Where the first line is not known, the line is as it is.
	 */
	bool line_drift;
};

struct dictionary {
	struct snapshot *snapshot;
	uint32_t *key_frame; /* for struct engine_options; may be NULL */
};

/* Ends with dictionary_release(). A zeroed struct is none. */
int dictionary_read(struct catalogue *catalogue, const struct dictionary_options *options,
		    struct dictionary *ret, struct reason *why);
void dictionary_release(struct dictionary *dictionary);

#endif
