/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_REMOVED_WORDS_H
#define ALLOCSNAP_CLI_REMOVED_WORDS_H

/* Commands, options and values that an earlier version had: who uses one gets a line that says what to use now. */

#include <stddef.h>

#define REMOVED_TEXT_MAX 256

/*
 * Writes "trend was removed; use …" and returns text, or returns NULL if there never was such a word: a command of
 * "fleet", an option of "record" with its dashes, an ending of "convert". The first `len` bytes of `word` count. For the
 * value of an option, command is NULL.
 */
const char *removed_word_format(char text[REMOVED_TEXT_MAX], const char *command, const char *word, size_t len);

#endif
