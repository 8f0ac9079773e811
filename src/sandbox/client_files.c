// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions about a file: where probes go, unwind tables, traits. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "elf/entry_patch.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/file_question.h"
#include "unwind/unwind_table.h"

#define FACTS_COPY_MAX (16ull << 20)

/* ---- one question ---- */

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
	int err = rpc__answer(parser, question->answer,
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

int ask_file(struct parser *parser, const struct file_question *question, void *ret, struct reason *why)
{
	const struct iovec piece = { (void *)question->asked, question->asked_bytes };
	struct verdict head = {};
	uint64_t cpu_ns;
	int err = rpc__begin(parser, "", parser->options.cpu_ns, why);

	if (err)
		return err;
	err = channel__send(&parser->channel, question->question, &piece, 1, question->fd);
	if (!err)
		err = receive_file_answer(parser, question, &head, ret);
	err = rpc__end(parser, err, &cpu_ns, why);
	if (err || !head.err)
		return err;
	return reason_set(why, head.err, "%s", *head.why ? head.why : strerror(-head.err));
}

uint64_t file_size_or_zero(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_size;
}

/* ---- functions ---- */

/*
 * A hostile file can take over its reader, and the reader then lies about later files. A probe in
 * the middle of an instruction would crash its target. So only a reader that has read nothing
 * before decides where probes go.
 */

struct facts_asked {
	const struct functions_wanted *wanted;
	struct probe_info facts;
};

static int take_facts(struct file_answer *answer, void *ret)
{
	struct facts_asked *asked = ret;
	struct probe_info *facts = &asked->facts;
	int err = file_answer__bytes(answer, facts, sizeof(*facts));

	facts->function = NULL;
	facts->sampler = NULL;
	if (!err)
		err = file_answer__array(answer, facts->function_nr, sizeof(*facts->function), &facts->function);
	if (!err && facts->has_sampler)
		err = file_answer__array(answer, 1, sizeof(*facts->sampler), &facts->sampler);
	return err || probe_info_are_sound(facts, asked->wanted, file_size_or_zero(answer->fd)) ? err : -EPROTO;
}

static int ask_facts(struct parser *parser, int fd, struct facts_asked *asked, struct reason *why)
{
	const struct file_question question = {
		.question = ASK_FACTS, .answer = FACTS, .fd = fd, .take = take_facts,
		.asked = asked->wanted,
		.asked_bytes = offsetof(struct functions_wanted, function[asked->wanted->nr]),
		.answer_max = sizeof(asked->facts) +
			      OBJECT_FUNCTIONS_MAX * sizeof(*asked->facts.function) +
			      sizeof(*asked->facts.sampler),
	};

	return ask_file(parser, &question, asked, why);
}

/* Asks about a copy, if one can be made: the file itself may change before it is read again. */
static int ask_new_reader(struct parser *parser, int fd, struct facts_asked *asked,
			  struct file_copy **copy, struct reason *why)
{
	probe_info_release(&asked->facts);
	if (copy)
		*copy = file_copy__new(fd, FACTS_COPY_MAX);
	parser->is_spent = true;
	return ask_facts(parser, copy && *copy ? file_copy__fd(*copy) : fd, asked, why);
}

int parser__facts_and_copy(struct parser *parser, int fd, const struct functions_wanted *wanted,
			   struct probe_info *ret, struct file_copy **ret_copy,
			   struct reason *why)
{
	static const struct functions_wanted none;
	struct facts_asked asked = { .wanted = wanted ?: &none };
	struct file_copy *copy = NULL;
	bool is_fresh = !parser->has_read;
	int err = ask_facts(parser, fd, &asked, why);

	if (!err && probe_info_has_places(&asked.facts) && (!is_fresh || ret_copy))
		err = ask_new_reader(parser, fd, &asked, ret_copy ? &copy : NULL, why);
	if (err || !probe_info_has_places(&asked.facts)) {
		file_copy__free(copy);
		copy = NULL;
	}
	if (err) {
		probe_info_release(&asked.facts);
		return err;
	}
	*ret = asked.facts;
	if (ret_copy)
		*ret_copy = copy;
	return 0;
}

int parser__facts(struct parser *parser, int fd, const struct functions_wanted *wanted,
		  struct probe_info *ret, struct reason *why)
{
	return parser__facts_and_copy(parser, fd, wanted, ret, NULL, why);
}

/* ---- where functions return ---- */

static int take_returns(struct file_answer *answer, void *ret)
{
	struct object_returns *returns = ret;
	int err = file_answer__bytes(answer, returns, sizeof(*returns));

	returns->place = NULL;
	if (!err)
		err = file_answer__array(answer, returns->place_nr, sizeof(*returns->place), &returns->place);
	return err || object_returns_are_sound(returns, file_size_or_zero(answer->fd)) ? err : -EPROTO;
}

int parser__returns(struct parser *parser, int fd, uint64_t vaddr, struct object_returns *ret,
		    struct reason *why)
{
	const struct returns_question asked = { .vaddr = vaddr };
	const struct file_question question = {
		.question = ASK_RETURNS, .answer = RETURNS, .fd = fd, .take = take_returns,
		.asked = &asked, .asked_bytes = sizeof(asked),
		.answer_max = sizeof(*ret) + OBJECT_RETURNS_MAX * sizeof(*ret->place),
	};
	struct object_returns returns = {};
	int err;

	parser->is_spent |= parser->has_read;
	err = ask_file(parser, &question, &returns, why);

	if (err)
		object_returns_release(&returns);
	else
		*ret = returns;
	return err;
}

/* ---- signs that return probes are dangerous ---- */

static int take_switch(struct file_answer *answer, void *ret)
{
	uint32_t *index = ret;
	int err = file_answer__bytes(answer, index, sizeof(*index));

	return !err && *index >= stack_switch_nr ? -EPROTO : err;
}

/*
 * If a file has no such sign, return probes are placed. A wrong answer would crash a target that
 * switches stacks, so a new reader answers this, too.
 */
int parser__stack_switch(struct parser *parser, int fd, const char **ret_what)
{
	const struct file_question question = {
		.question = ASK_SWITCH, .answer = SWITCH, .fd = fd, .take = take_switch,
		.answer_max = sizeof(uint32_t),
	};
	uint32_t index = 0;
	int err;

	parser->is_spent |= parser->has_read;
	err = ask_file(parser, &question, &index, NULL);
	if (!err)
		*ret_what = stack_switches[index].what;
	return err;
}

/* ---- entries that a jump replaces ---- */

static int take_entries(struct file_answer *answer, void *ret)
{
	struct entry_patches *patches = ret;
	int err = file_answer__bytes(answer, patches, sizeof(*patches));

	patches->patch = NULL;
	if (!err && patches->nr > ENTRY_PATCHES_MAX)
		err = -EPROTO;
	if (!err)
		err = file_answer__array(answer, patches->nr, sizeof(*patches->patch), &patches->patch);
	return err || entry_patches_are_sound(patches, file_size_or_zero(answer->fd)) ? err : -EPROTO;
}

/* As with probes: a wrong answer would crash the process. */
int parser__entries(struct parser *parser, int fd, struct entry_patches *ret, struct reason *why)
{
	const struct file_question question = {
		.question = ASK_ENTRIES, .answer = ENTRIES, .fd = fd, .take = take_entries,
		.answer_max = sizeof(*ret) + ENTRY_PATCHES_MAX * sizeof(*ret->patch),
	};
	struct entry_patches patches = {};
	int err;

	parser->is_spent |= parser->has_read;
	err = ask_file(parser, &question, &patches, why);
	if (err)
		entry_patches_release(&patches);
	else
		*ret = patches;
	return err;
}

/* ---- properties of a file ---- */

static int take_traits(struct file_answer *answer, void *ret)
{
	struct runtime_traits *traits = ret;
	int err = file_answer__bytes(answer, traits, sizeof(*traits));

	return !err && traits->bits >> TRAIT_NR ? -EPROTO : err;
}

int parser__traits(struct parser *parser, int fd, struct runtime_traits *ret, struct reason *why)
{
	const struct file_question question = {
		.question = ASK_TRAITS, .answer = TRAITS, .fd = fd, .take = take_traits,
		.answer_max = sizeof(*ret),
	};
	struct runtime_traits traits = {};
	int err = ask_file(parser, &question, &traits, why);

	if (!err)
		*ret = traits;
	return err;
}

/* ---- unwind tables ---- */

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
 * A hostile file can take over its reader. If that reader compiled the tables of later files, the tracebacks of other
 * processes would be wrong. So each table gets a reader that has read nothing before.
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
