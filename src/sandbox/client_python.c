// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions about CPython: where its allocators are called, lines of its code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "sandbox/file_question.h"

/* ---- files ---- */

static int take_python(struct file_answer *answer, void *ret)
{
	struct python_info *info = ret;
	int err = file_answer__bytes(answer, info, sizeof(*info));

	info->site = NULL;
	if (!err && info->site_nr > PYTHON_SITES_MAX)
		err = -EPROTO;
	if (!err)
		err = file_answer__array(answer, info->site_nr, sizeof(*info->site), &info->site);
	return err || python_info_is_sound(info, file_size_or_zero(answer->fd)) ? err : -EPROTO;
}

/* As with other probes, a new reader answers: one in the middle of an instruction would crash the process. */
int parser__python(struct parser *parser, int fd, const struct python_asked *asked, struct python_info *ret,
		   struct reason *why)
{
	static const struct python_asked own;
	const struct file_question question = {
		.question = ASK_PYTHON, .answer = PYTHON, .fd = fd, .take = take_python,
		.asked = asked ?: &own, .asked_bytes = sizeof(own),
		.answer_max = sizeof(*ret) + PYTHON_SITES_MAX * sizeof(*ret->site),
	};
	struct python_info info = {};
	int err;

	parser->is_spent |= parser->has_read;
	err = ask_file(parser, &question, &info, why);
	if (err)
		python_info_release(&info);
	else
		*ret = info;
	return err;
}

/* ---- line tables ---- */

struct lines_asked {
	int32_t *line;
	uint32_t nr;
};

static int take_lines(struct file_answer *answer, void *ret)
{
	const struct lines_asked *asked = ret;
	int err = file_answer__bytes(answer, asked->line, asked->nr * sizeof(*asked->line));

	for (uint32_t i = 0; i < asked->nr && !err; i++)
		if (asked->line[i] < PYTHON_NO_LINE)
			err = -EPROTO;
	return err;
}

int parser__python_lines(struct parser *parser, const struct python_line_table *table, const int64_t *instruction,
			 size_t nr, int32_t *ret_line, struct reason *why)
{
	struct lines_question head = { table->kind, table->first_line, table->bytes, nr };
	size_t places = nr * sizeof(*instruction), bytes = sizeof(head) + places + table->bytes;
	struct lines_asked asked = { ret_line, nr };
	struct file_question question = {
		.question = ASK_LINES, .answer = LINES, .fd = -1, .take = take_lines, .asked_bytes = bytes,
		.answer_max = nr * sizeof(*ret_line),
	};
	char *all;
	int err;

	if (table->bytes > PYTHON_LINES_BYTES_MAX || nr > PYTHON_LINES_MAX)
		return reason_set(why, -E2BIG, "a line table of %zu bytes, or %zu instructions, is too large", table->bytes, nr);
	all = malloc(bytes);
	if (!all)
		return reason_set(why, -ENOMEM, "out of memory");
	memcpy(all, &head, sizeof(head));
	if (places)
		memcpy(all + sizeof(head), instruction, places);
	if (table->bytes)
		memcpy(all + sizeof(head) + places, table->table, table->bytes);
	question.asked = all;
	err = ask_file(parser, &question, &asked, why);
	free(all);
	return err;
}
