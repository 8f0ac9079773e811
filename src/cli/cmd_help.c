// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_help.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/pager.h"

#define LEFT_COLUMNS 25 /* a longer left side gets a line of its own */
#define RANKED_MOST 13	 /* options of a help that fits a screen */
#define DEFAULT_MAX 128

/* ---- what help, man pages and completion share -------------------------------------------- */

/* Whether its help lists some options, and --help=all the others (struct option_row). */
static bool has_ranks(const struct command *command)
{
	for_each_row(command, group, row)
		if (row->rank)
			return true;
	return false;
}

const struct option_row *other_rows(const struct command *command)
{
	static const struct option_row rows[] = {
		{ .name = "no-pager", .help = "write long output to the terminal without a pager" },
		{ .name = "help", .letter = 'h', .help = "print this help" },
		{},
	}, ranked_rows[] = {
		{ .name = "no-pager", .help = "write long output to the terminal without a pager" },
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

/*
 * Prints words to stdout, in lines of at most HELP_COLUMNS columns, and a newline. The text begins at
 * `column`; later lines begin with `indent` spaces.
 */
static void print_wrapped(const char *text, int column, int indent)
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

/* ---- rows --------------------------------------------------------------------------------- */

/* "  LEFT  HELP", wrapped. */
static void print_row(const char *left, int width, const char *help)
{
	int column = 2 + text_width(left);

	printf("  %s", left);
	if (column > 2 + width) {
		putchar('\n');
		column = 0;
	}
	printf("%*s", 2 + width + 2 - column, "");
	print_wrapped(help, 2 + width + 2, 2 + width + 2);
}

/* The width of a left side, or LEFT_COLUMNS if that is less. */
static int widen_left(int width, const char *left)
{
	int needed = text_width(left);

	if (needed > LEFT_COLUMNS)
		needed = LEFT_COLUMNS;
	return needed > width ? needed : width;
}

/* ---- choices ------------------------------------------------------------------------------ */

static int choices_width(const struct option_row *row)
{
	struct option_choice choice;
	int width = 0;

	for (size_t at = 0; option_choice_at(row, at, &choice); at++)
		if (text_width(choice.name) > width)
			width = text_width(choice.name);
	return width;
}

/* "NAME  HELP", one choice a line. */
static void print_explained_choices(const struct option_row *row, int indent)
{
	int width = choices_width(row), column = indent + width + 2;
	struct option_choice choice;

	for (size_t at = 0; option_choice_at(row, at, &choice); at++) {
		printf("%*s%-*s  ", indent, "", width, choice.name);
		print_wrapped(choice.help, column, column);
	}
}

/* "NAME, NAME, NAME", in as many lines as needed. */
static void print_choice_names(const struct option_row *row, int indent)
{
	char names[OPTION_HELP_MAX];

	printf("%*s", indent, "");
	print_wrapped(choice_names(names, row), indent, indent);
}

static void print_choices(const struct option_row *row, int indent)
{
	struct option_choice first = {};

	if (!option_choice_at(row, 0, &first))
		return;
	if (first.help)
		print_explained_choices(row, indent);
	else
		print_choice_names(row, indent);
}

/* ---- options ------------------------------------------------------------------------------ */

static int options_width(const struct command *command)
{
	char left[OPTION_FORMS_MAX];
	int width = 0;

	for_each_row(command, group, row)
		width = widen_left(width, option_forms(left, row));
	for (const struct option_row *row = other_rows(command); row->name; row++)
		width = widen_left(width, option_forms(left, row));
	return width;
}

static void print_option_group(const struct command *command, const struct option_group *group, int width)
{
	char left[OPTION_FORMS_MAX], help[OPTION_HELP_MAX];

	for (const struct option_row *row = group->row; row && row->name; row++) {
		print_row(option_forms(left, row), width, option_help(help, command, group, row));
		print_choices(row, 2 + width + 2 + 2);
	}
}

static void print_options(const struct command *command)
{
	const struct option_group other_group = { other_rows(command), 0, "Other options" };
	int width = options_width(command);
	const char *title = NULL;

	for (size_t i = 0; i < COMMAND_GROUP_MAX; i++) {
		const struct option_group *group = &command->option[i];

		if (group->title && (!title || strcmp(title, group->title)))
			printf("%s%s:\n", i ? "\n" : "", group->title);
		title = group->title ?: title;
		print_option_group(command, group, width);
	}
	if (title)
		printf("\n%s:\n", other_group.title);
	print_option_group(command, &other_group, width);
}

/* ---- the first of the options ---- */

struct ranked {
	const struct option_group *group;
	const struct option_row *row;
};

/* Inserts a row in the order of ranks; the last one goes if there are too many. */
static void add_ranked(struct ranked *ranked, size_t *nr, const struct option_group *group,
		       const struct option_row *row)
{
	size_t at = *nr;

	while (at && ranked[at - 1].row->rank > row->rank)
		at--;
	if (at == RANKED_MOST)
		return;
	*nr += *nr < RANKED_MOST;
	memmove(ranked + at + 1, ranked + at, (*nr - at - 1) * sizeof(*ranked));
	ranked[at] = (struct ranked){ group, row };
}

/* Returns how many options there are in all. */
static size_t choose_ranked(const struct command *command, struct ranked ranked[RANKED_MOST], size_t *ret_nr)
{
	size_t all_nr = 0;

	*ret_nr = 0;
	for_each_row(command, group, row) {
		all_nr++;
		if (row->rank)
			add_ranked(ranked, ret_nr, group, row);
	}
	return all_nr;
}

static void print_ranked_options(const struct command *command)
{
	struct ranked ranked[RANKED_MOST];
	char left[OPTION_FORMS_MAX], help[OPTION_HELP_MAX];
	const struct option_group other_group = { other_rows(command), 0, NULL };
	size_t nr, all_nr = choose_ranked(command, ranked, &nr);
	int width = 0;

	for (size_t i = 0; i < nr; i++)
		width = widen_left(width, option_forms(left, ranked[i].row));
	for (size_t i = 0; i < nr; i++) {
		struct option_row row = *ranked[i].row;

		row.help = row.brief ?: row.help;
		row.choices = NULL;
		row.choice = NULL;
		print_row(option_forms(left, &row), width, option_help(help, command, ranked[i].group, &row));
	}
	print_option_group(command, &other_group, width);
	printf("\n%zu more options: allocsnap %s --help=all, man allocsnap-%s\n", all_nr - nr, command->name,
	       command->name);
}

/* ---- texts -------------------------------------------------------------------------------- */

/* The lines of a detail; cmd_help.h has its form. */
static void print_detail(const char *detail)
{
	char line[DETAIL_LINE_MAX];

	while (next_detail_line(&detail, line)) {
		if (*line == ' ')
			puts(line);
		else
			print_wrapped(line, 0, 0);
	}
}

static void print_texts_below(const struct command *command, const char *detail)
{
	if (detail) {
		putchar('\n');
		print_detail(detail);
	}
	if (command->subcommand)
		printf("\n'allocsnap %s COMMAND --help' lists the options of a command.\n", command->name);
	if (command->example)
		printf("\nExample:\n  %s\n", command->example);
}

int print_command_help(const struct command *command, bool all)
{
	const char *space = *command->args ? " " : "";
	bool is_short = !all && has_ranks(command);

	pager_begin();
	if (command->stop_at_first_arg)
		printf("usage: allocsnap %s [OPTION]... %s", command->name, command->args);
	else
		printf("usage: allocsnap %s%s%s [OPTION]...", command->name, space, command->args);
	printf("\n\n");
	print_wrapped(command->help, 0, 0);
	putchar('\n');
	(is_short ? print_ranked_options : print_options)(command);
	print_texts_below(command, is_short ? command->brief : command->detail);
	return EXIT_DONE;
}

static const char *command_left(char left[OPTION_FORMS_MAX], const struct command *command)
{
	snprintf(left, OPTION_FORMS_MAX, "%s%s%s", command->name, *command->args ? " " : "", command->args);
	return left;
}

static void print_commands(const struct command *const *commands)
{
	char left[OPTION_FORMS_MAX];
	int width = 0;

	for (size_t i = 0; commands[i]; i++)
		width = widen_left(width, command_left(left, commands[i]));
	for (size_t i = 0; commands[i]; i++)
		print_row(command_left(left, commands[i]), width, commands[i]->help);
}

int print_subcommands_help(const struct command *command)
{
	pager_begin();
	printf("usage: allocsnap %s %s\n\n", command->name, command->args);
	print_wrapped(command->help, 0, 0);
	putchar('\n');
	print_commands(command->subcommand);
	print_texts_below(command, command->detail);
	return EXIT_DONE;
}

int print_program_help(const struct command *const *commands)
{
	pager_begin();
	puts("usage: allocsnap COMMAND ...\n");
	print_wrapped(program_texts.summary, 0, 0);
	putchar('\n');
	print_commands(commands);
	puts("\n'allocsnap COMMAND --help' or 'allocsnap help COMMAND' lists the options of a\n"
	     "command. 'allocsnap --version' prints the version.\n"
	     "\n"
	     "Examples:");
	print_detail(program_texts.examples);
	return EXIT_DONE;
}

int print_version(void)
{
	printf("allocsnap " ALLOCSNAP_VERSION " (commit " ALLOCSNAP_COMMIT ", %s)\n", program_features());
	return EXIT_DONE;
}
