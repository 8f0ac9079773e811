// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A reader that crashes, hangs, lies or is killed: what that costs. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "sandbox_fixture.h"

static struct sandbox *sandbox;
static struct symbols *symbols;

static void begin(read_fn read, uint64_t cpu_ns)
{
	sandbox = parser_with(read, cpu_ns);
	symbols = symbols__new(sandbox__source(sandbox));
	cr_assert(symbols);
}

static void end(void)
{
	symbols__free(symbols);
	sandbox__close(sandbox);
}

TestSuite(sandbox_crash, .fini = end, .timeout = 600);

static uint32_t object(const char *path)
{
	return open_object(symbols, "/proc/self/exe", path);
}

static void expect_given_up(uint32_t object, const char *reason)
{
	const char *why = symbols__unreadable(symbols, object), *path;

	cr_assert_not_null(why, "not given up, and not because %s", reason);
	cr_expect(strstr(why, reason), "%s, not %s", why, reason);
	cr_expect(symbols__next_unreadable(symbols, &path, &why));
	cr_expect(!symbols__next_unreadable(symbols, &path, &why), "it is said once");
}

static const char *name_at(uint32_t object, uint64_t offset)
{
	return function_at(symbols, object, offset);
}

/* ---- crashes ---- */

static volatile int *volatile nowhere = (int *)64;

/* Every second object is its end. */
static void crash_at_odd(int fd)
{
	const struct channel channel = { .fd = fd };
	struct message head;
	int file;

	for (;;) {
		struct names_question question = parser_question(&channel, &head, &file);

		if (question.object % 2) {
			signal(SIGSEGV, SIG_DFL); /* not a sanitizer's */
			*nowhere = 0;
		}
		parser_answer_name(&channel, question.offset_nr, "fine");
	}
}

Test(sandbox_crash, loses_only_the_object_that_was_being_read)
{
	uint32_t first, second, third;

	begin(crash_at_odd, 0);
	first = object("/first");
	second = object("/second");
	third = object("/third");
	cr_expect_str_eq(name_at(first, 1), "fine");
	cr_expect_null(name_at(second, 1));
	cr_expect_null(name_at(second, 2));
	expect_given_up(second, "signal 11");
	cr_expect_str_eq(name_at(third, 1), "fine");
	cr_expect_str_eq(name_at(first, 2), "fine");
	cr_expect_null(symbols__unreadable(symbols, first));
	cr_expect_null(symbols__unreadable(symbols, third));
}

Test(sandbox_crash, of_an_idle_reader_loses_nothing)
{
	static const int how[] = { SIGKILL, SIGSEGV, SIGABRT };
	uint64_t in_main;
	uint32_t program;

	workshop_open();
	workshop_write_programs();
	workshop_run("gcc -g -O1 program.c -o program");
	begin(NULL, 0);
	in_main = offset_in(workshop_path("program"), workshop_path("program"), "main");
	program = open_object(symbols, workshop_path("program"), "/program");
	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		const char *name = name_at(program, in_main + i);
		pid_t reader = parser_reader();

		cr_assert(name && !strcmp(name, "main"), "after %zu: %s", i, name);
		cr_assert(!kill(reader, how[i]));
		wait_until_dead(reader);
	}
	cr_expect_str_eq(name_at(program, in_main + 3), "main");
	cr_expect_null(symbols__unreadable(symbols, program));
	workshop_close();
}

/* A service manager ends all of a service with SIGTERM, a terminal with SIGINT: we have work left. */
Test(sandbox_crash, is_not_caused_by_signals_to_the_recording)
{
	static const int how[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
	pid_t reader;

	begin(crash_at_odd, 0);
	reader = parser_reader();
	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		cr_assert(!kill(reader, how[i]));
		cr_assert(!kill(parser_fork_server(), how[i]));
	}
	cr_expect_str_eq(name_at(object("/x"), 1), "fine");
	cr_expect_eq(parser_reader(), reader);
}

Test(sandbox_crash, of_the_fork_server_ends_naming)
{
	pid_t fork_server, reader;

	begin(crash_at_odd, 0);
	fork_server = parser_fork_server();
	reader = parser_reader();
	cr_assert(!kill(fork_server, SIGKILL));
	cr_assert_eq(waitid(P_PID, fork_server, &(siginfo_t){}, WNOWAIT | WEXITED), 0);
	while (!kill(reader, 0))
		usleep(1000); /* it ends with its parent */
	cr_expect_null(name_at(object("/x"), 1));
	expect_given_up(0, "is gone");
}

