// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "java/type_name.h"

#include <stdio.h>
#include <string.h>

#define DIMENSIONS_MAX 255

static const char *name_of_letter(char letter)
{
	static const char letters[] = "BCDFIJSZ";
	static const char *const names[] = { "byte", "char", "double", "float", "int", "long", "short", "boolean" };
	const char *at = letter ? strchr(letters, letter) : NULL;

	return at ? names[at - letters] : NULL;
}

void java_type_name(const char *text, size_t bytes, char ret[JAVA_TYPE_MAX])
{
	size_t dimensions = 0;
	const char *letter;
	int len;

	while (dimensions < bytes && dimensions < DIMENSIONS_MAX && text[dimensions] == '[')
		dimensions++;
	text += dimensions;
	bytes -= dimensions;
	letter = dimensions && bytes == 1 ? name_of_letter(*text) : NULL;
	if (bytes > 2 && *text == 'L' && text[bytes - 1] == ';') {
		text++;
		bytes -= 2;
	}
	len = letter ? snprintf(ret, JAVA_TYPE_MAX, "%s", letter) :
		       snprintf(ret, JAVA_TYPE_MAX, "%.*s", (int)(bytes < JAVA_TYPE_MAX ? bytes : JAVA_TYPE_MAX), text);
	for (char *at = ret; *at; at++)
		*at = *at == '/' ? '.' : *at;
	for (size_t at = strlen(ret); dimensions && len >= 0 && at + 3 <= JAVA_TYPE_MAX; dimensions--, at += 2)
		memcpy(ret + at, "[]", 3);
}
