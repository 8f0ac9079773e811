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

__attribute__((format(printf, 1, 2))) static char *clean_format(const char *fmt, ...)
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

int put_words(FILE *out, size_t indent, size_t columns, const char *text)
{
	size_t width = terminal_width(fileno(out));
	char *clean = clean_copy(text);

	if (!clean)
		return -ENOMEM;
	errno = 0;
	if (width && width < indent + columns)
		columns = width > indent ? width - indent : 1;
	for (const char *rest = clean; *rest; rest += strspn(rest, " ")) {
		size_t len = text_columns(rest) > columns ? find_break(rest, columns) : strlen(rest);

		put_part(out, TONE_PLAIN, indent, rest, len);
		rest += len;
	}
	free(clean);
	return ferror(out) ? -errno ?: -EIO : 0;
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

/* ---- rows that fit ---- */

#define HEAD_LEAST 24 /* columns of a head that a long tail leaves; in a narrow terminal half of it */
#define AT_COLUMNS 4  /* " at ", which a cut tail keeps */

/*
 * Cuts the text to `columns`: its first `keep` columns stay, the rest comes from its end. The result may have more
 * bytes than the text: "…" has three. Returns 0 or -ENOMEM.
 */
static int cut_row_text(char **text, size_t columns, size_t keep)
{
	size_t nr = text_columns(*text);
	const char *gap, *rest;
	char *cut;

	if (nr <= columns)
		return 0;
	if (!columns) {
		**text = '\0';
		return 0;
	}
	if (keep > columns - 1)
		keep = columns - 1;
	gap = text_after_columns(*text, keep);
	rest = text_last_columns(*text, columns - 1 - keep);
	cut = clean_format("%.*s…%s", (int)(gap - *text), *text, rest);
	if (!cut)
		return -ENOMEM;
	free(*text);
	*text = cut;
	return 0;
}

/* Cuts as much of the folder in a tail " at /a/b/cart.c:31" as is too much, at most all of it. */
static int cut_folder(char **tail, size_t columns)
{
	const char *slash = strrchr(*tail, '/');
	size_t least = slash ? AT_COLUMNS + 1 + text_columns(slash) : 0;

	return slash ? cut_row_text(tail, columns > least ? columns : least, AT_COLUMNS) : 0;
}

/* The folder of a file gives way before the name of the function does. */
static int fit_parts(char **head, char **tail, size_t width, enum row_kind kind)
{
	size_t head_nr = text_columns(*head), tail_nr;
	size_t head_most = width / 2 < HEAD_LEAST ? width / 2 : HEAD_LEAST;
	size_t head_least = head_nr < head_most ? head_nr : head_most;
	int err = 0;

	if (!width || head_nr + text_columns(*tail) <= width)
		return 0;
	if (kind == ROW_FUNCTION)
		err = cut_folder(tail, width > head_nr ? width - head_nr : 0);
	tail_nr = text_columns(*tail);
	if (!err && tail_nr + head_least > width)
		err = cut_row_text(tail, width - head_least, kind == ROW_PATH ? width : AT_COLUMNS);
	return err ?: cut_row_text(head, width - text_columns(*tail), kind == ROW_PATH ? 0 : width);
}

/* Splits a text, which it frees, into a head and a tail that are clean and fit behind the indent. Returns 0 or -ENOMEM. */
static int split_row(char *text, size_t tail_at, size_t indent_nr, unsigned int width, enum row_kind kind,
		     char *ret_part[2])
{
	int err = -ENOMEM;

	ret_part[0] = text ? clean_format("%.*s", (int)tail_at, text) : NULL;
	ret_part[1] = text ? clean_copy(text + tail_at) : NULL;
	if (ret_part[0] && ret_part[1])
		err = fit_parts(&ret_part[0], &ret_part[1], width > indent_nr ? width - indent_nr : width, kind);
	free(text);
	return err;
}

static void free_parts(char *part[2])
{
	free(part[0]);
	free(part[1]);
}

char *fit_row(unsigned int width, const char *indent, char *text, size_t tail_at, enum row_kind kind)
{
	char *part[2];
	int err = split_row(text, tail_at, strlen(indent), width, kind, part);
	char *row = err ? NULL : clean_format("%s%s%s", indent, part[0], part[1]);

	free_parts(part);
	return row;
}

/* Writes what is clean and fits. */
static int put_fitted(FILE *out, const char *indent, char *part[2], enum tone tone)
{
	errno = 0;
	fputs(indent, out);
	if (*part[1])
		fputs(part[0], out);
	tone_begin(out, tone);
	fputs(*part[1] ? part[1] : part[0], out);
	tone_end(out, tone);
	putc('\n', out);
	return ferror(out) ? -errno ?: -EIO : 0;
}

static int put_any_row(FILE *out, unsigned int width, const char *indent, char *text, size_t tail_at,
		       enum row_kind kind, enum tone tone)
{
	char *part[2];
	int err = split_row(text, tail_at, strlen(indent), width, kind, part);

	err = err ?: put_fitted(out, indent, part, tone);
	free_parts(part);
	return err;
}

int put_row(FILE *out, unsigned int width, const char *indent, char *text, size_t tail_at, enum row_kind kind)
{
	return put_any_row(out, width, indent, text, tail_at, kind, TONE_PLAIN);
}

int put_toned_row(FILE *out, unsigned int width, char *text, size_t tail_at, enum row_kind kind, enum tone tone)
{
	return put_any_row(out, width, "", text, tail_at, kind, tone);
}
