// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions about a file (questions.c): names, where probes go, unwind tables, traits, CPython. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "elf/probe_info.h"
#include "elf/python/python_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/rpc.h"
#include "unwind/unwind_table.h"

#define PROBE_INFO_COPY_MAX (16ull << 20)

/* ---- one question ---- */

struct asked_of_file {
	enum message_kind kind;
	int fd; /* -1: none */
	struct iovec piece[3]; /* what is asked; the first one is its struct */
	const char *path; /* of the file; NULL: no debug files are wanted for it */
	struct asked *object; /* of names: a reader keeps the file, and all questions about it have one limit. NULL: not so */
};

/* An answer that is being received. */
struct file_answer {
	const struct channel *channel;
	const struct file_question *question;
	uint64_t left; /* bytes of the message that were not read yet */
	struct verdict verdict;
	char *bytes; /* the struct */
};

static int receive_bytes(struct file_answer *answer, void *to, size_t bytes)
{
	if (bytes > answer->left)
		return -EPROTO;
	answer->left -= bytes;
	return channel__receive(answer->channel, to, bytes);
}

static int receive_array(struct file_answer *answer, const struct answer_array *array, void **ret)
{
	uint64_t nr, bytes;

	answer_array_of(array, answer->bytes, &nr);
	bytes = (nr + array->more) * array->item_bytes;
	if (nr > array->nr_most || bytes > answer->left)
		return -EPROTO;
	if (!bytes)
		return 0;
	*ret = malloc(bytes);
	return *ret ? receive_bytes(answer, *ret, bytes) :
		      -EPROTO; /* the rest of the answer stays unread, so the reader cannot be used again */
}

/* The pointers of the message mean nothing: each becomes NULL first. */
static int receive_struct(struct file_answer *answer)
{
	const struct file_question *question = answer->question;
	int err = receive_bytes(answer, answer->bytes, question->bytes);
	void **array[ARRAY_SIZE(question->array)];
	uint64_t nr;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(array) && question->array[i].item_bytes; i++) {
		array[i] = answer_array_of(&question->array[i], answer->bytes, &nr);
		*array[i] = NULL;
	}
	for (size_t at = 0; at < i && !err; at++)
		err = receive_array(answer, &question->array[at], array[at]);
	return err;
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

static uint64_t answer_bytes_most(const struct file_question *question)
{
	uint64_t bytes = sizeof(struct verdict) + question->bytes;

	for (size_t i = 0; i < ARRAY_SIZE(question->array); i++)
		bytes += ((uint64_t)question->array[i].nr_most + question->array[i].more) * question->array[i].item_bytes;
	return bytes;
}

static uint64_t file_size_or_zero(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_size;
}

#define ERRNO_MAX 4096

/* The reader's own trouble, such as -EMFILE, is returned like an error of the channel. */
static int receive_file_answer(struct sandbox *sandbox, const struct asked_of_file *asked, struct file_answer *answer)
{
	struct verdict *verdict = &answer->verdict;
	struct message message;
	int err = rpc__answer(sandbox, asked->kind, answer_bytes_most(answer->question), &message);

	answer->left = err ? 0 : message.bytes;
	err = err ?: receive_bytes(answer, verdict, sizeof(*verdict));
	if (err)
		return err;
	verdict->why[sizeof(verdict->why) - 1] = '\0';
	if (verdict->err == -ENOMEM)
		return -E2BIG; /* the memory of the reader is limited; this process has enough */
	if (verdict->err && (answer->left || verdict->err > 0 || verdict->err <= -ERRNO_MAX))
		return -EPROTO;
	if (verdict->err)
		return is_of_file(verdict->err) ? 0 : verdict->err;
	err = receive_struct(answer);
	if (err)
		return err;
	return !answer->left && answer->question->is_sound(answer->bytes, asked->piece->iov_base, file_size_or_zero(asked->fd)) ?
		       0 : -EPROTO;
}

/* 0, or an error as described in client.h. */
static int ask_file(struct sandbox *sandbox, const struct asked_of_file *asked, void *ret, struct reason *why)
{
	const struct file_question *question = &file_questions[asked->kind];
	struct file_answer answer = {
		.channel = &sandbox->channel, .question = question, .bytes = calloc(1, question->bytes),
	};
	struct asked once = {}, *object = asked->object ?: &once;
	uint64_t cpu_ns;
	int err = answer.bytes ? 0 : reason_set(why, -ENOMEM, "out of memory");

	sandbox->is_spent |= question->needs_new_reader && sandbox->has_read;
	if (!err && object->cpu_ns >= sandbox->options.cpu_ns)
		err = reason_set(why, -EIO, "reading it takes too long");
	err = err ?: rpc__begin(sandbox, asked->path ?: "", sandbox->options.cpu_ns - object->cpu_ns, why);
	if (!err) {
		err = channel__send(&sandbox->channel, asked->kind, asked->piece, ARRAY_SIZE(asked->piece),
				    object->generation == sandbox->generation ? -1 : asked->fd);
		object->generation = sandbox->generation;
		err = err ?: receive_file_answer(sandbox, asked, &answer);
		err = rpc__end(sandbox, err, &cpu_ns, why);
		object->cpu_ns += cpu_ns;
	}
	if (!err && answer.verdict.err)
		err = reason_set(why, answer.verdict.err, "%s",
				 *answer.verdict.why ? answer.verdict.why : strerror(-answer.verdict.err));
	if (!err)
		memcpy(ret, answer.bytes, question->bytes);
	else if (answer.bytes)
		file_answer_release(question, answer.bytes);
	free(answer.bytes);
	return err;
}

