// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int paged_width; /* 0: standard output goes where it went at the start */

void terminal_set_paged(int width)
{
	paged_width = width;
}

static bool is_paged(int fd)
{
	return fd == STDOUT_FILENO && paged_width;
}

int terminal_width(int fd)
{
	struct winsize size;

	if (is_paged(fd))
		return paged_width;
	if (!isatty(fd))
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

bool terminal_has_cursor(int fd)
{
	return isatty(fd) && !is_dumb();
}

/* Whether a variable is set to something other than 0. */
static bool is_switched_on(const char *name)
{
	const char *text = getenv(name);

	return text && *text && strcmp(text, "0");
}

static bool has_colour(int fd)
{
	const char *none = getenv("NO_COLOR"), *wanted = getenv("CLICOLOR");

	if (none && *none)
		return false;
	if (is_switched_on("CLICOLOR_FORCE"))
		return true;
	if (is_dumb() || (wanted && !strcmp(wanted, "0")))
		return false;
	return is_paged(fd) || isatty(fd);
}

/* Yellow and cyan differ for all kinds of colour blindness, and on dark and light grounds. */
static const char *const tones[TONE_NR] = {
	[TONE_HEAD] = "\033[1m",
	[TONE_GROWTH] = "\033[33m",
	[TONE_SHRINK] = "\033[36m",
	[TONE_ALARM] = "\033[1;31m",
};

/* Keeps errno, which may be that of a write. */
static void put_escape(FILE *out, enum tone tone, const char *escape)
{
	int before = errno;
	bool is_wanted = tones[tone] && has_colour(fileno(out));

	errno = before;
	if (is_wanted)
		fputs(escape, out);
}

void tone_begin(FILE *out, enum tone tone)
{
	put_escape(out, tone, tones[tone]);
}

void tone_end(FILE *out, enum tone tone)
{
	put_escape(out, tone, "\033[0m");
}
