// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/status_line.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/terminal.h"

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
