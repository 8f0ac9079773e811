// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/ask_file.h"
#include "unwind/unwind_table.h"

#define TABLE_BYTES_MAX \
	(sizeof(struct unwind_table) + (UNWIND_PAGES_MAX + 1) * sizeof(uint32_t) + \
	 UNWIND_RULES_MAX * sizeof(struct unwind_rule) + UNWIND_ROWS_MAX * sizeof(unwind_row))

static int take_table(struct file_answer *answer, void *ret)
{
	struct unwind_table *table = ret;
	int err = file_answer__bytes(answer, table, sizeof(*table));

	table->page = NULL;
	table->rule = NULL;
	table->row = NULL;
	if (!err)
		err = file_answer__array(answer, table->page_nr + 1ull, sizeof(*table->page),
					 &table->page);
	if (!err)
		err = file_answer__array(answer, table->rule_nr, sizeof(*table->rule), &table->rule);
	if (!err)
		err = file_answer__array(answer, table->row_nr, sizeof(*table->row), &table->row);
	return err || unwind_table__is_sound(table) ? err : -EPROTO;
}

/*
 * Tables are stored for later recordings. A hostile file can take over its reader. If that reader
 * compiled the tables of later files, the file could spoil the C library's table for good. So each
 * table gets a reader that has read nothing before.
 */
static int ask_table_of_file(struct parser *parser, int fd, bool is_image, struct unwind_table **ret,
			     struct reason *why)
{
	const struct table_question asked = { .is_image = is_image };
	const struct file_question question = {
		.question = ASK_TABLE, .answer = TABLE, .asked = &asked, .asked_bytes = sizeof(asked),
		.fd = fd, .answer_max = TABLE_BYTES_MAX, .take = take_table,
	};
	struct unwind_table *table = calloc(1, sizeof(*table));
	int err;

	parser->is_spent |= parser->has_read;
	err = table ? ask_file(parser, &question, table, why) :
		      reason_set(why, -ENOMEM, "out of memory");

	if (err)
		unwind_table__free(table);
	else
		*ret = table;
	return err;
}

int parser__unwind_table(struct parser *parser, int fd, struct unwind_table **ret,
			 struct reason *why)
{
	return ask_table_of_file(parser, fd, false, ret, why);
}

int parser__image_table(struct parser *parser, const void *image, size_t bytes,
			struct unwind_table **ret, struct reason *why)
{
	int fd = memfd_create("allocsnap-image", MFD_CLOEXEC);
	int err = 0;

	if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
		err = reason_set(why, -EIO, "no memory that could be handed over");
	if (!err)
		err = ask_table_of_file(parser, fd, true, ret, why);
	if (fd >= 0)
		close(fd);
	return err;
}
