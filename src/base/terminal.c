// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

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

#define SHOW_EVERY_NS (SECOND_NS / 10)
#define CLEAR "\r\033[K"

static volatile sig_atomic_t is_shown;
static uint64_t shown_ns; /* 0: never */

bool status_line_is_due(void)
{
	if (shown_ns && monotonic_now_ns() - shown_ns < SHOW_EVERY_NS && is_shown)
		return false;
	return terminal_has_cursor(STDERR_FILENO);
}

/* The last column stays free: a terminal may wrap a full line, and a wrapped line cannot be cleared. */
int status_line_columns(void)
{
	int width = terminal_width(STDERR_FILENO);

	return width ? width - 1 : 0;
}

/* The signal's default action follows, which ends the program. */
static void clear_before_end(int signal_nr)
{
	if (is_shown && write(STDERR_FILENO, CLEAR, strlen(CLEAR)) < 0)
		is_shown = false;
	raise(signal_nr);
}

/* Signals that the program handles, blocks or ignores are its own business. */
static void clear_at_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const struct sigaction clear = { .sa_handler = clear_before_end, .sa_flags = SA_RESETHAND };
	struct sigaction now;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (!sigaction(ends[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
			sigaction(ends[i], &clear, NULL);
}

void status_line_show(const char *text)
{
	if (!shown_ns)
		clear_at_signals();
	status_line_clear();
	is_shown = true; /* a signal may come before the text is complete */
	fputs(text, stderr);
	shown_ns = monotonic_now_ns();
}

void status_line_clear(void)
{
	if (is_shown)
		fputs(CLEAR, stderr);
	is_shown = false;
}
