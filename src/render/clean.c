// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/clean.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/units.h"

char *clean_copy(const char *text)
{
	size_t room = 4 * strlen(text) + 1; /* every byte as \xNN */
	char *clean = malloc(room);

	if (clean)
		clean_text(clean, room, text);
	return clean;
}

char *clean_vformat(const char *fmt, va_list args)
{
	char *text, *clean;

	if (vasprintf(&text, fmt, args) < 0)
		return NULL;
	clean = clean_copy(text);
	free(text);
	return clean;
}

char *clean_format(const char *fmt, ...)
{
	va_list args;
	char *clean;

	va_start(args, fmt);
	clean = clean_vformat(fmt, args);
	va_end(args);
	return clean;
}

#define HANG 4 /* columns more than the line itself */

/* Where a broken line goes on: below what follows two or more spaces, if that is in its first half. */
static size_t hang_column(const char *line, size_t width)
{
	size_t hang = strspn(line, " ") + HANG, column = 0, spaces = 0;

	for (const char *at = line + strspn(line, " "); *at && column <= width / 2; at++) {
		column = strspn(line, " ") + text_columns(line + strspn(line, " ")) - text_columns(at);
		if (*at != ' ' && spaces >= 2 && column <= width / 2)
			hang = column;
		spaces = *at == ' ' ? spaces + 1 : 0;
	}
	return hang <= width / 2 ? hang : HANG;
}

/* The bytes of the text that a line of so many columns has, up to a space. A word that is wider stays whole. */
static size_t find_break(const char *text, size_t columns)
{
	size_t nr = 0, last = 0, word = strspn(text, " ");

	for (size_t at = word; text[at] && nr <= columns; at++) {
		if (text[at] == ' ')
			last = at;
		nr = text_columns(text) - text_columns(text + at + 1);
	}
	return last ?: word + strcspn(text + word, " ");
}

static void put_part(FILE *out, enum tone tone, size_t indent, const char *text, size_t len)
{
	fprintf(out, "%*s", (int)indent, "");
	tone_begin(out, tone);
	fwrite(text, 1, len, out);
	tone_end(out, tone);
	putc('\n', out);
}

static void put_folded(FILE *out, enum tone tone, const char *line, size_t width)
{
	size_t hang = hang_column(line, width), indent = 0;

	while (width && text_columns(line) > width - indent) {
		size_t len = find_break(line, width - indent);

		if (!line[len])
			break;
		put_part(out, tone, indent, line, len);
		line += len + strspn(line + len, " ");
		indent = hang;
	}
	put_part(out, tone, indent, line, strlen(line));
}

int put_line_of(FILE *out, enum tone tone, const char *fmt, va_list args)
{
	char *line = clean_vformat(fmt, args);

	if (!line)
		return -ENOMEM;
	errno = 0;
	put_folded(out, tone, line, terminal_width(fileno(out)));
	free(line);
	return ferror(out) ? -errno ?: -EIO : 0;
}

int put_line(FILE *out, const char *fmt, ...)
{
	va_list args;
	int err;

	va_start(args, fmt);
	err = put_line_of(out, TONE_PLAIN, fmt, args);
	va_end(args);
	return err;
}

int put_toned_line(FILE *out, enum tone tone, const char *fmt, ...)
{
	va_list args;
	int err;

	va_start(args, fmt);
	err = put_line_of(out, tone, fmt, args);
	va_end(args);
	return err;
}
