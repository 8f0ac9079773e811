// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "helper/channel.h"
#include "symbols/direct.h"

/* ---- debug files ---- */

static int open_elsewhere(void *self, const char *, const struct debug_want *want)
{
	const struct channel *channel = self;
	struct file_wanted wanted = {
		.kind = want->kind, .build_id_len = want->build_id_len, .nr = want->nr,
	};
	struct message head;
	int fd;

	if (want->build_id_len > sizeof(wanted.build_id) ||
	    (want->name && strlen(want->name) >= sizeof(wanted.name)))
		return -1;
	if (want->build_id)
		memcpy(wanted.build_id, want->build_id, want->build_id_len);
	if (want->name)
		strcpy(wanted.name, want->name);
	if (channel__send(channel, WANT_FILE, &(struct iovec){ &wanted, sizeof(wanted) }, 1, -1) ||
	    channel__head(channel, &head, &fd))
		_exit(1);
	return fd;
}

/* ---- answers ---- */

static int send_answer(const struct channel *channel, const struct message *asked, int err,
		       const struct reason *why, void *answer)
{
	const struct file_question *question = &file_questions[asked->kind];
	struct verdict head = { .err = err };
	struct iovec piece[2 + ARRAY_SIZE(question->array)] = { { &head, sizeof(head) }, { answer, question->bytes } };
	int piece_nr = 2;
	uint64_t nr;

	snprintf(head.why, sizeof(head.why), "%.*s", (int)sizeof(head.why) - 1, why->text);
	for (size_t i = 0; !err && i < ARRAY_SIZE(question->array) && question->array[i].item_bytes; i++) {
		const struct answer_array *array = &question->array[i];
		void *items = *answer_array_of(array, answer, &nr);

		piece[piece_nr++] = (struct iovec){ items, (nr + array->more) * array->item_bytes };
	}
	return channel__send(channel, asked->kind, piece, err ? 1 : piece_nr, -1);
}

/* ---- names ---- */

struct answer {
	struct { uint32_t *frames_of; size_t frames_of_nr, frames_of_alloc; } answers;
	struct { struct wire_frame *frame; size_t frame_nr, frame_alloc; } frames;
	char *text;
	size_t text_nr, text_alloc;
};

static int answer_add_text(struct answer *answer, const char *text, uint32_t *ret)
{
	size_t bytes = text ? strlen(text) + 1 : 0;
	int err;

	*ret = 0;
	if (!bytes || bytes > TEXT_MAX)
		return 0;
	err = array_reserve(&answer->text, &answer->text_alloc, answer->text_nr + bytes);
	if (err)
		return err;
	memcpy(answer->text + answer->text_nr, text, bytes);
	*ret = answer->text_nr + 1;
	answer->text_nr += bytes;
	return 0;
}

#define IS_FULL 1

static int add_answer(void *taker, size_t, const struct symbol *frame, int frame_nr)
{
	struct answer *answer = taker;
	int err = array_push(&answer->answers, frames_of, frame_nr);

	for (int i = 0; i < frame_nr && !err; i++) {
		struct wire_frame wire;

		err = answer_add_text(answer, frame[i].function, &wire.function);
		if (!err)
			err = answer_add_text(answer, frame[i].filename, &wire.filename);
		wire.lineno = wire.filename ? frame[i].lineno : 0;
		wire.first_line = wire.lineno ? frame[i].first_line : 0;
		if (!err)
			err = array_push(&answer->frames, frame, wire);
	}
	return !err && answer->text_nr >= ANSWER_FULL ? IS_FULL : err;
}

static int serve_names(const struct channel *channel, const struct message *asked, struct direct *direct, int fd)
{
	uint64_t offset[QUESTION_OFFSETS_MAX];
	struct source_object object = { .fd = fd, .path = "" };
	struct names_question question;
	struct answer answer = {};
	struct reason why = {};
	int err = channel__receive(channel, &question, sizeof(question)) ?:
		  channel__receive(channel, offset, question.offset_nr * sizeof(*offset));

	if (err)
		return err;
	object.id = question.object;
	err = direct__look_up(direct, &object, offset, question.offset_nr, add_answer, &answer, &why);
	err = send_answer(channel, asked, err < 0 ? err : 0, &why, &(struct names_answer){
		answer.answers.frames_of_nr, answer.frames.frame_nr, answer.text_nr,
		answer.answers.frames_of, answer.frames.frame, answer.text,
	});
	free(answer.answers.frames_of);
	free(answer.frames.frame);
	free(answer.text);
	return err;
}

/* ---- other questions ---- */

static int serve_file(const struct channel *channel, const struct message *asked, int fd)
{
	const struct file_question *question = &file_questions[asked->kind];
	void *what = malloc(asked->bytes + 1), *answer = calloc(1, question->bytes);
	struct reason why = {};
	int err = what && answer ? channel__receive(channel, what, asked->bytes) : -ENOMEM;

	if (!err) {
		int found = question->read(fd, what, answer, &why);

		err = send_answer(channel, asked, found, &why, answer);
		file_answer_release(question, answer);
	}
	free(what);
	free(answer);
	return err;
}

void serve_questions(int fd)
{
	const struct channel channel = { .fd = fd };
	const struct debug_opener opener = { .open = open_elsewhere, .self = (void *)&channel };
	struct direct *direct = direct__new(&opener);
	struct message head;
	int object, err = direct ? 0 : -ENOMEM;

	while (!err && !channel__head(&channel, &head, &object)) {
		err = head.kind == NAMES ? serve_names(&channel, &head, direct, object) : serve_file(&channel, &head, object);
		if (object >= 0)
			close(object);
	}
}
