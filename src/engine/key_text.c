// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/key_text.h"

#include <string.h>

#include "base/array.h"

int key_text_add(struct key_text *text, const char *string)
{
	size_t len = strlen(string);
	/* One byte more than needed, so that an empty text has memory, too. */
	int err = array_reserve(&text->bytes, &text->bytes_alloc, text->bytes_nr + len + 1);

	if (err)
		return err;
	memcpy(text->bytes + text->bytes_nr, string, len);
	text->bytes_nr += len;
	return 0;
}

int key_text_add_number(struct key_text *text, uint64_t number)
{
	char digits[21] = "";
	char *first = digits + sizeof(digits) - 1;

	do
		*--first = '0' + number % 10;
	while (number /= 10);
	return key_text_add(text, first);
}
