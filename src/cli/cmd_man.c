// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_help.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

#define PAGE_NAME_MAX 64

/* ---- troff -------------------------------------------------------------------------------- */

static uint32_t decode_man_character(const char *text, size_t len)
{
	uint32_t code = (unsigned char)*text & (0x7f >> len);

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (text[i] & 0x3f);
	return code;
}

/* Text of a line of its own: what troff would read as a request or an escape is made harmless. */
static void put_roff(FILE *out, const char *text)
{
	size_t len;

	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text += len ?: 1) {
		len = utf8_len(text);
		if (len > 1)
			fprintf(out, "\\[u%04X]", decode_man_character(text, len));
		else if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\'')
			fputs("\\(aq", out);
		else if (*text == '"')
			fputs("\\(dq", out);
		else
			putc(*text, out);
	}
}

#define SOURCE_COLUMNS 60 /* before escapes; mandoc wants lines of at most 80 bytes */

/* A line that troff must not fill anew: of an example, or the text of a request. */
static void put_roff_line(FILE *out, const char *text)
{
	put_roff(out, text);
	putc('\n', out);
}

/* Text that troff fills: in several lines, broken at spaces. */
static void put_roff_text(FILE *out, const char *text)
{
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		size_t len = strlen(text), last = 0;
		char line[OPTION_HELP_MAX];

		for (size_t at = 0; len > SOURCE_COLUMNS && at <= SOURCE_COLUMNS; at++)
			if (text[at] == ' ')
				last = at;
		if (len > SOURCE_COLUMNS)
			len = last ?: strcspn(text, " ");
		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		put_roff_line(out, line);
		text += len;
	}
}

/* ".REQUEST text" */
static void put_request(FILE *out, const char *request, const char *text)
{
	fprintf(out, ".%s ", request);
	put_roff_line(out, text);
}

/* A paragraph begins. At the beginning of a section it has begun already. */
static void put_paragraph(FILE *out, bool *is_first)
{
	if (!*is_first)
		fputs(".PP\n", out);
	*is_first = false;
}

/* A line of an example, which is not filled. */
static void put_example(FILE *out, const char *text, bool *is_first)
{
	put_paragraph(out, is_first);
	fputs(".nf\n.RS 4\n", out);
	put_roff_line(out, text + strspn(text, " "));
	fputs(".RE\n.fi\n", out);
}

/* The lines of a detail; cmd_help.h has its form. */
static void put_detail(FILE *out, const char *detail)
{
	char line[DETAIL_LINE_MAX];
	bool is_first = true;

	while (next_detail_line(&detail, line)) {
		if (*line == ' ') {
			put_example(out, line, &is_first);
		} else if (*line) {
			put_paragraph(out, &is_first);
			put_roff_text(out, line);
		}
	}
}

/* ---- options ------------------------------------------------------------------------------ */

static void put_choices(FILE *out, const struct option_row *row)
{
	struct option_choice choice = {};
	char names[OPTION_HELP_MAX];

	if (!option_choice_at(row, 0, &choice))
		return;
	if (!choice.help) {
		put_roff_text(out, choice_names(names, row));
		return;
	}
	fputs(".RS\n", out);
	for (size_t at = 0; option_choice_at(row, at, &choice); at++) {
		fputs(".TP\n", out);
		put_request(out, "B", choice.name);
		put_roff_text(out, choice.help);
	}
	fputs(".RE\n", out);
}

static void put_option(FILE *out, const struct command *command, const struct option_group *group,
		       const struct option_row *row)
{
	char forms[OPTION_FORMS_MAX], help[OPTION_HELP_MAX];

	option_forms(forms, row);
	fputs(".TP\n", out);
	put_request(out, "B", forms + strspn(forms, " "));
	put_roff_text(out, option_help(help, command, group, row));
	put_choices(out, row);
}

static void put_options(FILE *out, const struct command *command)
{
	const struct option_group other_group = { other_rows(command), 0, NULL };
	const char *title = NULL;

	fputs(".SH OPTIONS\n", out);
	for (size_t i = 0; i < COMMAND_GROUP_MAX; i++) {
		const struct option_group *group = &command->option[i];

		if (group->title && (!title || strcmp(title, group->title)))
			put_request(out, "SS", group->title);
		title = group->title ?: title;
		for (const struct option_row *row = group->row; row && row->name; row++)
			put_option(out, command, group, row);
	}
	if (title)
		put_request(out, "SS", "Other options");
	for (const struct option_row *row = other_group.row; row->name; row++)
		put_option(out, command, &other_group, row);
}

/* ---- pages -------------------------------------------------------------------------------- */

/* "allocsnap-fleet-diff" for "fleet diff"; "allocsnap" for NULL. */
static const char *page_name(char name[PAGE_NAME_MAX], const struct command *command)
{
	snprintf(name, PAGE_NAME_MAX, "allocsnap%s%s", command ? "-" : "", command ? command->name : "");
	for (char *space = strchr(name, ' '); space; space = strchr(name, ' '))
		*space = '-';
	return name;
}

