// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "base/terminal.h"

static FILE *file;
static char text[4096];

/* Standard error is a file; JOURNAL_STREAM names it, or one that has its inode elsewhere. */
static void begin(unsigned long long other_device)
{
	char stream[64];
	struct stat st;

	file = tmpfile();
	cr_assert(file);
	cr_assert_eq(fstat(fileno(file), &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev + other_device,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	fflush(stderr);
	cr_assert_eq(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
}

static const char *report_write_error(void)
{
	ssize_t got = pread(fileno(file), text, sizeof(text) - 1, 0);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

Test(service_log, writes_the_priority_for_the_journal)
{
	begin(0);
	cr_expect(log_is_journal());
	log_line(LOG_ERR, "the disk is full: %d lost", 7);
	log_line(LOG_WARNING, "b");
	log_line(LOG_INFO, "c");
	cr_expect_str_eq(report_write_error(), "<3>the disk is full: 7 lost\n<4>b\n<6>c\n");
}

/* The prefix has the priority only, not the facility. */
Test(service_log, writes_no_facility)
{
	begin(0);
	log_line(LOG_DAEMON | LOG_NOTICE, "a");
	cr_expect_str_eq(report_write_error(), "<5>a\n");
}

Test(service_log, writes_the_program_name_outside_the_journal)
{
	begin(1);
	cr_expect_not(log_is_journal());
	log_line(LOG_ERR, "the disk is full: %d lost", 7);
	cr_expect_str_eq(report_write_error(), "allocsnap: the disk is full: 7 lost\n");
}

Test(service_log, does_not_mistake_other_values_for_the_journal)
{
	static const char *const wrong[] = { "", "x", "1", "1:", ":2", "18446744073709551615:x" };

	begin(0);
	for (size_t i = 0; i < 6; i++) {
		setenv("JOURNAL_STREAM", wrong[i], 1);
		cr_expect_not(log_is_journal(), "'%s'", wrong[i]);
	}
	unsetenv("JOURNAL_STREAM");
	cr_expect_not(log_is_journal());
}

/* A process's name could else begin a line of its own, with a priority of its own. */
Test(service_log, writes_one_line_for_each_message)
{
	begin(0);
	log_line(LOG_INFO, "%s", "a\n<0>b\033[1m\xff");
	cr_expect_str_eq(report_write_error(), "<6>a\\x0a<0>b\\x1b[1m\\xff\n");
}

/* Lines that are cut to the width of the terminal. */

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
