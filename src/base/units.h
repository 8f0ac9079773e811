/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_UNITS_H
#define ALLOCSNAP_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for any text that a format_*() below makes. */
#define UNIT_TEXT_MAX 48

/*
 * "66 B", "4.9 KiB", with_sign: "+5000 B". The units and the rounding of CPython's
 * tracemalloc._format_size (Lib/tracemalloc.py, 3.11). Returns text.
 */
const char *format_size(char text[UNIT_TEXT_MAX], double bytes, bool with_sign);

/* "250ms", "10s", "5m", "2h"; a bare number is seconds; more than 0. 0, or -EINVAL. */
int parse_duration(const char *text, uint64_t *ret_ns);

/* A whole number of at least `least`. 0, or -EINVAL, -ERANGE. */
int parse_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret_count);

/*
 * The text as one line of clean UTF-8: control characters, characters that show nothing of themselves
 * (marks of direction, zero-width ones), and bytes that are not UTF-8, become \xNN. Names come from
 * processes and files that we do not trust; a terminal obeys what it is told, and a reader what it
 * shows. Always NUL-terminated; cut at room. Returns `clean`.
 */
const char *clean_text(char *clean, size_t room, const char *text);

/* The end of a path as clean text that leaves room for words about it: 16 bytes are not used. */
const char *clean_path(char *clean, size_t room, const char *path);

/* The length of the well-formed UTF-8 sequence that a C string begins with (RFC 3629), or 0. */
size_t utf8_len(const char *text);

#endif