#define DATE_MAX 16

/* SOURCE_DATE_EPOCH makes builds repeatable (https://reproducible-builds.org); otherwise today. */
static const char *page_date(char text[DATE_MAX])
{
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	time_t date = epoch ? strtoll(epoch, NULL, 10) : time(NULL);
	struct tm tm;

	if (!gmtime_r(&date, &tm) || !strftime(text, DATE_MAX, "%Y-%m-%d", &tm))
		strcpy(text, "1970-01-01");
	return text;
}

static void put_page_head(FILE *out, const struct command *command, const char *help)
{
	char name[PAGE_NAME_MAX], title[PAGE_NAME_MAX], date[DATE_MAX];

	page_name(name, command);
	strcpy(title, name);
	for (char *letter = title; *letter; letter++)
		*letter = toupper((unsigned char)*letter);
	fputs(".\\\" Written by allocsnap --man from the tables of its options.\n.TH ", out);
	put_roff(out, title);
	fprintf(out, " 1 \"%s\" \"allocsnap " ALLOCSNAP_VERSION "\" \"User Commands\"\n.SH NAME\n", page_date(date));
	put_roff(out, name);
	fputs(" \\-\n", out);
	put_roff_text(out, help);
	fputs(".SH SYNOPSIS\n", out);
}

static void put_command_list(FILE *out, const struct command *const *commands)
{
	char name[PAGE_NAME_MAX];

	fputs(".SH COMMANDS\n", out);
	for (; *commands; commands++) {
		fputs(".TP\n", out);
		put_request(out, "B", (*commands)->name);
		put_roff_text(out, (*commands)->help);
		fputs("See\n.BR ", out);
		put_roff(out, page_name(name, *commands));
		fputs(" (1).\n", out);
	}
}

static void put_end(FILE *out, const char *example)
{
	bool is_first = true;

	if (example) {
		fputs(".SH EXAMPLES\n", out);
		put_example(out, example, &is_first);
	}
	fputs(".SH SEE ALSO\n.BR allocsnap (1)\n", out);
}

static void put_command_page(FILE *out, const struct command *command)
{
	put_page_head(out, command, command->help);
	fputs(".B allocsnap ", out);
	put_roff_line(out, command->name);
	if (command->stop_at_first_arg)
		fputs("[OPTION]...\n", out);
	if (*command->args)
		put_roff_line(out, command->args);
	if (!command->stop_at_first_arg && !command->subcommand)
		fputs("[OPTION]...\n", out);
	if (command->detail) {
		fputs(".SH DESCRIPTION\n", out);
		put_detail(out, command->detail);
	}
	if (command->subcommand)
		put_command_list(out, command->subcommand);
	else
		put_options(out, command);
	put_end(out, command->example);
}

static void put_program_page(FILE *out, const struct command *const *commands)
{
	put_page_head(out, NULL, "record and analyse the live memory of processes");
	fputs(".B allocsnap\nCOMMAND ...\n.SH DESCRIPTION\n", out);
	put_roff_text(out, program_texts.summary);
	put_command_list(out, commands);
	fputs(".SH OPTIONS\n"
	      ".TP\n.B \\-h, \\-\\-help\nprint help\n"
	      ".TP\n.B \\-V, \\-\\-version\nprint the version\n"
	      ".SH EXIT STATUS\n"
	      "0 if all went well, 1 if a file or a process could not be handled, 2 if the\n"
	      "command line is not valid. The command run exits as the program that it started.\n", out);
	fputs(".SH EXAMPLES\n", out);
	put_detail(out, program_texts.examples);
	put_end(out, NULL);
}

/* Writes the page of one command; of the program if command is NULL. */
static int write_page(const char *dir, const struct command *command, const struct command *const *commands)
{
	char name[PAGE_NAME_MAX], path[PATH_MAX];
	FILE *out;
	bool failed;

	snprintf(path, sizeof(path), "%s/%s.1", dir, page_name(name, command));
	out = fopen(path, "we");
	if (!out)
		return log_failure("%s: %s", path, strerror(errno));
	if (command)
		put_command_page(out, command);
	else
		put_program_page(out, commands);
	failed = ferror(out);
	failed |= fclose(out) != 0;
	return failed ? log_failure("%s: %s", path, strerror(errno ?: EIO)) : EXIT_DONE;
}

static int write_command_pages(const char *dir, const struct command *const *commands)
{
	int status = EXIT_DONE;

	for (; *commands && !status; commands++) {
		status = write_page(dir, *commands, NULL);
		if (!status && (*commands)->subcommand)
			status = write_command_pages(dir, (*commands)->subcommand);
	}
	return status;
}

int write_man_pages(const char *dir, const struct command *const *commands)
{
	return write_page(dir, NULL, commands) ?: write_command_pages(dir, commands);
}
