// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_help.h"

#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"

#define LEFT_MAX 64 /* room for "-o, --output DIR" */
#define LINE_WIDTH 90 /* of a list of choices */

/* Columns that UTF-8 text takes: its code points. */
static int text_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static void print_row(const char *left, int width, const char *help)
{
	printf("  %s%*s  %s\n", left, width - text_width(left), "", help);
}

static int most(int a, int b)
{
	return a > b ? a : b;
}

/* ---- options ------------------------------------------------------------------------------ */

static const char *option_left(char left[LEFT_MAX], const struct option_row *row)
{
	char letter[] = "    ";

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	snprintf(left, LEFT_MAX, "%s--%s%s%s", letter, row->name, row->arg ? " " : "",
		 row->arg ?: "");
	return left;
}

static const struct option_row help_row[] = {
	{ .name = "help", .letter = 'h', .help = "this text" },
	{},
};

static int rows_width(const struct option_row *row)
{
	char left[LEFT_MAX];
	int width = 0;

	for (; row && row->name; row++)
		width = most(width, text_width(option_left(left, row)));
	return width;
}

static int choices_width(const struct option_row *row)
{
	struct option_choice choice;
	int width = 0;

	for (size_t at = 0; row->choice(at, &choice); at++)
		width = most(width, text_width(choice.name));
	return width;
}

/* "NAME  HELP", a line each. */
static void print_explained(const struct option_row *row, int indent)
{
	int width = choices_width(row);
	struct option_choice choice;

	for (size_t at = 0; row->choice(at, &choice); at++)
		printf("%*s%-*s  %s\n", indent, "", width, choice.name, choice.help);
}

/* "NAME, NAME, NAME", in as many lines as it takes. */
static void print_names(const struct option_row *row, int indent)
{
	struct option_choice choice, next;
	int column = 0;

	for (size_t at = 0; row->choice(at, &choice); at++) {
		bool is_last = !row->choice(at + 1, &next);

		if (column + text_width(choice.name) + 1 > LINE_WIDTH)
			column = printf("\n") - 1;
		column += printf("%*s%s%s", column ? 1 : indent, "", choice.name,
				 is_last ? "\n" : ",");
	}
}

static void print_choices(const struct option_row *row, int indent)
{
	struct option_choice first = {};

	if (!row->choice || !row->choice(0, &first))
		return;
	if (first.help)
		print_explained(row, indent);
	else
		print_names(row, indent);
}

static void print_rows(const struct option_row *row, int width)
{
	char left[LEFT_MAX];

	for (; row && row->name; row++) {
		print_row(option_left(left, row), width, row->help);
		print_choices(row, 2 + width + 2 + 2);
	}
}

static void print_options(const struct command *command)
{
	int width = rows_width(help_row);

	for (size_t i = 0; i < COMMAND_GROUP_MAX; i++)
		width = most(width, rows_width(command->option[i].row));
	for (size_t i = 0; i < COMMAND_GROUP_MAX; i++)
		print_rows(command->option[i].row, width);
	print_rows(help_row, width);
}

/* ---- texts -------------------------------------------------------------------------------- */

int print_command_help(const struct command *command)
{
	const char *space = *command->args ? " " : "";

	if (command->stop_at_first_arg)
		printf("usage: allocsnap %s [OPTION]... %s", command->name, command->args);
	else
		printf("usage: allocsnap %s%s%s [OPTION]...", command->name, space, command->args);
	printf("\n\n%s\n\n", command->help);
	print_options(command);
	if (command->detail)
		printf("\n%s\n", command->detail);
	return EXIT_DONE;
}

static const char *command_left(char left[LEFT_MAX], const struct command *command)
{
	snprintf(left, LEFT_MAX, "%s%s%s", command->name, *command->args ? " " : "", command->args);
	return left;
}

static void print_commands(const struct command *const *commands)
{
	char left[LEFT_MAX];
	int width = 0;

	for (size_t i = 0; commands[i]; i++)
		width = most(width, text_width(command_left(left, commands[i])));
	for (size_t i = 0; commands[i]; i++)
		print_row(command_left(left, commands[i]), width, commands[i]->help);
}

int print_subcommands_help(const struct command *command)
{
	printf("usage: allocsnap %s %s\n\n%s\n\n", command->name, command->args, command->help);
	print_commands(command->subcommand);
	if (command->detail)
		printf("\n%s\n", command->detail);
	printf("\n'allocsnap %s COMMAND --help' lists the options of a command.\n", command->name);
	return EXIT_DONE;
}

int print_program_help(const struct command *const *commands)
{
	puts("usage: allocsnap COMMAND ...\n\n"
	     "Who allocated the memory of a native process: Python's tracemalloc for any running\n"
	     "program.\n");
	print_commands(commands);
	puts("\n'allocsnap COMMAND --help' lists the options of a command.\n"
	     "'allocsnap --version' tells the version.");
	return EXIT_DONE;
}

int print_version(void)
{
	puts("allocsnap " ALLOCSNAP_VERSION);
	return EXIT_DONE;
}
