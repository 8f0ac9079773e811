/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_HELP_H
#define ALLOCSNAP_CLI_CMD_HELP_H

/* Help texts, man pages and completion are made from the rows of cmd.h. */

#include "cli/cmd.h"

/*
 * Pieces that they share. The detail of a command has one paragraph a line, however long; a line that begins with a
 * space is an example, which stays as it is.
 */

#define HELP_COLUMNS 80
#define OPTION_FORMS_MAX 64
#define OPTION_HELP_MAX 512
#define DETAIL_LINE_MAX 2048

/* How many columns UTF-8 text takes: its code points. */
int text_width(const char *text);

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

/* The rows that the parser itself knows: --help, and --no-pager of commands that page. */
const struct option_row *other_rows(const struct command *command);

/* ---- help: prints to stdout, and returns EXIT_DONE ---- */

/* The texts of the program: of all of it, or of the one that only reads snapshots (cli/reading.c). */
extern const struct program_texts {
	const char *summary, *examples; /* examples has a line for each */
} program_texts;

/* In parentheses behind the version: what it was built with. */
const char *program_features(void);

int print_program_help(const struct command *const *commands);

/* All options, or the first of those with ranks, if the command has such (struct option_row). */
int print_command_help(const struct command *command, bool all);

int print_subcommands_help(const struct command *command);
int print_version(void);

/* ---- man pages and completion ---- */

/*
 * Writes man pages, made from the rows of cmd.h, to the folder dir, which exists: allocsnap.1,
 * allocsnap-NAME.1 for each command and allocsnap-NAME-SUBNAME.1 for each subcommand. Returns EXIT_DONE
 * or EXIT_FAILED.
 */
int write_man_pages(const char *dir, const struct command *const *commands);

/*
 * Writes what a shell completes, made from the rows of cmd.h, to stdout. The shell is "bash" or "zsh". `make completion`
 * puts it behind the functions of scripts/completion/, which offer it. What kind of value an option or a command takes
 * follows from the name that help texts give it: FILE, DIR, PID, SNAP and so on. Returns EXIT_DONE or EXIT_REFUSED.
 */
int write_completion(const char *shell, const struct command *const *commands);

#endif
