// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions about a file: how the reader answers each, and how the recording process checks the answer. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
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
#include "sandbox/client.h"
#include "sandbox/messages.h"
#include "symbols/go_program.h"
#include "symbols/perf_map.h"
#include "symbols/symbols.h"
#include "unwind/unwind_table.h"

/* ---- names (the reader's side: worker.c) ---- */

static bool is_text(const struct names_answer *names, uint32_t at)
{
	uint32_t left = at ? names->text_bytes - (at - 1) : 0;

	return at <= names->text_bytes &&
	       (!at || memchr(names->text + at - 1, '\0', left < TEXT_MAX ? left : TEXT_MAX));
}

static bool is_frame(const struct names_answer *names, const struct wire_frame *frame)
{
	return is_text(names, frame->function) && is_text(names, frame->filename) &&
	       !frame->filename == !frame->lineno && frame->lineno <= INT32_MAX &&
	       (frame->lineno || !frame->first_line) && frame->first_line <= INT32_MAX;
}

/* Whether it answers some questions, and has valid frames. */
static bool verify_names(const void *answer, const void *asked, uint64_t)
{
	const struct names_answer *names = answer;
	uint64_t frames = 0;

	if (names->answer_nr < 1 || names->answer_nr > ((const struct names_question *)asked)->offset_nr)
		return false;
	for (uint32_t i = 0; i < names->answer_nr; i++) {
		if (names->frames_of[i] < 1 || names->frames_of[i] > SYMBOL_INLINE_MAX)
			return false;
		frames += names->frames_of[i];
	}
	if (frames != names->frame_nr)
		return false;
	for (uint32_t i = 0; i < names->frame_nr; i++)
		if (!is_frame(names, &names->frame[i]))
			return false;
	return true;
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

static int answer_table(int fd, const void *asked, void *ret, struct reason *why)
{
	const struct table_question *question = asked;
	struct unwind_table *table;
	int err = question->is_image ? table_of_image(fd, &table, why) : unwind_table__from_file(fd, &table, why);

	if (err)
		return err;
	*(struct unwind_table *)ret = *table;
	free(table);
	return 0;
}

static bool verify_table(const void *table, const void *, uint64_t)
{
	return unwind_table__is_sound(table);
}

/* ---- probes ---- */

static int answer_facts(int fd, const void *asked, void *ret, struct reason *why)
{
	const struct functions_wanted *wanted = asked;

	return wanted->nr > FUNCTIONS_WANTED_MAX ? -E2BIG : probe_info_read(fd, wanted, ret, why);
}

static bool verify_facts(const void *probe_info, const void *asked, uint64_t file_bytes)
{
	return probe_info_are_sound(probe_info, asked, file_bytes);
}

static int answer_returns(int fd, const void *asked, void *ret, struct reason *why)
{
	return object_returns_read(fd, ((const struct returns_question *)asked)->vaddr, ret, why);
}

static bool verify_returns(const void *returns, const void *, uint64_t file_bytes)
{
	return object_returns_are_sound(returns, file_bytes);
}

static int answer_switch(int fd, const void *, void *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	size_t found = 0;
	int err = elf ? stack_switch_find(elf, &found) : -errno;

	*(uint32_t *)ret = found;
	elf_object__close(elf);
	return err;
}

static bool verify_switch(const void *index, const void *, uint64_t)
{
	return *(const uint32_t *)index < stack_switch_nr;
}

static int answer_entries(int fd, const void *, void *ret, struct reason *why)
{
	return entry_patches_read(fd, ret, why);
}

static bool verify_entries(const void *patches, const void *, uint64_t file_bytes)
{
	return entry_patches_are_sound(patches, file_bytes);
}

/* ---- properties of a file ---- */

static int answer_traits(int fd, const void *, void *ret, struct reason *why)
{
	return runtime_traits_read(fd, ret, why);
}

static bool verify_traits(const void *traits, const void *, uint64_t)
{
	return !(((const struct runtime_traits *)traits)->bits >> TRAIT_NR);
}

/* ---- CPython ---- */

static int answer_python(int fd, const void *asked, void *ret, struct reason *why)
{
	return python_info_read(fd, asked, ret, why);
}

static bool verify_python(const void *info, const void *, uint64_t file_bytes)
{
	return python_info_is_sound(info, file_bytes);
}

static int answer_lines(int, const void *asked, void *ret, struct reason *)
{
	const struct lines_question *question = asked;
	const int64_t *instruction = (const int64_t *)(question + 1);
	const uint8_t *table = (const uint8_t *)(instruction + question->nr);
	struct lines_answer *answer = ret;

	answer->line = malloc(question->nr * sizeof(*answer->line) + 1);
	if (!answer->line)
		return -ENOMEM;
	answer->nr = question->nr;
	for (uint32_t i = 0; i < question->nr; i++)
		answer->line[i] = python_line(question->kind, table, question->bytes, question->first_line, instruction[i]);
	return 0;
}

static bool verify_lines(const void *answer, const void *asked, uint64_t)
{
	const struct lines_answer *lines = answer;
	bool is_sound = lines->nr == ((const struct lines_question *)asked)->nr;

	for (uint64_t i = 0; is_sound && i < lines->nr; i++)
		is_sound = lines->line[i] >= PYTHON_NO_LINE;
	return is_sound;
}

/* ---- Go ---- */

static int answer_go(int fd, const void *, void *ret, struct reason *why)
{
	return go_program_read(fd, ret, why);
}

static bool verify_go(const void *program, const void *, uint64_t file_bytes)
{
	return go_program_is_sound(program, file_bytes);
}

/* ---- code made at run time ---- */

static int answer_made(int fd, const void *asked, void *ret, struct reason *why)
{
	const struct made_question *question = asked;

	return perf_map_read(fd, &question->part, (const uint64_t *)(question + 1), question->nr, ret, why);
}

static bool verify_made(const void *answer, const void *asked, uint64_t)
{
	const struct perf_map_names *names = answer;
	bool is_sound = names->nr == ((const struct made_question *)asked)->nr;

	for (uint32_t i = 0; is_sound && i < names->nr; i++)
		is_sound = names->name[i] <= names->text_bytes;
	return is_sound && (!names->text_bytes || !names->text[names->text_bytes - 1]);
}

/* ---- all of them ---- */

#define ARRAY(type, pointer, number, ...) { \
	.at = offsetof(type, pointer), .item_bytes = sizeof(*((type *)0)->pointer), \
	.nr_at = offsetof(type, number), .nr_bytes = sizeof(((type *)0)->number), __VA_ARGS__ }