/* ---- functions ---- */

/*
 * Places for probes come from a reader that has read nothing before. But most files have none, and any reader can say so.
 */

static int ask_probe_info(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted, struct probe_info *ret,
		     struct reason *why)
{
	return ask_file(sandbox, &(struct asked_of_file){
		FACTS, fd, { { (void *)wanted, offsetof(struct functions_wanted, function[wanted->nr]) } },
	}, ret, why);
}

/* Asks about a copy, if one can be made: the file itself may change before it is read again. */
static int ask_new_reader(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted, struct probe_info *probe_info,
			  struct file_copy **copy, struct reason *why)
{
	probe_info_release(probe_info);
	if (copy)
		*copy = file_copy__new(fd, PROBE_INFO_COPY_MAX);
	sandbox->is_spent = true;
	return ask_probe_info(sandbox, copy && *copy ? file_copy__fd(*copy) : fd, wanted, probe_info, why);
}

int sandbox__probe_info_and_copy(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted,
			   struct probe_info *ret, struct file_copy **ret_copy,
			   struct reason *why)
{
	static const struct functions_wanted none;
	struct probe_info probe_info = {};
	struct file_copy *copy = NULL;
	bool is_fresh = !sandbox->has_read;
	int err;

	wanted = wanted ?: &none;
	err = ask_probe_info(sandbox, fd, wanted, &probe_info, why);
	if (!err && probe_info_has_places(&probe_info) && (!is_fresh || ret_copy))
		err = ask_new_reader(sandbox, fd, wanted, &probe_info, ret_copy ? &copy : NULL, why);
	if (err || !probe_info_has_places(&probe_info)) {
		file_copy__free(copy);
		copy = NULL;
	}
	if (err)
		return err;
	*ret = probe_info;
	if (ret_copy)
		*ret_copy = copy;
	return 0;
}

int sandbox__probe_info(struct sandbox *sandbox, int fd, const struct functions_wanted *wanted,
		  struct probe_info *ret, struct reason *why)
{
	return sandbox__probe_info_and_copy(sandbox, fd, wanted, ret, NULL, why);
}

/* ---- the other questions ---- */

int sandbox__returns(struct sandbox *sandbox, int fd, uint64_t vaddr, struct object_returns *ret,
		    struct reason *why)
{
	struct returns_question asked = { .vaddr = vaddr };

	return ask_file(sandbox, &(struct asked_of_file){ RETURNS, fd, { { &asked, sizeof(asked) } } }, ret, why);
}

int sandbox__stack_switch(struct sandbox *sandbox, int fd, const char **ret_what)
{
	uint32_t index;
	int err = ask_file(sandbox, &(struct asked_of_file){ SWITCH, fd }, &index, NULL);

	if (!err)
		*ret_what = stack_switches[index].what;
	return err;
}

int sandbox__entries(struct sandbox *sandbox, int fd, struct entry_patches *ret, struct reason *why)
{
	return ask_file(sandbox, &(struct asked_of_file){ ENTRIES, fd }, ret, why);
}

int sandbox__traits(struct sandbox *sandbox, int fd, struct runtime_traits *ret, struct reason *why)
{
	return ask_file(sandbox, &(struct asked_of_file){ TRAITS, fd }, ret, why);
}

static int ask_table_of_file(struct sandbox *sandbox, int fd, bool is_image, struct unwind_table **ret,
			     struct reason *why)
{
	struct table_question asked = { .is_image = is_image };
	struct unwind_table *table = calloc(1, sizeof(*table));
	int err = table ? ask_file(sandbox, &(struct asked_of_file){ TABLE, fd, { { &asked, sizeof(asked) } } }, table, why) :
			  reason_set(why, -ENOMEM, "out of memory");

	if (err)
		unwind_table__free(table);
	else
		*ret = table;
	return err;
}

int sandbox__unwind_table(struct sandbox *sandbox, int fd, struct unwind_table **ret,
			 struct reason *why)
{
	return ask_table_of_file(sandbox, fd, false, ret, why);
}

int sandbox__image_table(struct sandbox *sandbox, const void *image, size_t bytes,
			struct unwind_table **ret, struct reason *why)
{
	int fd = memfd_create("allocsnap-image", MFD_CLOEXEC);
	int err = 0;

	if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
		err = reason_set(why, -EIO, "no memory that could be handed over");
	if (!err)
		err = ask_table_of_file(sandbox, fd, true, ret, why);
	if (fd >= 0)
		close(fd);
	return err;
}

