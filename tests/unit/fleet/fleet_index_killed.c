// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Killed in the middle of indexing, and run again. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "fleet_files.h"

TestSuite(fleet_index_killed, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_frame frames[] = {
	{ "a.c", 1, "a", "/bin/app", "aa", 0x10 },
	{ "main.c", 3, "main", "/bin/app", "aa", 0x30 },
};

#define AT_A .frame = &frames[0], .nframe = 2, .total_nframe = 2

#define MANY 1200 /* more than two commits have */

static void kill_at(void *what, uint64_t file_nr, uint64_t file_all)
{
	const uint64_t *at = what;

	if (file_all != MANY)
		_exit(2); /* criterion cannot report a failure from here */
	if (file_nr >= *at)
		raise(SIGKILL);
}

static void index_and_be_killed(uint64_t at)
{
	static const char *const dir[] = { "d" };
	const struct index_events events = { .progress = kill_at, .what = &at };
	struct catalogue *catalogue;
	struct index_sum sum;
	pid_t child = fork();
	int status;

	if (!child) {
		if (!catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, NULL))
			fleet_index(catalogue, dir, 1, &events, &sum, NULL);
		_exit(1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Half of MANY, each of another time. */
static void write_half(const char *source)
{
	for (int i = 0; i < MANY / 2; i++) {
		struct fleet_frame frame = { source, i / 3 + 1, "half" };
		struct fleet_trace traces[] = { { i, .frame = &frame, .nframe = 1 }, { 5, AT_A } };
		char path[32], time[16];

		snprintf(path, sizeof(path), "d/m%d.snap", i);
		snprintf(time, sizeof(time), "%d", i + 1);
		fleet_write(&(struct fleet_file){ path, .wall_ns = time, TRACES(traces) });
	}
}

/* Copies of them by names before and behind. */
static void move_half(void)
{
	char from[32], to[32];

	for (int i = 0; i < MANY / 2; i++) {
		snprintf(from, sizeof(from), "d/m%d.snap", i);
		snprintf(to, sizeof(to), i % 2 ? "d/a%d.snap" : "d/z%d.snap", i);
		cr_assert_eq(rename(from, to), 0);
	}
}

static void write_many(void)
{
	for (int i = 0; i < MANY; i++) {
		struct fleet_frame frame = { "many.c", i / 3 + 1, "many" };
		struct fleet_trace traces[] = {
			{ i, .frame = &frame, .nframe = 1 }, { 5, AT_A, .domain = i % 4 },
		};
		char path[32], time[16];

		snprintf(path, sizeof(path), "d/%d.snap", i);
		snprintf(time, sizeof(time), "%d", i % 1000 + 1);
		fleet_write(&(struct fleet_file){ path, .wall_ns = time, TRACES(traces) });
	}
}

/* Half of the files are renamed, the first ones to names that others had, and new files take their places. */

static void move_many(void)
{
	char from[32], to[32];

	for (int i = 0; i < MANY / 2; i++) {
		snprintf(from, sizeof(from), "d/%d.snap", i * 2);
		snprintf(to, sizeof(to), i < 100 ? "d/%d.snap" : "d/m%d.snap", i < 100 ? i * 2 + 1 : i);
		cr_assert_eq(rename(from, to), 0);
	}
	for (int i = 0; i < 100; i++) {
		struct fleet_trace traces[] = { { i, AT_A } };
		char time[16];

		snprintf(to, sizeof(to), "d/%d.snap", i * 2);
		snprintf(time, sizeof(time), "%d", 5000 + i);
		fleet_write(&(struct fleet_file){ to, .wall_ns = time, TRACES(traces) });
	}
}

static void copy(const char *from, const char *to)
{
	char command[64];

	snprintf(command, sizeof(command), "cp %s %s", from, to);
	cr_assert_eq(system(command), 0);
}

/* Whether indexing from the catalogue as it is makes the same, undisturbed and killed. The new snapshots. */
static uint64_t check_killed(const uint64_t *point, size_t nr)
{
	char *undisturbed, *again;
	uint64_t snapshots;

	copy("catalogue.db", "before.db");
	snapshots = fleet_index_d().snapshots;
	undisturbed = fleet_dump();
	for (size_t i = 0; i < nr; i++) {
		copy("before.db", "catalogue.db");
		index_and_be_killed(point[i]);
		fleet_index_d();
		again = fleet_dump();
		cr_expect_str_eq(again, undisturbed, "killed at %lu", (unsigned long)point[i]);
		free(again);
	}
	free(undisturbed);
	return snapshots;
}

Test(fleet_index_killed, at_any_point_gives_the_same_result_when_run_again)
{
	static const uint64_t points[] = { 0, 64, 576, 640, 1152, MANY };

	write_many();
	fleet_write_text("catalogue.db", ""); /* an empty file is one that is being made */
	cr_expect_eq(check_killed(points, ARRAY_SIZE(points)), 1000);
}

Test(fleet_index_killed, after_files_have_moved_gives_the_same_result_when_run_again)
{
	static const uint64_t points[] = { 0, 64, 576, 640, MANY };

	write_many();
	cr_expect_eq(fleet_index_d().snapshots, 1000);
	move_many();
	check_killed(points, ARRAY_SIZE(points));
}

Test(fleet_index_killed, after_files_were_copied_and_rewritten_gives_the_same_result_when_run_again)
{
	static const uint64_t points[] = { 0, 64, 576, 640, 1152, MANY };
	char *dump;

	write_half("unnamed.c");
	cr_expect_eq(fleet_index_d().snapshots, MANY / 2);
	move_half();
	write_half("named.c");
	cr_expect_eq(check_killed(points, ARRAY_SIZE(points)), MANY / 2, "the originals, and no copy");
	dump = fleet_dump();
	cr_expect(strstr(dump, "filename=named.c"));
	free(dump);
}
