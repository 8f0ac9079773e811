// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The texts of code objects in the books. */
#include <errno.h>
#include <stdlib.h>

#include "exact/books_private.h"

#define PART_MOST (UINT64_C(1) << 20)

/* 0; -EINVAL: there is no such text. The caller frees *ret. */
static int read_books_code(const struct books *books, uint32_t id, struct books_code **ret)
{
	struct books_code head;
	uint64_t at, bytes;
	uint32_t place;
	int err = read_books_at(books, BOOKS_AT_CODES + UINT64_C(4) * id, &place, sizeof(place));

	at = UINT64_C(8) * place;
	if (err || at + sizeof(head) > BOOKS_TEXT_BYTES)
		return err ?: -EINVAL;
	err = read_books_at(books, BOOKS_AT_TEXT + at, &head, sizeof(head));
	if (err || head.id != id || head.file_bytes > PART_MOST || head.name_bytes > PART_MOST || head.line_bytes > PART_MOST)
		return err ?: -EINVAL;
	bytes = sizeof(head) + head.file_bytes + head.name_bytes + head.line_bytes;
	if (at + bytes > BOOKS_TEXT_BYTES)
		return -EINVAL;
	*ret = malloc(bytes);
	if (!*ret)
		return -ENOMEM;
	err = read_books_at(books, BOOKS_AT_TEXT + at, *ret, bytes);
	if (!err)
		**ret = head; /* as it was checked */
	return err;
}

int books_read_codes(struct books *books, books_code_fn fn, void *what)
{
	uint32_t nr = books_number(&books->head->code_nr, BOOKS_CODES_MAX - 1);
	int err = 0;

	while (books->codes_read < nr && !err) {
		struct books_code *code = NULL;

		err = read_books_code(books, ++books->codes_read, &code);
		err = err == -EINVAL ? 0 : err ?: fn(what, code);
		free(code);
	}
	return err;
}
