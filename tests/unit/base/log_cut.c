// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lines that are cut to the width of the terminal. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "base/terminal.h"

/* Makes a terminal of this width our stderr; returns its other end. */
static int open_terminal(unsigned short columns)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	struct termios raw;

	cr_assert(master >= 0 && !grantpt(master) && !unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	cr_assert(slave >= 0 && !ioctl(slave, TIOCSWINSZ, &size) && !tcgetattr(slave, &raw));
	cfmakeraw(&raw);
	cr_assert(!tcsetattr(slave, TCSANOW, &raw) && dup2(slave, STDERR_FILENO) == STDERR_FILENO);
	close(slave);
	return master;
}

static void expect_line(int master, const char *want)
{
	char text[512] = "";
	ssize_t len = read(master, text, sizeof(text) - 1);

	cr_expect(len > 0);
	cr_expect_str_eq(text, want);
}

Test(log_cut, cuts_a_line_to_the_width_of_the_terminal)
{
	int master = open_terminal(40);

	unsetenv("JOURNAL_STREAM");
	cr_expect_eq(terminal_width(STDERR_FILENO), 40);
	log_cut("%s", "as long as 28 columns allow.");
	expect_line(master, "allocsnap: as long as 28 columns allow.\n");
	log_cut("%s", "as long as 28 columns allow..");
	expect_line(master, "allocsnap: as long as 28 columns allow…\n");
	log_cut("%s", "größere Wörter sind nicht breiter\033[2J");
	expect_line(master, "allocsnap: größere Wörter sind nicht b…\n");
}

Test(log_cut, cuts_nothing_without_a_width)
{
	int master = open_terminal(0), pipe_fd[2];

	cr_expect_eq(terminal_width(STDERR_FILENO), 80, "an unknown width");
	close(master);
	cr_assert(!pipe(pipe_fd) && dup2(pipe_fd[1], STDERR_FILENO) == STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	cr_expect_eq(terminal_width(STDERR_FILENO), 0);
	log_cut("%0200d", 7);
	{
		char text[512] = "";

		cr_expect_eq(read(pipe_fd[0], text, sizeof(text)), 11 + 200 + 1);
	}
}
