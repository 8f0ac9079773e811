// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions about a file, to place probes. */
#include <errno.h>
#include <sys/stat.h>

#include "base/file_copy.h"
#include "elf/object_facts.h"
#include "elf/object_traits.h"
#include "elf/stack_switches.h"
#include "sandbox/ask_file.h"

#define FACTS_COPY_MAX (16ull << 20)

static uint64_t file_size_or_zero(int fd)
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
	struct object_facts facts;
};

static int take_facts(struct file_answer *answer, void *ret)
{
	struct facts_asked *asked = ret;
	struct object_facts *facts = &asked->facts;
	int err = file_answer__bytes(answer, facts, sizeof(*facts));

	facts->function = NULL;
	if (!err)
		err = file_answer__array(answer, facts->function_nr, sizeof(*facts->function), &facts->function);
	return err || object_facts_are_sound(facts, asked->wanted, file_size_or_zero(answer->fd)) ? err : -EPROTO;
}

static int ask_facts(struct parser *parser, int fd, struct facts_asked *asked, struct reason *why)
{
	const struct file_question question = {
		.question = ASK_FACTS, .answer = FACTS, .fd = fd, .take = take_facts,
		.asked = asked->wanted,
		.asked_bytes = offsetof(struct functions_wanted, function[asked->wanted->nr]),
		.answer_max = sizeof(asked->facts) +
			      OBJECT_FUNCTIONS_MAX * sizeof(*asked->facts.function),
	};

	return ask_file(parser, &question, asked, why);
}

/* Asks about a copy, if one can be made: the file itself may change before it is read again. */
static int ask_new_reader(struct parser *parser, int fd, struct facts_asked *asked,
			  struct file_copy **copy, struct reason *why)
{
	object_facts_release(&asked->facts);
	if (copy)
		*copy = file_copy__new(fd, FACTS_COPY_MAX);
	parser->is_spent = true;
	return ask_facts(parser, copy && *copy ? file_copy__fd(*copy) : fd, asked, why);
}

int parser__facts_and_copy(struct parser *parser, int fd, const struct functions_wanted *wanted,
			   struct object_facts *ret, struct file_copy **ret_copy,
			   struct reason *why)
{
	static const struct functions_wanted none;
	struct facts_asked asked = { .wanted = wanted ?: &none };
	struct file_copy *copy = NULL;
	bool is_fresh = !parser->has_read;
	int err = ask_facts(parser, fd, &asked, why);

	if (!err && asked.facts.function_nr && (!is_fresh || ret_copy))
		err = ask_new_reader(parser, fd, &asked, ret_copy ? &copy : NULL, why);
	if (err || !asked.facts.function_nr) {
		file_copy__free(copy);
		copy = NULL;
	}
	if (err) {
		object_facts_release(&asked.facts);
		return err;
	}
	*ret = asked.facts;
	if (ret_copy)
		*ret_copy = copy;
	return 0;
}

int parser__facts(struct parser *parser, int fd, const struct functions_wanted *wanted,
		  struct object_facts *ret, struct reason *why)
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

/* ---- properties of a file ---- */

static int take_traits(struct file_answer *answer, void *ret)
{
	struct object_traits *traits = ret;
	int err = file_answer__bytes(answer, traits, sizeof(*traits));

	return !err && traits->bits >> TRAIT_NR ? -EPROTO : err;
}

int parser__traits(struct parser *parser, int fd, struct object_traits *ret, struct reason *why)
{
	const struct file_question question = {
		.question = ASK_TRAITS, .answer = TRAITS, .fd = fd, .take = take_traits,
		.answer_max = sizeof(*ret),
	};
	struct object_traits traits = {};
	int err = ask_file(parser, &question, &traits, why);

	if (!err)
		*ret = traits;
	return err;
}
