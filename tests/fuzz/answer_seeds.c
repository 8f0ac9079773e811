// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* answer_seeds DIR: one honest answer of each kind, as inputs of answer.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/entry_patch.h"
#include "elf/probe_info.h"
#include "elf/python/python_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/messages.h"
#include "symbols/go_program.h"
#include "symbols/perf_map.h"
#include "unwind/unwind_table.h"

static const struct verdict no_error;

static const struct {
	struct unwind_table table;
	uint32_t page[2];
	struct unwind_rule rule;
	unwind_row row;
} __attribute__((packed)) table = { { .page_nr = 1, .rule_nr = 1, .row_nr = 1 }, { 0, 1 } };

static const struct {
	struct probe_info probe_info;
	struct object_function function[2];
} probe_info = { { .build_id = "abcd", .entry = 64, .function_nr = 2 }, { { .offset = 8 }, { .offset = 9 } } };

static const struct {
	struct object_returns returns;
	struct object_return place[2];
} returns = { { .place_nr = 2 }, { { 8, 0 }, { 9, 1 } } };

static const uint32_t index_of_switch = 1;

static const struct runtime_traits traits = { TRAIT_BIT(DYNAMIC) | TRAIT_BIT(GO) };

static const struct {
	struct names_answer head;
	uint32_t frames_of[3];
	struct wire_frame frame[4];
	char text[12];
} __attribute__((packed)) names = {
	{ 3, 4, 12 }, { 1, 2, 1 }, { { 1 }, { 1, 5, 7, 3 }, { 0, 5, 8 }, { 1 } }, "abc\0file.c",
};

static const struct {
	struct entry_patches patches;
	struct entry_patch patch;
} entries = { { .nr = 1 }, { .vaddr = 8, .offset = 8, .insn_nr = 1, .insn = { { .size = ENTRY_JUMP_BYTES } } } };

static struct {
	struct python_info info;
	struct python_site site;
} python = {
	{ .version = { 3, 11, 2 }, .text_end = 64, .site_nr = 1 },
	{ .vaddr = 8, .offset = 8, .size.bytes = 8, .count.bytes = 8, .pointer.bytes = 8 },
};

static const struct {
	struct lines_answer lines;
	int32_t line[3];
} __attribute__((packed)) lines = { { .nr = 3 }, { 1, -1, 7 } };

static const struct {
	struct perf_map_names names;
	uint32_t name[3];
	char text[6];
} __attribute__((packed)) made = { { .nr = 3, .text_bytes = 6 }, { 1, 0, 3 }, "a\0bcd" };

static const struct go_program go = {
	.version = "go1.19.8", .table = 64, .module = 8, .code = { 4096, 8192 }, .code_offset = 4096, .zeroed = { { 8, 16 }, { 16, 32 } },
	.rate = 16, .has_profile = 1,
};

static void write_seed(const char *dir, int kind, const void *head, size_t head_bytes,
		       const void *rest, size_t bytes)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/seed-%d", dir, kind);
	file = fopen(path, "w");
	if (!file || fputc(kind, file) == EOF || fwrite(head, 1, head_bytes, file) != head_bytes ||
	    fwrite(rest, 1, bytes, file) != bytes || fclose(file))
		exit(1);
}

int main(int, char **argv)
{
	write_seed(argv[1], 0, &no_error, sizeof(no_error), &table, sizeof(table));
	write_seed(argv[1], 1, &no_error, sizeof(no_error), &probe_info, sizeof(probe_info));
	write_seed(argv[1], 2, &no_error, sizeof(no_error), &returns, sizeof(returns));
	write_seed(argv[1], 3, &no_error, sizeof(no_error), &index_of_switch, sizeof(uint32_t));
	write_seed(argv[1], 4, &no_error, sizeof(no_error), &names, sizeof(names));
	write_seed(argv[1], 5, &no_error, sizeof(no_error), &traits, sizeof(traits));
	write_seed(argv[1], 6, &no_error, sizeof(no_error), &entries, sizeof(entries));
	if (!python_offsets_of(python.info.version, &python.info.offsets))
		return 1;
	write_seed(argv[1], 7, &no_error, sizeof(no_error), &python, sizeof(python));
	write_seed(argv[1], 8, &no_error, sizeof(no_error), &lines, sizeof(lines));
	write_seed(argv[1], 9, &no_error, sizeof(no_error), &made, sizeof(made));
	write_seed(argv[1], 10, &no_error, sizeof(no_error), &go, sizeof(go));
	return 0;
}
