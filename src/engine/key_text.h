/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_KEY_TEXT_H
#define ALLOCSNAP_ENGINE_KEY_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The text of a key while it is built. A zeroed struct is an empty one; free(bytes) ends it. */
struct key_text {
	char *bytes; /* no NUL at the end */
	size_t bytes_nr, bytes_alloc;
};

/* These append to the text. 0 or -ENOMEM. */
int key_text_add(struct key_text *text, const char *string);
int key_text_add_number(struct key_text *text, uint64_t number);

#endif
