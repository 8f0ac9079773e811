// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/ask_file.h"

#include <errno.h>
#include <string.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"

int file_answer__bytes(struct file_answer *answer, void *to, size_t bytes)
{
	if (bytes > answer->left)
		return -EPROTO;
	answer->left -= bytes;
	return channel__receive(&answer->parser->channel, to, bytes);
}

int file_answer__array(struct file_answer *answer, uint64_t nr, size_t size, void *ret_array)
{
	void *array;

	if (nr > answer->left / size)
		return -EPROTO;
	array = malloc(nr * size + 1);
	if (!array)
		return -EPROTO; /* the rest of the answer stays unread, so the reader cannot be used again */
	*(void **)ret_array = array;
	return file_answer__bytes(answer, array, nr * size);
}

/* Whether the error only says something about the file. Callers could misunderstand any other error. */
static bool is_of_file(int err)
{
	static const int known[] = { -ENOEXEC, -ENOTSUP, -E2BIG, -ENODATA, -ENOENT, -EISDIR, -EIO };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == err)
			return true;
	return false;
}

static int receive_file_answer(struct parser *parser, const struct file_question *question,
			       struct verdict *head, void *ret)
{
	struct file_answer answer = { .parser = parser, .fd = question->fd };
	struct message message;
	int err = conversation__answer(parser, question->answer,
				       sizeof(*head) + question->answer_max, &message);

	if (err)
		return err;
	answer.left = message.bytes;
	err = file_answer__bytes(&answer, head, sizeof(*head));
	if (err)
		return err;
	head->why[sizeof(head->why) - 1] = '\0';
	if (head->err == -ENOMEM)
		return -E2BIG; /* the memory of the reader is limited; this process has enough */
	if (!head->err)
		err = question->take(&answer, ret);
	else if (!is_of_file(head->err))
		err = -EPROTO;
	return !err && answer.left ? -EPROTO : err;
}

int ask_file(struct parser *parser, const struct file_question *question, void *ret,
	     struct reason *why)
{
	const struct iovec piece = { (void *)question->asked, question->asked_bytes };
	struct verdict head = {};
	uint64_t cpu_ns;
	int err = conversation__begin(parser, "", parser->options.cpu_ns, why);

	if (err)
		return err;
	err = channel__send(&parser->channel, question->question, &piece, 1, question->fd);
	if (!err)
		err = receive_file_answer(parser, question, &head, ret);
	err = conversation__end(parser, err, &cpu_ns, why);
	if (err || !head.err)
		return err;
	return reason_set(why, head.err, "%s", *head.why ? head.why : strerror(-head.err));
}
