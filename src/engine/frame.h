/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_FRAME_H
#define ALLOCSNAP_ENGINE_FRAME_H

#include "engine.h"

/*
 * When two frames are equal, and which one is smaller: filename, lineno; where lineno is 0
 * also function, object's path and offset. Bytes count, not characters; what is not known is
 * the empty string.
 */

/* The frame as a key of key_type sees it; frame id 0 is "<unknown>", line 0. */
struct frame_view frame_read(const struct snapshot *snapshot, uint32_t frame,
			     enum key_type key_type);

/* Equal frames have equal hashes. */
uint64_t frame_hash(const struct frame_view *frame);

/* < 0, 0, > 0 */
int frame_compare(const struct frame_view *a, const struct frame_view *b);

/* The same for whole tracebacks, oldest frame first; a prefix is smaller. */
int traceback_compare(const struct statistic *a, const struct statistic *b);

/* Two equal frames become one: function, object and offset are kept where both have the same. */
void frame_merge(struct frame_view *into, const struct frame_view *other);

#endif
