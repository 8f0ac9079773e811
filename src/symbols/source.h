/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_SOURCE_H
#define ALLOCSNAP_SYMBOLS_SOURCE_H

/*
 * Who reads the files for a struct symbols: this process (direct.h), or one without privileges
 * (parser/parser.h). What a source hands over need not be true, only well-formed: function and
 * filename are text or NULL, a line has a filename and the other way round, and
 * without one there is no first line.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "symbols/symbols.h"

struct source_object {
	uint32_t id; /* from 0, without gaps */
	int fd;
	const char *path; /* in its process */
};

/* Takes the frames of question i: 1 to SYMBOL_INLINE_MAX. Anything but 0 ends the look-up. */
typedef int (*take_frames_fn)(void *taker, size_t i, const struct symbol *frame, int frame_nr);

struct symbol_source {
	/*
	 * The frames at the calls before these return addresses, in order. 0; -EIO and a line in *why:
	 * the file cannot be read, and who was not answered will not be; -ENOMEM; what `take` gave.
	 */
	int (*look_up)(void *self, const struct source_object *object,
		       const uint64_t *return_offset, size_t nr, take_frames_fn take, void *taker,
		       struct reason *why);
	/* What it keeps of the object with this id goes, its descriptor too; the id may be another one's next. NULL: nothing. */
	void (*forget)(void *self, uint32_t id);
	void *self;
};

#endif
