// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sandbox/rpc.h"

/* An answer in one piece of memory: head, and pointers to the parts after it. */
struct names {
	struct names_answer *head;
	const uint32_t *frames_of;
	const struct wire_frame *frame;
	const char *text;
};

static int send_question(struct parser *parser, const struct source_object *object,
			 const uint64_t *return_offset, size_t nr)
{
	struct asked *asked = &parser->asked[object->id];
	struct names_question question = { .object = object->id, .offset_nr = nr };
	const struct iovec piece[] = {
		{ &question, sizeof(question) },
		{ (void *)return_offset, nr * sizeof(*return_offset) },
	};
	bool has_file = asked->generation == parser->generation;

	asked->generation = parser->generation;
	return channel__send(&parser->channel, NAMES, piece, ARRAY_SIZE(piece),
			     has_file ? -1 : object->fd);
}

/* ---- checking the answer ---- */

static bool is_text(const struct names *names, uint32_t at)
{
	const struct names_answer *head = names->head;

	uint32_t left = at ? head->text_bytes - (at - 1) : 0;

	return at <= head->text_bytes &&
	       (!at || memchr(names->text + at - 1, '\0', left < TEXT_MAX ? left : TEXT_MAX));
}

static bool is_frame(const struct names *names, const struct wire_frame *frame)
{
	return is_text(names, frame->function) && is_text(names, frame->filename) &&
	       !frame->filename == !frame->lineno && frame->lineno <= INT32_MAX &&
	       (frame->lineno || !frame->first_line) && frame->first_line <= INT32_MAX;
}

/* Whether the answer has the length that it claims, answers some questions, and has valid frames. */
static bool is_sound_answer(const struct names *names, uint32_t bytes, size_t question_nr)
{
	const struct names_answer *head = names->head;
	uint64_t frames = 0;

	if (head->answer_nr < 1 || head->answer_nr > question_nr)
		return false;
	for (uint32_t i = 0; i < head->answer_nr; i++) {
		if (names->frames_of[i] < 1 || names->frames_of[i] > SYMBOL_INLINE_MAX)
			return false;
		frames += names->frames_of[i];
	}
	if (frames != head->frame_nr ||
	    bytes != sizeof(*head) + head->answer_nr * sizeof(uint32_t) +
			     frames * sizeof(struct wire_frame) + head->text_bytes)
		return false;
	for (uint32_t i = 0; i < head->frame_nr; i++)
		if (!is_frame(names, &names->frame[i]))
			return false;
	return true;
}

/* Takes the reason for which the reader gives up. */
static int take_reason(const struct names_answer *head, uint32_t bytes, struct reason *why)
{
	const char *text = (const char *)(head + 1);

	if (head->answer_nr || head->frame_nr || bytes != sizeof(*head) + head->text_bytes ||
	    !head->text_bytes || text[head->text_bytes - 1])
		return -EPROTO;
	if (head->err == -ENOMEM)
		return -E2BIG; /* the memory of the reader is limited; this process has enough */
	return head->err == -EIO ? reason_set(why, -EIO, "%s", text) : -EPROTO;
}

/*
 * Reads the answer; the caller frees ret->head. -EIO with a line in *why: the reader reports an
 * error.
 */
