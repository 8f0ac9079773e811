// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/fit_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "render/clean.h"

#define HEAD_LEAST 24 /* columns of a head that a long tail leaves; in a narrow terminal half of it */
#define PLACE_LEAST 30 /* columns that a place gets behind others */
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

void emit_row_of(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place)
{
	char *row = NULL;

	if (place && asprintf(&row, "%s%s", columns, place) < 0)
		row = NULL;
	free(place);
	if (emits_text(out))
		emit_err(out, put_toned_row(out->file, width, row, row ? strlen(row) : 0, ROW_FUNCTION, tone));
	else
		free(row);
}

void emit_place(struct emitter *out, unsigned int width, enum tone tone, const char *columns, char *place)
{
	if (!width || text_columns(columns) + PLACE_LEAST <= width) {
		emit_row_of(out, width, tone, columns, place);
		return;
	}
	emit_toned_line(out, tone, "%.*s", (int)(strlen(columns) - strlen("  ")), columns);
	emit_row_of(out, width, tone, "    ", place);
}
