// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/status_line.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/terminal.h"

#define SHOW_EVERY_NS (SECOND_NS / 10)

static bool is_shown;
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

void status_line_show(const char *text)
{
	status_line_clear();
	fputs(text, stderr);
	is_shown = true;
	shown_ns = monotonic_now_ns();
}

void status_line_clear(void)
{
	if (is_shown)
		fputs("\r\033[K", stderr);
	is_shown = false;
}
