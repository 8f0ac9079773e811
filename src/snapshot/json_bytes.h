/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_JSON_BYTES_H
#define ALLOCSNAP_SNAPSHOT_JSON_BYTES_H

/* Names that are no UTF-8, in JSON. */

#include <stdbool.h>
#include <stddef.h>

/* Whether JSON text has bytes that are no UTF-8, or lone surrogates. Where bytes are spelled already, it has neither. */
bool json_has_bytes(const char *text, size_t len);

/*
 * Spells bytes of JSON text that are no UTF-8 as \xNN within their strings: bytes of the text itself, and lone surrogates
 * ("\udce9"), which are what Python makes of such bytes. Another lone surrogate becomes the three bytes that encode it.
 * A backslash that would look as if it spelled one becomes \x5c. So does tracemalloc-to-json. Returns false if nothing
 * changes. Then, or without memory, *ret_text is NULL; the caller frees it.
 */
bool json_spell_bytes(const char *text, size_t len, char **ret_text, size_t *ret_len);

#endif
