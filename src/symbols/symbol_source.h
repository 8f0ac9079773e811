/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_SYMBOL_SOURCE_H
#define ALLOCSNAP_SYMBOLS_SYMBOL_SOURCE_H

/*
 * A source reads the files for a struct symbols: in this process (direct.h), or in a process
 * without privileges (sandbox/client.h). Its results need not be true, only well-formed: function
 * and filename are text or NULL, filename and line number are both set or both unset, and without
 * them there is no first line.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "symbols/symbols.h"

struct source_object {
	uint32_t id; /* from 0, without gaps */
	int fd;
	const char *path; /* as the process that maps it sees it */
};

/* Receives the frames of question i: 1 to SYMBOL_INLINE_MAX. A result other than 0 ends the look-up. */
typedef int (*take_frames_fn)(void *taker, size_t i, const struct symbol *frame, int frame_nr);

struct symbol_source {
	/*
	 * The frames at the calls before these return addresses, in order. 0; -EIO and a line in
	 * *why: the file cannot be read, and the remaining questions get no answer; -ENOMEM; or the
	 * result of `take`.
	 */
	int (*look_up)(void *self, const struct source_object *object,
		       const uint64_t *return_offset, size_t nr, take_frames_fn take, void *taker,
		       struct reason *why);
	/*
	 * Drops the source's state of the object with this id, including its descriptor; another
	 * object may then get the id. NULL: not needed.
	 */
	void (*forget)(void *self, uint32_t id);
	void *self;
};

#endif