int sandbox__python(struct sandbox *sandbox, int fd, const struct python_asked *asked, struct python_info *ret,
		   struct reason *why)
{
	static const struct python_asked own;

	return ask_file(sandbox, &(struct asked_of_file){ PYTHON, fd, { { (void *)(asked ?: &own), sizeof(own) } } }, ret, why);
}

int sandbox__go(struct sandbox *sandbox, int fd, struct go_program *ret, struct reason *why)
{
	return ask_file(sandbox, &(struct asked_of_file){ GO, fd }, ret, why);
}

int sandbox__python_lines(struct sandbox *sandbox, const struct python_line_table *table, const int64_t *instruction,
			 size_t nr, int32_t *ret_line, struct reason *why)
{
	struct lines_question head = { table->kind, table->first_line, table->bytes, nr };
	const struct asked_of_file asked = { LINES, -1, {
		{ &head, sizeof(head) }, { (void *)instruction, nr * sizeof(*instruction) }, { (void *)table->table, table->bytes },
	} };
	struct lines_answer lines;
	int err;

	if (table->bytes > PYTHON_LINES_BYTES_MAX || nr > PYTHON_LINES_MAX)
		return reason_set(why, -E2BIG, "a line table of %zu bytes, or %zu instructions, is too large", table->bytes, nr);
	err = ask_file(sandbox, &asked, &lines, why);
	if (err)
		return err;
	if (nr)
		memcpy(ret_line, lines.line, nr * sizeof(*ret_line));
	free(lines.line);
	return 0;
}

int sandbox__made_code(struct sandbox *sandbox, int fd, const struct perf_map_part *part, const uint64_t *address, size_t nr,
		       struct perf_map_names *ret, struct reason *why)
{
	struct made_question asked = { .nr = nr, .part = *part };

	return ask_file(sandbox, &(struct asked_of_file){ MADE, fd, {
		{ &asked, sizeof(asked) }, { (void *)address, nr * sizeof(*address) },
	} }, ret, why);
}

/* ---- names ---- */

static const char *text_at(const struct names_answer *names, uint32_t at)
{
	return at ? names->text + at - 1 : NULL;
}

static int hand_over_frames(const struct names_answer *names, size_t first, take_frames_fn take, void *taker)
{
	const struct wire_frame *wire = names->frame;
	struct symbol frame[SYMBOL_INLINE_MAX];
	int err = 0;

	for (uint32_t i = 0; i < names->answer_nr && !err; i++) {
		for (uint32_t f = 0; f < names->frames_of[i]; f++, wire++)
			frame[f] = (struct symbol){
				text_at(names, wire->function), text_at(names, wire->filename),
				wire->lineno, wire->first_line,
			};
		err = take(taker, first + i, frame, names->frames_of[i]);
	}
	return err;
}

static int know(struct sandbox *sandbox, uint32_t object)
{
	int err = 0;

	while (!err && sandbox->asked_nr <= object)
		err = array_push(sandbox, asked, (struct asked){});
	return err;
}

/* Asks one question, of at most QUESTION_OFFSETS_MAX offsets. The reader may answer only a part. */
static int ask_names_of_object(struct sandbox *sandbox, const struct source_object *object,
			       const uint64_t *return_offset, size_t nr, struct names_answer *ret, struct reason *why)
{
	struct names_question question = { .object = object->id, .offset_nr = nr };
	int err = ask_file(sandbox, &(struct asked_of_file){
		.kind = NAMES, .fd = object->fd, .path = object->path, .object = &sandbox->asked[object->id],
		.piece = { { &question, sizeof(question) }, { (void *)return_offset, nr * sizeof(*return_offset) } },
	}, ret, why);

	return err && err != -ENOMEM ? -EIO : err;
}

int ask_names(void *self, const struct source_object *object, const uint64_t *return_offset,
	      size_t nr, take_frames_fn take, void *taker, struct reason *why)
{
	struct sandbox *sandbox = self;
	int err = know(sandbox, object->id);

	for (size_t at = 0; at < nr && !err;) {
		size_t part = nr - at < QUESTION_OFFSETS_MAX ? nr - at : QUESTION_OFFSETS_MAX;
		struct names_answer names;

		err = ask_names_of_object(sandbox, object, return_offset + at, part, &names, why);
		if (err)
			break;
		err = hand_over_frames(&names, at, take, taker);
		at += names.answer_nr;
		file_answer_release(&file_questions[NAMES], &names);
	}
	return err;
}

/*
 * libdw's data about one file cannot be removed from the reader. So the reader ends when its
 * channel is closed, and another one takes the next question.
 */
void ask_names_forget_object(void *self, uint32_t object)
{
	struct sandbox *sandbox = self;

	if (object >= sandbox->asked_nr)
		return;
	if (sandbox->asked[object].generation == sandbox->generation)
		channel__close(&sandbox->channel);
	sandbox->asked[object] = (struct asked){};
}
