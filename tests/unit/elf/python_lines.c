// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Line tables against CPython's own answers for its standard library, and strings. python_lines_truth.py prints for each
 * code object "code KIND FIRST-LINE TABLE-IN-HEX", then "START END LINE" for each of its ranges of instructions.
 */
#include "elf/python/python_lines.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "full.h"
#include "skip.h"

/* ---- the standard library ---- */

struct line_table {
	enum python_lines kind;
	int32_t first_line;
	uint8_t *byte;
	size_t size;
};

static void read_table(const char *line, struct line_table *table)
{
	unsigned int kind;
	int hex;

	cr_assert_eq(sscanf(line, "code %u %d %n", &kind, &table->first_line, &hex), 2);
	table->kind = kind;
	table->size = strcspn(line + hex, "\n") / 2;
	free(table->byte);
	table->byte = malloc(table->size); /* exactly: a sanitizer sees a read behind it */
	for (size_t i = 0; i < table->size; i++)
		cr_assert_eq(sscanf(line + hex + 2 * i, "%2hhx", &table->byte[i]), 1);
}

/* Returns the number of code objects. */
static size_t compare_with(const char *python)
{
	struct line_table table = {};
	size_t code_nr = 0, room = 0;
	char command[256], *line = NULL;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s tests/unit/elf/python_lines_truth.py %d", python, full_or(1, 5));
	pipe = popen(command, "r");
	cr_assert(pipe);
	while (getline(&line, &room, pipe) > 0) {
		long start, end;
		int wanted;

		if (*line == 'c') {
			read_table(line, &table);
			code_nr++;
			continue;
		}
		cr_assert_eq(sscanf(line, "%ld %ld %d", &start, &end, &wanted), 3);
		for (long i = start; i < end; i++) {
			int32_t got = python_line(table.kind, table.byte, table.size, table.first_line, i);

			cr_assert_eq(got, wanted, "%s, code object %zu, instruction %ld: line %d, not %d", python, code_nr, i, got,
				     wanted);
		}
	}
	cr_assert_eq(pclose(pipe), 0);
	free(table.byte);
	free(line);
	return code_nr;
}

Test(python_lines, standard_library)
{
	cr_assert_gt(compare_with("/usr/bin/python3"), 1000);
}

Test(python_lines, standard_library_of_other_pythons)
{
	char *list = getenv("ALLOCSNAP_TEST_PYTHONS"), *place;

	if (!list)
		skip_because("ALLOCSNAP_TEST_PYTHONS names no other interpreters");
	list = strdup(list);
	for (char *one = strtok_r(list, ":", &place); one; one = strtok_r(NULL, ":", &place))
		cr_assert_gt(compare_with(one), 1000);
	free(list);
}

/* ---- what each format says, by hand ---- */

static const struct {
	enum python_lines kind;
	const char *what, *table;
	size_t bytes;
	int64_t instruction;
	int32_t line; /* the first is 100 */
} hand_made[] = {
	{ PYTHON_LNOTAB, "no entry", "", 0, 7, 100 },
	{ PYTHON_LNOTAB, "before the second", "\x00\x01\x08\x02", 4, 7, 101 },
	{ PYTHON_LNOTAB, "at the second", "\x00\x01\x08\x02", 4, 8, 103 },
	{ PYTHON_LNOTAB, "back", "\x02\xfe", 2, 2, 98 },
	{ PYTHON_LNOTAB, "half an entry", "\x00\x01\x00", 3, 0, 101 },
	{ PYTHON_LINETABLE, "first", "\x04\x01\x04\x01", 4, 1, 101 },
	{ PYTHON_LINETABLE, "second", "\x04\x01\x04\x01", 4, 2, 102 },
	{ PYTHON_LINETABLE, "no line", "\x04\x80\x04\x01", 4, 1, PYTHON_NO_LINE },
	{ PYTHON_LINETABLE, "behind no line", "\x04\x80\x04\x01", 4, 2, 101 },
	{ PYTHON_LINETABLE, "behind its end", "\x04\x01", 2, 2, PYTHON_NO_LINE },
	{ PYTHON_LOCATIONS, "short", "\x80\x00", 2, 0, 100 },
	{ PYTHON_LOCATIONS, "one line", "\xd9\x00\x00", 3, 1, 101 },
	{ PYTHON_LOCATIONS, "no columns, back", "\xe8\x03", 2, 0, 99 },
	{ PYTHON_LOCATIONS, "long", "\xf0\x42\x01\x00\x00\x00", 6, 0, 133 },
	{ PYTHON_LOCATIONS, "none", "\xf8", 1, 0, PYTHON_NO_LINE },
	{ PYTHON_LOCATIONS, "behind none", "\xf8\xe8\x04", 3, 1, 102 },
	{ PYTHON_LOCATIONS, "cut off in a number", "\xe8\x7f", 2, 0, 69 },
	{ PYTHON_LOCATIONS, "not begun", "\xe8\x04", 2, -1, 100 },
};