/*
 * A hostile file can take over its reader, and the reader then lies about later files. A probe or a jump in the middle of
 * an instruction would crash its target; a return probe would crash one that switches stacks; with a wrong table the
 * tracebacks of other processes would be wrong. So only a reader that has read nothing before answers these questions.
 * (FACTS: see sandbox__probe_info_and_copy().)
 */
const struct file_question file_questions[] = {
	[NAMES] = { sizeof(struct names_answer), .is_sound = verify_names, .array = {
		ARRAY(struct names_answer, frames_of, answer_nr, .nr_most = QUESTION_OFFSETS_MAX),
		ARRAY(struct names_answer, frame, frame_nr, .nr_most = QUESTION_OFFSETS_MAX * SYMBOL_INLINE_MAX),
		ARRAY(struct names_answer, text, text_bytes, .nr_most = ANSWER_MAX),
	} },
	[TABLE] = { sizeof(struct unwind_table), answer_table, verify_table, .needs_new_reader = true, .array = {
		ARRAY(struct unwind_table, page, page_nr, .more = 1, .nr_most = UNWIND_PAGES_MAX),
		ARRAY(struct unwind_table, rule, rule_nr, .nr_most = UNWIND_RULES_MAX),
		ARRAY(struct unwind_table, row, row_nr, .nr_most = UNWIND_ROWS_MAX),
	} },
	[FACTS] = { sizeof(struct probe_info), answer_facts, verify_facts, .array = {
		ARRAY(struct probe_info, function, function_nr, .nr_most = OBJECT_FUNCTIONS_MAX),
		ARRAY(struct probe_info, sampler, has_sampler, .nr_most = 1),
		ARRAY(struct probe_info, usdt, has_usdt, .nr_most = 1),
	} },
	[RETURNS] = { sizeof(struct object_returns), answer_returns, verify_returns, .needs_new_reader = true, .array = {
		ARRAY(struct object_returns, place, place_nr, .nr_most = OBJECT_RETURNS_MAX),
	} },
	[SWITCH] = { sizeof(uint32_t), answer_switch, verify_switch, .needs_new_reader = true },
	[TRAITS] = { sizeof(struct runtime_traits), answer_traits, verify_traits },
	[ENTRIES] = { sizeof(struct entry_patches), answer_entries, verify_entries, .needs_new_reader = true, .array = {
		ARRAY(struct entry_patches, patch, nr, .nr_most = ENTRY_PATCHES_MAX),
	} },
	[PYTHON] = { sizeof(struct python_info), answer_python, verify_python, .needs_new_reader = true, .array = {
		ARRAY(struct python_info, site, site_nr, .nr_most = PYTHON_SITES_MAX),
	} },
	[GO] = { sizeof(struct go_program), answer_go, verify_go, .needs_new_reader = true },
	[MADE] = { sizeof(struct perf_map_names), answer_made, verify_made, .array = {
		ARRAY(struct perf_map_names, name, nr, .nr_most = PERF_MAP_ADDRESSES_MAX),
		ARRAY(struct perf_map_names, text, text_bytes, .nr_most = PERF_MAP_ADDRESSES_MAX * PERF_MAP_NAME_MAX),
	} },
	[LINES] = { sizeof(struct lines_answer), answer_lines, verify_lines, .array = {
		ARRAY(struct lines_answer, line, nr, .nr_most = PYTHON_LINES_MAX),
	} },
};

void **answer_array_of(const struct answer_array *array, const void *answer, uint64_t *ret_nr)
{
	*ret_nr = 0;
	memcpy(ret_nr, (const char *)answer + array->nr_at, array->nr_bytes); /* little-endian */
	return (void **)((char *)answer + array->at);
}

void file_answer_release(const struct file_question *question, void *answer)
{
	uint64_t nr;

	for (size_t i = 0; i < ARRAY_SIZE(question->array) && question->array[i].item_bytes; i++)
		free(*answer_array_of(&question->array[i], answer, &nr));
}
