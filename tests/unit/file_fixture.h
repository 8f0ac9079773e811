/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FILE_FIXTURE_H
#define TESTS_FILE_FIXTURE_H

/* Files in a folder of the test's own, which is the current one, and has another one, d. */

#include <stdio.h>

extern char files_directory[];

/* The .init and .fini of a TestSuite. */
void files_enter(void);
void files_leave(void);

/* Callbacks for file_replace(). The first writes the whole text, the second fails with -EXDEV after the text. */
int write_text(FILE *out, const void *text);
int write_half(FILE *out, const void *text);

/* Up to 255 bytes of a file; valid until the next call. */
const char *text_of(const char *path);

/* Entries of a folder. */
int name_nr(const char *path);

void put(const char *path, const char *text);

#endif
