// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/terminal.h"
#include "base/units.h"

bool log_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
	       !fstat(STDERR_FILENO, &st) && st.st_dev == device && st.st_ino == inode;
}

/* Allocates four times the length: every byte may become \xNN. */
static char *clean_line(const char *fmt, va_list args)
{
	char *text, *clean;
	size_t room;

	if (vasprintf(&text, fmt, args) < 0)
		return NULL;
	room = 4 * strlen(text) + 1;
	clean = malloc(room);
	if (clean)
		clean_text(clean, room, text);
	free(text);
	return clean;
}

__attribute__((format(printf, 2, 0))) static void log_vline(int priority, const char *fmt, va_list args)
{
	char *line = clean_line(fmt, args), first[16] = "allocsnap: ";

	if (log_is_journal())
		snprintf(first, sizeof(first), "<%d>", LOG_PRI(priority));
	status_line_clear();
	fprintf(stderr, "%s%s\n", first, line ?: strerror(ENOMEM));
	free(line);
}

void log_line(int priority, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_vline(priority, fmt, args);
	va_end(args);
}

static void say_line(int priority, const char *fmt, va_list args)
{
	fflush(stdout);
	log_vline(priority, fmt, args);
}

void log_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say_line(LOG_INFO, fmt, args);
	va_end(args);
}

int log_failure(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say_line(LOG_ERR, fmt, args);
	va_end(args);
	return EXIT_FAILED;
}

/* Returns how many bytes of clean UTF-8 fit into so many columns. */
static int fitting_bytes(const char *text, int columns)
{
	int at = 0;

	for (; text[at] && columns > 0; columns--)
		at += utf8_len(text + at) ?: 1;
	return at;
}

void log_cut(const char *fmt, ...)
{
	int columns = terminal_width(STDERR_FILENO) - (int)strlen("allocsnap: ") - 1;
	va_list args;
	char *line;

	va_start(args, fmt);
	line = clean_line(fmt, args);
	va_end(args);
	if (line && columns > 20 && line[fitting_bytes(line, columns)])
		log_info("%.*s…", fitting_bytes(line, columns - 1), line);
	else
		log_info("%s", line ?: strerror(ENOMEM));
	free(line);
}
