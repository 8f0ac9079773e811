/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_HELP_TEXT_H
#define ALLOCSNAP_CLI_HELP_TEXT_H

/*
 * Pieces that help texts and man pages share. The detail of a command has one paragraph a line,
 * however long; a line that begins with a space is an example, which stays as it is.
 */

#include "cli/cmd.h"

#define HELP_COLUMNS 80
#define OPTION_FORMS_MAX 64
#define OPTION_HELP_MAX 512
#define DETAIL_LINE_MAX 2048

/* How many columns UTF-8 text takes: its code points. */
int text_width(const char *text);

/*
 * Prints words to stdout, in lines of at most HELP_COLUMNS columns, and a newline. The text begins at
 * `column`; later lines begin with `indent` spaces.
 */
void print_wrapped(const char *text, int column, int indent);

/* "-o, --output DIR"; without a letter there are four spaces in front. Returns text. */
const char *option_forms(char text[OPTION_FORMS_MAX], const struct option_row *row);

/* The option's help, then the command's default: "write snapshots below DIR (default here)". Returns text. */
const char *option_help(char text[OPTION_HELP_MAX], const struct command *command,
			const struct option_group *group, const struct option_row *row);

/* Writes choice number `at`; false: there are no more. Call it with 0, 1, 2… */
bool option_choice_at(const struct option_row *row, size_t at, struct option_choice *ret);

/* "NAME, NAME, NAME" of an option with choices. Returns text. */
const char *choice_names(char text[OPTION_HELP_MAX], const struct option_row *row);

/* Copies the next line of a detail, and moves on. Returns false at the end. */
bool next_detail_line(const char **detail, char line[DETAIL_LINE_MAX]);

/* Whether its help lists some options, and --help=all the others (struct option_row). */
bool has_ranks(const struct command *command);

/* The rows that the parser itself knows: --help, and --no-pager of commands that page. */
const struct option_row *other_rows(const struct command *command);

#endif
