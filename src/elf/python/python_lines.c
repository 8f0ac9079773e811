// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_lines.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct table {
	const uint8_t *byte;
	size_t size, at;
};

enum python_lines python_lines_of(struct python_version version)
{
	return version.minor < 10 ? PYTHON_LNOTAB : version.minor == 10 ? PYTHON_LINETABLE : PYTHON_LOCATIONS;
}

/* Hostile tables may add up to anything. */
static int32_t line_number(int64_t line)
{
	return line >= 0 && line <= INT32_MAX ? (int32_t)line : PYTHON_NO_LINE;
}

static int32_t line_of_lnotab(const struct table *table, int64_t line, int64_t instruction)
{
	int64_t address = 0;

	for (size_t i = 0; i + 1 < table->size; i += 2) {
		address += table->byte[i];
		if (address > instruction)
			break;
		line += (int8_t)table->byte[i + 1];
	}
	return line_number(line);
}

#define NO_LINE_HERE (-128)

static int32_t line_of_linetable(const struct table *table, int64_t line, int64_t instruction)
{
	int64_t end = 0, address = 2 * instruction;

	for (size_t i = 0; i + 1 < table->size; i += 2) {
		int8_t lines = (int8_t)table->byte[i + 1];

		end += table->byte[i];
		if (lines != NO_LINE_HERE)
			line += lines;
		if (address < end)
			return lines == NO_LINE_HERE ? PYTHON_NO_LINE : line_number(line);
	}
	return PYTHON_NO_LINE;
}

/* ---- locations: a first byte 1cccclll (code c, l + 1 units), and what follows it ---- */

enum location_code {
	LOCATION_SHORT_LAST = 9, /* 0 to 9: the same line, one byte for columns */
	LOCATION_ONE_LINE = 10,	 /* 10 to 12: so many lines less 10, two bytes for columns */
	LOCATION_ONE_LINE_LAST = 12,
	LOCATION_NO_COLUMNS = 13, /* a number for lines */
	LOCATION_LONG = 14,	  /* a number for lines, three for columns and the last line */
	LOCATION_NONE = 15,
};

/* Six bits a byte, the lowest first; a seventh: more follow. */
static uint32_t next_number(struct table *table)
{
	uint32_t value = 0;

	for (unsigned int shift = 0; table->at < table->size; shift += 6) {
		uint8_t byte = table->byte[table->at++];

		if (shift < 32)
			value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return value;
}

/* The sign is the lowest bit. */
static int64_t next_lines(struct table *table)
{
	uint32_t value = next_number(table);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Moves behind an entry whose first byte was read. Returns the lines that it adds. */
static int64_t next_location(struct table *table, unsigned int code)
{
	int64_t lines = 0;

	if (code == LOCATION_NONE)
		return 0;
	if (code <= LOCATION_SHORT_LAST) {
		table->at++;
	} else if (code <= LOCATION_ONE_LINE_LAST) {
		lines = code - LOCATION_ONE_LINE;
		table->at += 2;
	} else {
		lines = next_lines(table);
		for (int i = 0; i < 3 && code == LOCATION_LONG; i++)
			next_number(table);
	}
	return lines;
}

static int32_t line_of_locations(struct table *table, int64_t line, int64_t instruction)
{
	int64_t end = 0;

	while (table->at < table->size) {
		uint8_t first = table->byte[table->at++];
		unsigned int code = first >> 3 & 15;

		end += (first & 7) + 1;
		line += next_location(table, code);
		if (instruction < end)
			return code == LOCATION_NONE ? PYTHON_NO_LINE : line_number(line);
	}
	return PYTHON_NO_LINE;
}

int32_t python_line(enum python_lines kind, const void *table, size_t bytes, int32_t first_line, int64_t instruction)
{
	struct table read = { .byte = table, .size = bytes };

	if (instruction < 0)
		return first_line;
	if (instruction > INT32_MAX)
		return PYTHON_NO_LINE;
	switch (kind) {
	case PYTHON_LNOTAB:
		return line_of_lnotab(&read, first_line, instruction);
	case PYTHON_LINETABLE:
		return line_of_linetable(&read, first_line, instruction);
	default:
		return line_of_locations(&read, first_line, instruction);
	}
}

/* ---- strings ---- */

#define REPLACEMENT 0xfffd
#define SPELLED_MOST 12 /* "\xNN" three times */

static uint32_t character_of(const uint8_t *bytes, unsigned int width)
{
	uint32_t character = 0;

	memcpy(&character, bytes, width);
	return character > 0x10ffff ? REPLACEMENT : character;
}

/* Returns the number of bytes. */
static size_t encode_utf8(uint32_t character, char to[4])
{
	size_t nr = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = nr; i-- > 1; character >>= 6)
		to[i] = 0x80 | (character & 0x3f);
	to[0] = nr == 1 ? character : first[nr] | character;
	return nr;
}

static size_t spell_bytes(const char *bytes, size_t nr, char to[SPELLED_MOST + 1])
{
	for (size_t i = 0; i < nr; i++)
		sprintf(to + 4 * i, "\\x%02x", (uint8_t)bytes[i]);
	return 4 * nr;
}

/* Whether the text after a backslash would make it one that spells a byte. */
static bool is_like_spelled(const uint8_t *bytes, size_t nr, unsigned int width)
{
	char digits[3] = "";

	if (nr < 3 * width || character_of(bytes, width) != 'x')
		return false;
	for (int i = 0; i < 2; i++) {
		uint32_t digit = character_of(bytes + (i + 1) * width, width);

		digits[i] = digit < 0x80 ? digit : 0;
	}
	return strspn(digits, "0123456789abcdef") == 2 &&
	       (digits[0] > '7' || !strcmp(digits, "00") || !strcmp(digits, "5c"));
}

/* Surrogates from 0xdc80 to 0xdcff stand for single bytes, from file names that are no UTF-8. */
static size_t encode_character(uint32_t character, bool is_ambiguous, char to[SPELLED_MOST + 1])
{
	char utf8[4];
	size_t nr;

	if (character >= 0xdc80 && character <= 0xdcff)
		return spell_bytes((char[]){ character - 0xdc00 }, 1, to);
	nr = encode_utf8(character, utf8);
	if (!character || is_ambiguous || (character >= 0xd800 && character < 0xe000))
		return spell_bytes(utf8, nr, to);
	memcpy(to, utf8, nr);
	return nr;
}

size_t python_text(uint32_t state, const void *bytes, size_t nr, char *to, size_t room, size_t *ret_used)
{
	unsigned int width = PYTHON_STRING_BYTES(state);
	char encoded[SPELLED_MOST + 1];
	size_t at = 0, len = 0;

	if (width != 1 && width != 2 && width != 4)
		nr = 0;
	while (nr && at + width <= nr) {
		const uint8_t *behind = (const uint8_t *)bytes + at + width;
		uint32_t character = character_of(behind - width, width);
		bool is_ambiguous = character == '\\' && is_like_spelled(behind, nr - at - width, width);
		size_t add = encode_character(character, is_ambiguous, encoded);

		if (len + add >= room)
			break;
		memcpy(to + len, encoded, add);
		len += add;
		at += width;
	}
	to[len] = '\0';
	if (ret_used)
		*ret_used = at;
	return len;
}
