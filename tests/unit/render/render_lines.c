// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lines on a terminal: broken at spaces, in tones. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/array.h"
#include "render/clean.h"

/* A stream to a terminal of this width, whose other end is *ret_master. */
static FILE *open_screen(unsigned short columns, int *ret_master)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios raw;

	cr_assert(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	cr_assert(slave >= 0 && !ioctl(slave, TIOCSWINSZ, &size) && !tcgetattr(slave, &raw));
	cfmakeraw(&raw);
	cr_assert(!tcsetattr(slave, TCSANOW, &raw));
	*ret_master = master;
	return fdopen(slave, "w");
}

/* The terminal hands its text over in parts. */
static void expect_screen(FILE *screen, int master, const char *want)
{
	struct pollfd ready = { .fd = master, .events = POLLIN };
	char text[1024] = "";
	size_t len = 0;
	ssize_t nr = 1;

	cr_assert(!fflush(screen));
	while (len < strlen(want) && nr > 0 && poll(&ready, 1, 120000) == 1) {
		nr = read(master, text + len, sizeof(text) - 1 - len);
		len += nr > 0 ? nr : 0;
	}
	cr_expect_str_eq(text, want);
}

static void set_colours(const char *none)
{
	unsetenv("CLICOLOR");
	unsetenv("CLICOLOR_FORCE");
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", none, 1);
}

Test(render_lines, are_broken_below_their_last_column)
{
	int master;
	FILE *screen = open_screen(40, &master);

	cr_expect_eq(put_line(screen, "  name        a text of more words than fit"), 0);
	expect_screen(screen, master, "  name        a text of more words than\n              fit\n");
	cr_expect_eq(put_line(screen, "größere Wörter sind nicht breiter, aber sie passen nicht"), 0);
	expect_screen(screen, master, "größere Wörter sind nicht breiter, aber\n    sie passen nicht\n");
	cr_expect_eq(put_line(screen, "%040d", 1), 0);
	expect_screen(screen, master, "0000000000000000000000000000000000000001\n");
	cr_expect_eq(put_line(screen, "%045d x", 1), 0);
	expect_screen(screen, master, "000000000000000000000000000000000000000000001\n    x\n");
}

#define REASON "9 of 9 blocks older than 5.0 s are live, born in each eighth of the time; nothing from here was " \
	       "freed so far: a leak, or more"

/* A text that is wrapped to fit is not wrapped once more by the terminal's width. */
Test(render_lines, of_words_are_broken_once)
{
	static const struct {
		unsigned short columns;
		const char *want;
	} cases[] = {
		{ 80, "        9 of 9 blocks older than 5.0 s are live, born in each eighth of the\n"
		      "        time; nothing from here was freed so far: a leak, or more\n" },
		{ 100, "        9 of 9 blocks older than 5.0 s are live, born in each eighth of the time; nothing from here\n"
		       "        was freed so far: a leak, or more\n" },
		{ 120, "        9 of 9 blocks older than 5.0 s are live, born in each eighth of the time; nothing from here "
		       "was\n        freed so far: a leak, or more\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int master;
		FILE *screen = open_screen(cases[i].columns, &master);

		cr_expect_eq(put_words(screen, 8, 100, REASON), 0);
		expect_screen(screen, master, cases[i].want);
		fclose(screen);
		close(master);
	}
}

static int put_in_tone(FILE *out, enum tone tone, const char *fmt, ...)
{
	va_list args;
	int err;

	va_start(args, fmt);
	err = put_line_of(out, tone, fmt, args);
	va_end(args);
	return err;
}

Test(render_lines, are_whole_elsewhere)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	cr_expect_eq(put_line(out, "%0100d and more words", 1), 0);
	cr_expect_eq(put_in_tone(out, TONE_HEAD, "total"), 0);
	cr_assert(!fclose(out));
	cr_expect_eq(strlen(text), 100 + strlen(" and more words\ntotal\n"));
	cr_expect_null(strchr(text, '\033'));
	free(text);
}

Test(render_lines, have_tones_on_a_terminal)
{
	int master;
	FILE *screen = open_screen(40, &master);

	set_colours("");
	cr_expect_eq(put_in_tone(screen, TONE_HEAD, "total\033[2J"), 0);
	expect_screen(screen, master, "\033[1mtotal\\x1b[2J\033[0m\n");
	cr_expect_eq(put_toned_row(screen, 40, strdup("a.c:1: +5 B"), 6, ROW_PATH, TONE_GROWTH), 0);
	expect_screen(screen, master, "a.c:1:\033[33m +5 B\033[0m\n");
	set_colours("1");
	cr_expect_eq(put_in_tone(screen, TONE_HEAD, "total"), 0);
	expect_screen(screen, master, "total\n");
}
