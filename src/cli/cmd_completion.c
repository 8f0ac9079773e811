// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_help.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

/* ---- kinds of values ---------------------------------------------------------------------- */

/* The words that help texts use for values. A word that is not here has no completion. */
static const struct {
	const char *word, *kind; /* kind: _allocsnap_offer_KIND of scripts/completion/ offers it */
} kinds[] = {
	{ "FILE", "files" },	 { "OUT", "files" },
	{ "DIR", "folders" },	 { "FOLDER", "folders" },
	{ "SNAP", "snapshots" }, { "OLD", "snapshots" },  { "NEW", "snapshots" },
	{ "IN", "inputs" },
	{ "PID", "pids" },	 { "NAME", "names" },
	{ "USER", "users" },	 { "CMD", "programs" },
};

/* Separates the words of "PID | NAME | FOLDER | SNAP…"; "NAME=VALUE" is one word. */
static size_t word_len(const char *text)
{
	return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ=%");
}

/* NULL: the word is no kind of value. */
static const char *kind_of_word(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i].word) == len && !memcmp(kinds[i].word, word, len))
			return kinds[i].kind;
	return NULL;
}

#define KINDS_MAX 64

static void add_kind(char text[KINDS_MAX], const char *kind)
{
	if (!kind || strstr(text, kind))
		return;
	snprintf(text + strlen(text), KINDS_MAX - strlen(text), "%s%s", *text ? " " : "", kind);
}

/* "pids names" for "PID|NAME…". The value of an option, as in "IN -o OUT", is no argument. */
static const char *argument_kinds(char text[KINDS_MAX], const struct command *command)
{
	bool is_after_option = false;

	*text = '\0';
	for (const char *at = command->args; *at;) {
		size_t len = word_len(at);

		if (len && !is_after_option)
			add_kind(text, kind_of_word(at, len));
		if (len)
			is_after_option = false;
		else if (*at == '-' && at[1] != ' ' && at[1] != '-')
			is_after_option = true;
		at += len ?: 1;
	}
	return text;
}

static bool has_choices(const struct option_row *row)
{
	struct option_choice choice;

	return option_choice_at(row, 0, &choice);
}

/* Several values, separated by commas. */
static bool takes_list(const struct option_row *row)
{
	return row->arg && !strcmp(row->arg, "NAMES");
}

static const char *value_kind(const struct option_row *row)
{
	if (has_choices(row))
		return takes_list(row) ? "list" : "words";
	return kind_of_word(row->arg, strlen(row->arg));
}

/* ---- all rows ----------------------------------------------------------------------------- */

typedef void (*option_fn)(const struct command *command, const struct option_row *row);

static void for_each_option(const struct command *command, option_fn fn)
{
	for_each_row(command, group, row)
		fn(command, row);
	for (const struct option_row *row = other_rows(command); row->name; row++)
		fn(command, row);
}

typedef void (*command_fn)(const struct command *command);

static void for_each_command(const struct command *const *commands, command_fn fn)
{
	for (; *commands; commands++) {
		fn(*commands);
		if ((*commands)->subcommand)
			for_each_command((*commands)->subcommand, fn);
	}
}

static const char *last_word(const char *name)
{
	const char *space = strrchr(name, ' ');

	return space ? space + 1 : name;
}

/* "stats diff … help" */
static void put_command_words(const struct command *const *commands)
{
	for (; *commands; commands++)
		printf("%s ", last_word((*commands)->name));
}

/* ---- bash: four tables -------------------------------------------------------------------- */

static void put_bash_subcommands(const struct command *command)
{
	if (!command->subcommand)
		return;
	printf("\t['%s']='", command->name);
	put_command_words(command->subcommand);
	puts("help'");
}

static void put_bash_option(const struct command *command, const struct option_row *row)
{
	(void)command;
	printf("--%s ", row->name);
	if (row->letter)
		printf("-%c ", row->letter);
}

static void put_bash_options(const struct command *command)
{
	printf("\t['%s']='", command->name);
	if (command->subcommand)
		fputs("--help -h ", stdout);
	else
		for_each_option(command, put_bash_option);
	puts("'");
}

static void put_bash_value(const struct command *command, const char *option, const struct option_row *row)
{
	struct option_choice choice;

	printf("\t['%s %s']='%s", command->name, option, value_kind(row) ?: "nothing");
	for (size_t at = 0; option_choice_at(row, at, &choice); at++)
		printf(" %s", choice.name);
	puts("'");
}

static void put_bash_option_values(const struct command *command, const struct option_row *row)
{
	char option[64];

	if (!row->arg || row->without_value)
		return;
	snprintf(option, sizeof(option), "--%s", row->name);
	put_bash_value(command, option, row);
	if (row->letter)
		put_bash_value(command, (char[]){ '-', row->letter, '\0' }, row);
}

static void put_bash_values(const struct command *command)
{
	if (!command->subcommand)
		for_each_option(command, put_bash_option_values);
}

static void put_bash_arguments(const struct command *command)
{
	char text[KINDS_MAX];

	printf("\t['%s']='%s'\n", command->name, argument_kinds(text, command));
}

static void write_bash_completion(const struct command *const *commands)
{
	puts("declare -gA _allocsnap_commands=(");
	fputs("\t['allocsnap']='", stdout);
	put_command_words(commands);
	puts("help'");
	for_each_command(commands, put_bash_subcommands);
	puts(")\ndeclare -gA _allocsnap_options=(\n\t['allocsnap']='--help -h --version -V --no-pager'");
	for_each_command(commands, put_bash_options);
	puts(")\ndeclare -gA _allocsnap_values=(");
	for_each_command(commands, put_bash_values);
	puts(")\ndeclare -gA _allocsnap_arguments=(");
	for_each_command(commands, put_bash_arguments);
	puts(")");
}

