// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/elf_object.h"
#include "elf/entry_patch.h"
#include "elf/probe_info.h"
#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "elf/runtime_detect.h"
#include "sandbox/channel.h"
#include "sandbox/worker.h"
#include "unwind/unwind_table.h"

/* piece[0] is reserved for the head; with an err only the head is sent. */
static int send_answer(const struct channel *channel, enum message_kind kind, int err,
		       const struct reason *why, struct iovec *piece, int piece_nr)
{
	struct verdict head = { .err = err };

	snprintf(head.why, sizeof(head.why), "%.*s", (int)sizeof(head.why) - 1, why->text);
	piece[0] = (struct iovec){ &head, sizeof(head) };
	return channel__send(channel, kind, piece, err ? 1 : piece_nr, -1);
}

/* ---- unwind tables ---- */

static int table_of_image(int fd, struct unwind_table **ret, struct reason *why)
{
	struct stat st;
	void *image;
	int err;

	if (fstat(fd, &st))
		return -errno;
	image = malloc(st.st_size + 1);
	if (!image)
		return -ENOMEM;
	err = pread(fd, image, st.st_size, 0) == st.st_size ?
		      unwind_table__from_memory(image, st.st_size, ret, why) : -EIO;
	free(image);
	return err;
}

int serve_table(const struct channel *channel, int fd)
{
	struct table_question question;
	struct unwind_table *table = NULL, sent = {};
	struct reason why = {};
	struct iovec piece[5];
	int err = channel__receive(channel, &question, sizeof(question));

	if (err)
		return err;
	err = question.is_image ? table_of_image(fd, &table, &why) :
				  unwind_table__from_file(fd, &table, &why);
	if (!err) {
		sent = *table;
		piece[1] = (struct iovec){ &sent, sizeof(sent) };
		piece[2] = (struct iovec){ table->page, (table->page_nr + 1) * sizeof(*table->page) };
		piece[3] = (struct iovec){ table->rule, table->rule_nr * sizeof(*table->rule) };
		piece[4] = (struct iovec){ table->row, table->row_nr * sizeof(*table->row) };
	}
	err = send_answer(channel, TABLE, err, &why, piece, ARRAY_SIZE(piece));
	unwind_table__free(table);
	return err;
}

/* ---- probes ---- */

static int receive_wanted(const struct channel *channel, struct functions_wanted *ret)
{
	int err = channel__receive(channel, &ret->nr, sizeof(ret->nr));

	if (!err && ret->nr > ARRAY_SIZE(ret->function))
		err = -EPROTO;
	return err ?: channel__receive(channel, ret->function, ret->nr * sizeof(*ret->function));
}

int serve_facts(const struct channel *channel, int fd)
{
	static struct functions_wanted wanted;
	struct probe_info facts = {};
	struct reason why = {};
	struct iovec piece[4];
	int err = receive_wanted(channel, &wanted);

	if (err)
		return err;
	err = probe_info_read(fd, &wanted, &facts, &why);
	piece[1] = (struct iovec){ &facts, sizeof(facts) };
	piece[2] = (struct iovec){ facts.function, facts.function_nr * sizeof(*facts.function) };
	piece[3] = (struct iovec){ facts.sampler, facts.has_sampler * sizeof(*facts.sampler) };
	err = send_answer(channel, FACTS, err, &why, piece, ARRAY_SIZE(piece));
	probe_info_release(&facts);
	return err;
}

int serve_returns(const struct channel *channel, int fd)
{
	struct object_returns returns = {};
	struct returns_question question;
	struct reason why = {};
	struct iovec piece[3];
	int err = channel__receive(channel, &question, sizeof(question));

	if (err)
		return err;
	err = object_returns_read(fd, question.vaddr, &returns, &why);
	piece[1] = (struct iovec){ &returns, sizeof(returns) };
	piece[2] = (struct iovec){ returns.place, returns.place_nr * sizeof(*returns.place) };
	err = send_answer(channel, RETURNS, err, &why, piece, ARRAY_SIZE(piece));
	object_returns_release(&returns);
	return err;
}

int serve_switch(const struct channel *channel, int fd)
{
	struct reason why = {};
	struct elf_object *elf = elf_object__open(fd, &why);
	size_t found = 0;
	int err = elf ? stack_switch_find(elf, &found) : -errno;
	uint32_t index = found;
	struct iovec piece[2];

	piece[1] = (struct iovec){ &index, sizeof(index) };
	err = send_answer(channel, SWITCH, err, &why, piece, ARRAY_SIZE(piece));
	elf_object__close(elf);
	return err;
}

int serve_traits(const struct channel *channel, int fd)
{
	struct runtime_traits traits = {};
	struct reason why = {};
	struct iovec piece[2];
	int err = runtime_traits_read(fd, &traits, &why);

	piece[1] = (struct iovec){ &traits, sizeof(traits) };
	return send_answer(channel, TRAITS, err, &why, piece, ARRAY_SIZE(piece));
}

/* ---- entries that a jump replaces ---- */

int serve_entries(const struct channel *channel, int fd)
{
	struct entry_patches patches = {};
	struct reason why = {};
	struct iovec piece[3];
	int err = entry_patches_read(fd, &patches, &why);

	piece[1] = (struct iovec){ &patches, sizeof(patches) };
	piece[2] = (struct iovec){ patches.patch, patches.nr * sizeof(*patches.patch) };
	err = send_answer(channel, ENTRIES, err, &why, piece, ARRAY_SIZE(piece));
	entry_patches_release(&patches);
	return err;
}

/* ---- CPython ---- */

int serve_python(const struct channel *channel, int fd)
{
	struct python_asked asked;
	struct python_info info = {};
	struct reason why = {};
	struct iovec piece[3];
	int err = channel__receive(channel, &asked, sizeof(asked));

	if (err)
		return err;
	err = python_info_read(fd, &asked, &info, &why);
	piece[1] = (struct iovec){ &info, sizeof(info) };
	piece[2] = (struct iovec){ info.site, info.site_nr * sizeof(*info.site) };
	err = send_answer(channel, PYTHON, err, &why, piece, ARRAY_SIZE(piece));
	python_info_release(&info);
	return err;
}

static int receive_lines(const struct channel *channel, const struct lines_question *question, int64_t *instruction,
			 uint8_t *table)
{
	return channel__receive(channel, instruction, question->nr * sizeof(*instruction)) ?:
	       channel__receive(channel, table, question->bytes);
}

int serve_lines(const struct channel *channel, int)
{
	struct lines_question question;
	int64_t *instruction;
	uint8_t *table;
	int32_t *line;
	struct iovec piece[2];
	int err = channel__receive(channel, &question, sizeof(question));

	if (err)
		return err;
	instruction = malloc(question.nr * sizeof(*instruction) + 1);
	table = malloc(question.bytes + 1);
	line = malloc(question.nr * sizeof(*line) + 1);
	err = instruction && table && line ? receive_lines(channel, &question, instruction, table) : -ENOMEM;
	for (uint32_t i = 0; i < question.nr && !err; i++)
		line[i] = python_line(question.kind, table, question.bytes, question.first_line, instruction[i]);
	piece[1] = (struct iovec){ line, question.nr * sizeof(*line) };
	err = err ?: send_answer(channel, LINES, 0, &(struct reason){}, piece, ARRAY_SIZE(piece));
	free(instruction);
	free(table);
	free(line);
	return err;
}