Test(python_lines, hand_made)
{
	for (size_t i = 0; i < ARRAY_SIZE(hand_made); i++) {
		int32_t line = python_line(hand_made[i].kind, hand_made[i].table, hand_made[i].bytes, 100,
					   hand_made[i].instruction);

		cr_expect_eq(line, hand_made[i].line, "%s: %d", hand_made[i].what, line);
	}
}

/* Any bytes give a line, or none. */
Test(python_lines, hostile)
{
	unsigned int seed = 1;

	for (int round = 0; round < 20000; round++) {
		size_t size = rand_r(&seed) % 64;
		uint8_t *table = malloc(size);

		for (size_t i = 0; i < size; i++)
			table[i] = rand_r(&seed);
		for (unsigned int kind = 0; kind < PYTHON_LINES_NR; kind++) {
			int32_t line = python_line(kind, table, size, rand_r(&seed), rand_r(&seed) % 100);

			cr_assert(line >= PYTHON_NO_LINE);
		}
		free(table);
	}
	cr_expect_eq(python_line(PYTHON_LOCATIONS, "", 0, 1, INT64_MAX), PYTHON_NO_LINE);
}

/* ---- strings ---- */

#define ASCII (1u << 2 | 1u << 6)
#define LATIN (1u << 2)
#define TWO (2u << 2)
#define FOUR (4u << 2)

static void expect_text(uint32_t state, const char *bytes, size_t nr, size_t room, const char *wanted, size_t used)
{
	char text[64];
	size_t got, len = python_text(state, bytes, nr, text, room, &got);

	cr_expect_str_eq(text, wanted);
	cr_expect_eq(len, strlen(wanted));
	cr_expect_eq(got, used, "'%s': %zu", wanted, got);
}

Test(python_lines, strings)
{
	expect_text(ASCII, "a.py", 4, 64, "a.py", 4);
	expect_text(LATIN, "\xe4.py", 4, 64, "ä.py", 4);
	expect_text(TWO, "\x3b\x04\x61\x00", 4, 64, "лa", 4);
	expect_text(TWO, "\xe9\xdc\x61\x00", 4, 64, "\\xe9a", 4); /* os.fsdecode(b"\xe9") */
	expect_text(TWO, "\xe8\xdc\x61\x00", 4, 64, "\\xe8a", 4);
	expect_text(FOUR, "\x80\xdc\0\0\xff\xdc\0\0", 8, 64, "\\x80\\xff", 8);
	expect_text(TWO, "\x00\xd8\x61\x00", 4, 64, "\\xed\\xa0\\x80a", 4);
	expect_text(TWO, "\x7f\xdc", 2, 64, "\\xed\\xb1\\xbf", 2);
	expect_text(FOUR, "\x0d\xf4\x01\x00", 4, 64, "🐍", 4);
	expect_text(FOUR, "\xff\xff\xff\xff", 4, 64, "\xef\xbf\xbd", 4);
	expect_text(ASCII, "a\0b", 3, 64, "a\\x00b", 3);
	expect_text(TWO, "\xe9\xdc", 2, 4, "", 0);
	expect_text(TWO, "\x61\x00\x62", 3, 64, "a", 2);
	expect_text(ASCII, "abcdef", 6, 4, "abc", 3);
	expect_text(TWO, "\x3b\x04\x3b\x04", 4, 4, "л", 2);
	expect_text(0, "abc", 3, 64, "", 0);
	expect_text(3u << 2, "abc", 3, 64, "", 0);
}

/* A name with a backslash stays another one than a name with a byte that is spelled so. */
Test(python_lines, strings_that_look_spelled)
{
	expect_text(ASCII, "a\\xe9", 5, 64, "a\\x5cxe9", 5);
	expect_text(ASCII, "\\x5cxe9", 7, 64, "\\x5cx5cxe9", 7);
	expect_text(ASCII, "\\x00", 4, 64, "\\x5cx00", 4);
	expect_text(TWO, "\\\0x\0f\0f\0", 8, 64, "\\x5cxff", 8);
	expect_text(ASCII, "\\x41\\xE9\\xe\\y\\", 14, 64, "\\x41\\xE9\\xe\\y\\", 14);
}
