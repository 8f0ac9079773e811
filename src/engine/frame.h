/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_FRAME_H
#define ALLOCSNAP_ENGINE_FRAME_H

#include "engine.h"

/*
 * The order and equality of frames: by filename, then lineno; if lineno is 0 also by function, the
 * object's path and offset. Compares bytes, not characters; unknown texts are empty strings.
 */

/* The frame as a key type sees it; frame id 0 is "<unknown>", line 0. */
struct frame_view frame_read(const struct snapshot *snapshot, uint32_t frame,
			     enum key_type key_type);

/* Whether it stands for the class of a Java object: its function is the name (java/samples_reader.h). */
#define JAVA_CLASS_FILE "<class>"
bool frame_is_java_class(const struct frame_view *frame);

/* Equal frames have equal hashes; by_function: of frames that frame_compare_with_function() takes for equal. */
uint64_t frame_hash(const struct frame_view *frame, bool by_function);

/* Returns < 0, 0 or > 0. */
int frame_compare(const struct frame_view *a, const struct frame_view *b);

/* The same, and then by function. */
int frame_compare_with_function(const struct frame_view *a, const struct frame_view *b);

/* Compares whole tracebacks, oldest frame first; a prefix is smaller. Functions count last. */
int traceback_compare(const struct statistic *a, const struct statistic *b);

/*
 * Merges two equal frames: function, object and offset stay only if both have the same. Variants of one function become
 * one of them, with has_variants.
 */
void frame_merge(struct frame_view *into, const struct frame_view *other);

#endif