static int oom_score_of(pid_t pid)
{
	char path[64];
	int score = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	file = fopen(path, "r");
	cr_assert(file && fscanf(file, "%d", &score) == 1);
	fclose(file);
	return score;
}

/* Any process of user "nobody" can stop the spawner. The later answers of the spawner are about a dead reader. */
Test(sandbox_crash, does_not_confuse_a_fork_server_that_was_stopped)
{
	pid_t fork_server, reader;

	begin(crash_at_odd, 0);
	fork_server = parser_fork_server();
	reader = parser_reader();
	cr_assert(!kill(fork_server, SIGSTOP) && !kill(reader, SIGKILL));
	wait_until_dead(reader);
	cr_expect_null(name_at(object("/first"), 1));
	expect_given_up(0, "is gone");
	object("/odd"); /* the reader crashes at its number */
	cr_expect_null(name_at(object("/third"), 1));
	cr_assert(!kill(fork_server, SIGCONT));
	while (!kill(reader, 0))
		usleep(1000); /* the spawner serves the old orders in vain */
	object("/odder");
	cr_expect_str_eq(name_at(object("/fifth"), 1), "fine");
	cr_expect_eq(oom_score_of(parser_reader()), 1000, "the one that is used is known");
}

/* ---- too long ---- */

static void spin(int fd)
{
	for (;;)
		__asm__ volatile("" : : "r"(fd));
}

static void sleep_for_ever(int fd)
{
	char byte;

	while (fd >= 0)
		if (read(CHANNEL_PIECES_MAX + 100, &byte, 1) < 0 && errno != EBADF)
			break; /* no other call that the reader may make takes time */
}

Test(sandbox_crash, handling_ends_a_reader_that_computes_forever)
{
	begin(spin, 200000000);
	cr_expect_null(name_at(object("/x"), 1));
	expect_given_up(0, "too long");
}

static bool give_up(void)
{
	return true;
}

/* Each question alone would have 30 s. */
Test(sandbox_crash, handling_limits_all_questions_together)
{
	begin(spin, 0);
	sandbox__limit(sandbox, 200000000, NULL);
	for (uint32_t i = 0; i < 5; i++)
		cr_expect_null(name_at(object("/x"), 1));
	sandbox__limit(sandbox, UINT64_MAX, give_up);
	cr_expect_null(name_at(object("/y"), 1));
}

Test(sandbox_crash, handling_ends_a_reader_that_makes_system_calls_forever)
{
	begin(sleep_for_ever, 200000000);
	cr_expect_null(name_at(object("/x"), 1));
	expect_given_up(0, "too long");
}

/* Takes the question without answering, and waits for another one, which never comes. */
static void forget(int fd)
{
	const struct channel channel = { .fd = fd };
	struct message head;
	int file;

	for (;;)
		parser_question(&channel, &head, &file);
}

Test(sandbox_crash, handling_ends_a_reader_that_waits_forever)
{
	begin(forget, 200000000);
	cr_expect_null(name_at(object("/x"), 1));
	expect_given_up(0, "too long");
}

/* A reader that only waits does not get the whole time for computing, which is a minute and more. */
Test(sandbox_crash, handling_ends_a_waiting_reader_before_the_limit_for_computing, .timeout = 600)
{
	begin(forget, 0);
	cr_expect_null(name_at(object("/x"), 1));
	expect_given_up(0, "too long");
}

/* Computes for a tenth of the time that there is, and answers. */
static void dawdle(int fd)
{
	const struct channel channel = { .fd = fd };
	struct message head;
	int file;

	for (;;) {
		struct names_question question = parser_question(&channel, &head, &file);
		clock_t end = clock() + CLOCKS_PER_SEC / 10;

		while (clock() < end)
			;
		parser_answer_name(&channel, question.offset_nr, "fine");
	}
}

/*
 * Each would be in time, but all together would hold the recording for ever. The sandbox waits 6 s for the first answer:
 * also a busy machine does the work of a tenth of a second by then.
 */
Test(sandbox_crash, handling_limits_the_total_time_of_slow_readers)
{
	uint32_t slow, read_nr = 0;
	char path[32];

	begin(dawdle, 1000000000);
	do {
		snprintf(path, sizeof(path), "/slow/%u", read_nr);
		slow = object(path);
	} while (name_at(slow, 1) && ++read_nr < 100);
	cr_expect(read_nr && read_nr < 100, "%u were read", read_nr);
	expect_given_up(slow, "too long");
}