static int receive_names_answer(struct parser *parser, size_t question_nr, struct names *ret, struct reason *why)
{
	struct message message;
	struct names_answer *head;
	int err = rpc__answer(parser, NAMES, ANSWER_MAX, &message);

	ret->head = NULL;
	if (err)
		return err;
	if (message.bytes < sizeof(*head))
		return -EPROTO;
	ret->head = head = malloc(message.bytes);
	if (!head)
		return -EPROTO; /* the rest of the answer stays unread, so the reader cannot be used again */
	err = channel__receive(&parser->channel, head, message.bytes);
	if (err)
		return err;
	if (head->err)
		return take_reason(head, message.bytes, why);
	/* Before the pointers are set: the tables must be inside the message. */
	if (head->answer_nr > question_nr || head->frame_nr > question_nr * SYMBOL_INLINE_MAX ||
	    message.bytes < sizeof(*head) + head->answer_nr * sizeof(uint32_t) +
				    head->frame_nr * sizeof(struct wire_frame))
		return -EPROTO;
	ret->frames_of = (const uint32_t *)(head + 1);
	ret->frame = (const struct wire_frame *)(ret->frames_of + head->answer_nr);
	ret->text = (const char *)(ret->frame + head->frame_nr);
	return is_sound_answer(ret, message.bytes, question_nr) ? 0 : -EPROTO;
}

static const char *text_at(const struct names *names, uint32_t at)
{
	return at ? names->text + at - 1 : NULL;
}

static int hand_over_frames(const struct names *names, size_t first, take_frames_fn take, void *taker)
{
	const struct wire_frame *wire = names->frame;
	struct symbol frame[SYMBOL_INLINE_MAX];
	int err = 0;

	for (uint32_t i = 0; i < names->head->answer_nr && !err; i++) {
		for (uint32_t f = 0; f < names->frames_of[i]; f++, wire++)
			frame[f] = (struct symbol){
				text_at(names, wire->function), text_at(names, wire->filename),
				wire->lineno, wire->first_line,
			};
		err = take(taker, first + i, frame, names->frames_of[i]);
	}
	return err;
}

/* ---- questions ---- */

static int know(struct parser *parser, uint32_t object)
{
	int err = 0;

	while (!err && parser->asked_nr <= object)
		err = array_push(parser, asked, (struct asked){});
	return err;
}

/* Asks one question, of at most QUESTION_OFFSETS_MAX offsets. The reader may answer only a part. */
static int ask_names_of_object(struct parser *parser, const struct source_object *object,
			       const uint64_t *return_offset, size_t nr, struct names *names, struct reason *why)
{
	struct asked *asked = &parser->asked[object->id];
	uint64_t budget = parser->options.cpu_ns, cpu_ns;
	struct reason given_up = {};
	int err;

	if (asked->cpu_ns >= budget)
		return reason_set(why, -EIO, "reading it takes too long");
	err = rpc__begin(parser, object->path, budget - asked->cpu_ns, why);
	if (err)
		return err;
	err = send_question(parser, object, return_offset, nr);
	if (!err)
		err = receive_names_answer(parser, nr, names, &given_up);
	if (err == -EIO && *given_up.text)
		err = 0; /* the file's error: the reader itself still works */
	err = rpc__end(parser, err, &cpu_ns, why);
	asked->cpu_ns += cpu_ns;
	if (err || !*given_up.text)
		return err;
	*why = given_up;
	return -EIO;
}

int ask_names(void *self, const struct source_object *object, const uint64_t *return_offset,
	      size_t nr, take_frames_fn take, void *taker, struct reason *why)
{
	struct parser *parser = self;
	int err = know(parser, object->id);

	for (size_t at = 0; at < nr && !err;) {
		size_t part = nr - at < QUESTION_OFFSETS_MAX ? nr - at : QUESTION_OFFSETS_MAX;
		struct names names = {};

		err = ask_names_of_object(parser, object, return_offset + at, part, &names, why);
		if (!err) {
			err = hand_over_frames(&names, at, take, taker);
			at += names.head->answer_nr;
		}
		free(names.head);
	}
	return err;
}

/*
 * libdw's data about one file cannot be removed from the reader. So the reader ends when its
 * channel is closed, and another one takes the next question.
 */
void ask_names_forget_object(void *self, uint32_t object)
{
	struct parser *parser = self;

	if (object >= parser->asked_nr)
		return;
	if (parser->asked[object].generation == parser->generation)
		channel__close(&parser->channel);
	parser->asked[object] = (struct asked){};
}
