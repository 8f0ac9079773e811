/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_UNITS_H
#define ALLOCSNAP_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough room for the text of any format_*() below. */
#define UNIT_TEXT_MAX 48

/*
 * "66 B", "4.9 KiB", with_sign: "+5000 B". The units and the rounding of CPython's
 * tracemalloc._format_size (Lib/tracemalloc.py, 3.11). Returns text.
 */
const char *format_size(char text[UNIT_TEXT_MAX], double bytes, bool with_sign);

/* The same of two sizes in the unit of the larger, unless that makes the other one 0. */
void format_two_sizes(char more_text[UNIT_TEXT_MAX], double more, char less_text[UNIT_TEXT_MAX], double less);

/* "0.4 ms", "65 ms", "1.24 s", "25.1 s", "600 s". Returns text. */
const char *format_seconds(char text[UNIT_TEXT_MAX], uint64_t ns);

/* A time of CPU use in a wall-clock time: "5.2 % of one core", "230 % of one core". Returns text. */
const char *format_core_share(char text[UNIT_TEXT_MAX], uint64_t cpu_ns, uint64_t wall_ns);

/* "250ms", "10s", "5m", "2h"; a bare number is seconds; more than 0. 0, or -EINVAL. */
int parse_duration(const char *text, uint64_t *ret_ns);

/* A whole number from `least` to `most`. 0, or -EINVAL, -ERANGE. */
int parse_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret_count);

/*
 * Converts the text to one line of clean UTF-8. Control characters, invisible characters (marks of
 * direction, zero-width characters), and bytes that are not UTF-8 become \xNN. Names come from
 * untrusted processes and files: without this they could command a terminal, or mislead a reader.
 * The result always ends with a NUL and is cut to the room. Returns `clean`.
 */
const char *clean_text(char *clean, size_t room, const char *text);

/* The part of a path behind its last slash. */
const char *path_name(const char *path);

/* The end of a path as clean text. It leaves 16 bytes of the room for other words about the path. */
const char *clean_path(char *clean, size_t room, const char *path);

/* The length of the well-formed UTF-8 sequence that a C string begins with (RFC 3629), or 0. */
size_t utf8_len(const char *text);

/* "4096", "64K", "64KiB", "10MiB", "2g": whole numbers, powers of 1024. 0, or -EINVAL, -ERANGE. */
int parse_size(const char *text, uint64_t *ret_bytes);

/* Converts an untrusted name to a file name: bytes other than these become '_'. */
#define FILE_NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"

/* Changes the name in place. A leading dot becomes '_', too, so that no file is hidden or is "..". */
void clean_file_name(char *name);

#endif
