/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_ASK_NAMES_H
#define ALLOCSNAP_PARSER_ASK_NAMES_H

#include "symbols/source.h"

/* symbol_source's look_up and forget; self is a struct parser. */
void forget_names(void *parser, uint32_t object);

int ask_names(void *parser, const struct source_object *object, const uint64_t *return_offset,
	      size_t nr, take_frames_fn take, void *taker, struct reason *why);

#endif