/* ---- zsh: a function for each command ----------------------------------------------------- */

/*
 * Text within single quotes. `special` characters get a backslash; a colon, which separates fields, becomes a comma
 * where a backslash would not reach it.
 */
static void put_zsh_text(const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (*text == ':' && !strchr(special, ':'))
			putchar(',');
		else
			printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
	}
}

#define ZSH_IN_BRACKETS "[]\\:"	       /* [help] */
#define ZSH_IN_LIST " \\\"#$&()*;<>?[]`{|}~" /* ((name\:help …)), which is evaluated; without ' and : */

/* Help texts without the quotes, which would need two kinds of them. */
static void put_zsh_choice_help(const char *help)
{
	char plain[OPTION_HELP_MAX];
	size_t len = 0;

	for (; *help && len + 1 < sizeof(plain); help++)
		if (*help != '\'')
			plain[len++] = *help;
	plain[len] = '\0';
	put_zsh_text(plain, ZSH_IN_LIST);
}

static void put_zsh_choices(const struct option_row *row)
{
	struct option_choice choice;
	bool has_help = option_choice_at(row, 0, &choice) && choice.help;

	fputs(has_help ? "((" : "(", stdout);
	for (size_t at = 0; option_choice_at(row, at, &choice); at++) {
		printf("%s%s", at ? " " : "", choice.name);
		if (!has_help)
			continue;
		fputs("\\:", stdout);
		put_zsh_choice_help(choice.help);
	}
	fputs(has_help ? "))" : ")", stdout);
}

static void put_zsh_choice_names(const struct option_row *row)
{
	struct option_choice choice;

	for (size_t at = 0; option_choice_at(row, at, &choice); at++)
		printf(" %s", choice.name);
}

/* ":KEY:(lineno filename)", ":FILE: _allocsnap_offer_files" */
static void put_zsh_value(const struct option_row *row)
{
	const char *kind = row->arg ? value_kind(row) : NULL;

	if (!row->arg)
		return;
	fputs(row->without_value ? "::" : ":", stdout);
	put_zsh_text(row->arg, ":");
	putchar(':');
	if (!kind)
		putchar(' ');
	else if (!strcmp(kind, "words"))
		put_zsh_choices(row);
	else
		printf(" _allocsnap_offer_%s", kind);
	if (kind && !strcmp(kind, "list"))
		put_zsh_choice_names(row);
}

/* '(-g --group-by)'{-g+,--group-by=}'[help]:KEY:(…)'; an option that may be repeated excludes nothing */
static void put_zsh_option(const struct command *command, const struct option_row *row)
{
	const char *letter_value = row->arg && !row->without_value ? "+" : "";
	const char *name_value = row->without_value ? "=-" : row->arg ? "=" : "";

	(void)command;
	fputs("\t\t", stdout);
	if (row->kind == OPTION_LIST)
		fputs("'*'", stdout);
	else if (row->letter)
		printf("'(-%c --%s)'", row->letter, row->name);
	if (row->letter)
		printf("{-%c%s,--%s%s}'[", row->letter, letter_value, row->name, name_value);
	else
		printf("--%s%s'[", row->name, name_value);
	put_zsh_text(row->help, ZSH_IN_BRACKETS);
	putchar(']');
	put_zsh_value(row);
	puts("' \\");
}

/* "_allocsnap_fleet_diff" for "fleet diff" */
static void put_zsh_function_name(const struct command *command)
{
	fputs("_allocsnap_", stdout);
	for (const char *name = command->name; *name; name++)
		putchar(*name == ' ' || *name == '-' ? '_' : *name);
}

static void put_zsh_command_list(const struct command *const *commands)
{
	for (; *commands; commands++) {
		printf(" \\\n\t\t'%s:", last_word((*commands)->name));
		put_zsh_text((*commands)->help, ":");
		putchar('\'');
	}
	puts(" \\\n\t\t'help:print the help of a command'\n}\n");
}

static void put_zsh_command(const struct command *command)
{
	char text[KINDS_MAX];

	put_zsh_function_name(command);
	puts("() {");
	if (command->subcommand) {
		fputs("\t_allocsnap_choose ", stdout);
		put_zsh_function_name(command);
		put_zsh_command_list(command->subcommand);
		return;
	}
	printf("\t_arguments -s -S%s : \\\n", command->stop_at_first_arg ? " -A '-*'" : "");
	for_each_option(command, put_zsh_option);
	argument_kinds(text, command);
	if (command->stop_at_first_arg)
		puts("\t\t'(-)1:program: _command_names -e' \\\n\t\t'*::argument: _normal'\n}\n");
	else if (*text)
		printf("\t\t'%s:argument: _allocsnap_kinds %s'\n}\n\n", command->arg_max == 1 ? "1" : "*", text);
	else
		puts("\n}\n");
}

static void write_zsh_completion(const struct command *const *commands)
{
	for_each_command(commands, put_zsh_command);
	fputs("_allocsnap() {\n\t_allocsnap_choose _allocsnap", stdout);
	put_zsh_command_list(commands);
	puts("_allocsnap \"$@\"");
}

/* ------------------------------------------------------------------------------------------- */

int write_completion(const char *shell, const struct command *const *commands)
{
	if (!strcmp(shell, "bash"))
		write_bash_completion(commands);
	else if (!strcmp(shell, "zsh"))
		write_zsh_completion(commands);
	else
		return EXIT_REFUSED;
	return EXIT_DONE;
}
