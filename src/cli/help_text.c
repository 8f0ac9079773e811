// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/help_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"

#define DEFAULT_MAX 128

bool has_ranks(const struct command *command)
{
	for_each_row(command, group, row)
		if (row->rank)
			return true;
	return false;
}

const struct option_row *other_rows(const struct command *command)
{
	static const struct option_row rows[] = {
		{ .name = "no-pager", .help = "write to the terminal at once, also if it is long" },
		{ .name = "help", .letter = 'h', .help = "print this help" },
		{},
	}, ranked_rows[] = {
		{ .name = "no-pager", .help = "write to the terminal at once, also if it is long" },
		{ .name = "help", .letter = 'h', .arg = "all", .without_value = "",
		  .help = "print the help; with =all, all options" },
		{},
	};

	return (has_ranks(command) ? ranked_rows : rows) + !command->pages;
}

/* ---- lines -------------------------------------------------------------------------------- */

int text_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

void print_wrapped(const char *text, int column, int indent)
{
	bool is_first = true; /* word of its line */

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		char word[OPTION_HELP_MAX];
		int len = strcspn(text, " ");

		snprintf(word, sizeof(word), "%.*s", len, text);
		if (!is_first && column + 1 + text_width(word) > HELP_COLUMNS) {
			printf("\n%*s", indent, "");
			column = indent;
			is_first = true;
		}
		printf("%s%s", is_first ? "" : " ", word);
		column += text_width(word) + !is_first;
		is_first = false;
		text += len;
	}
	putchar('\n');
}

/* ---- options ------------------------------------------------------------------------------ */

const char *option_forms(char text[OPTION_FORMS_MAX], const struct option_row *row)
{
	char letter[] = "    ";

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	snprintf(text, OPTION_FORMS_MAX, "%s--%s%s%s%s", letter, row->name,
		 row->without_value ? "[=" : row->arg ? " " : "", row->arg ?: "", row->without_value ? "]" : "");
	return text;
}

/* Leaves text empty if the field's value is no default that help could name. */
static void format_field(char text[DEFAULT_MAX], const struct option_row *row, const void *field)
{
	*text = '\0';
	if (row->kind == OPTION_STRING && *(const char *const *)field)
		snprintf(text, DEFAULT_MAX, "default %s", *(const char *const *)field);
	if (row->kind == OPTION_COUNT && *(const uint64_t *)field)
		snprintf(text, DEFAULT_MAX, "default %" PRIu64, *(const uint64_t *)field);
	if (row->kind == OPTION_DURATION && *(const uint64_t *)field)
		snprintf(text, DEFAULT_MAX, "default %gs", *(const uint64_t *)field / 1e9);
}

static void format_default(char text[DEFAULT_MAX], const struct command *command,
			   const struct option_group *group, const struct option_row *row)
{
	const char *defaults = command->defaults;
	const void *field = defaults ? defaults + group->base + row->offset : NULL;

	*text = '\0';
	if (row->default_text)
		snprintf(text, DEFAULT_MAX, "default %s", row->default_text);
	else if (field && row->is_default)
		strcpy(text, row->is_default(field) ? "default" : "");
	else if (field)
		format_field(text, row, field);
}

const char *option_help(char text[OPTION_HELP_MAX], const struct command *command,
			const struct option_group *group, const struct option_row *row)
{
	struct option_choice choice;
	char value[DEFAULT_MAX];

	format_default(value, command, group, row);
	snprintf(text, OPTION_HELP_MAX, "%s%s%s%s%s", row->help, *value ? " (" : "", value,
		 *value ? ")" : "", option_choice_at(row, 0, &choice) ? ":" : "");
	return text;
}

bool option_choice_at(const struct option_row *row, size_t at, struct option_choice *ret)
{
	if (!row->choices)
		return row->choice && row->choice(at, ret);
	*ret = row->choices[at];
	return ret->name;
}

const char *choice_names(char text[OPTION_HELP_MAX], const struct option_row *row)
{
	struct option_choice choice;
	size_t len = 0;

	for (size_t at = 0; option_choice_at(row, at, &choice) && len < OPTION_HELP_MAX; at++)
		len += snprintf(text + len, OPTION_HELP_MAX - len, "%s%s", at ? ", " : "", choice.name);
	return text;
}

bool next_detail_line(const char **detail, char line[DETAIL_LINE_MAX])
{
	size_t len = strcspn(*detail, "\n");

	if (!**detail)
		return false;
	snprintf(line, DETAIL_LINE_MAX, "%.*s", (int)len, *detail);
	*detail += len + !!(*detail)[len];
	return true;
}
