// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* answer_seeds DIR: one honest answer of each kind, as inputs of answer.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/messages.h"
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
	return 0;
}
