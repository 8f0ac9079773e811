// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "engine/estimate.h"
#include "fleet_files.h"
#include "snapshot.h"

TestSuite(fleet_index, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_frame frames[] = {
	{ "a.c", 1, "a", "/bin/app", "aa", 0x10 },
	{ "b.c", 2, "b", "/bin/app", "aa", 0x20 },
	{ "main.c", 3, "main", "/bin/app", "aa", 0x30 },
};

#define AT_A .frame = &frames[0], .nframe = 3, .total_nframe = 3
#define AT_B .frame = &frames[1], .nframe = 2, .total_nframe = 2

static const struct fleet_trace some[] = {
	{ 10, AT_B }, { 20, AT_A }, { 30, AT_B, .domain = 1 }, { 40, AT_B },
};

/* The rows of the snapshot that is number `at` of the facts: "origin:size/count …". */
static const char *rows_text(size_t at)
{
	static char text[512];
	struct catalogue *catalogue = fleet_open();
	struct rows_reader *reader = NULL;
	struct fleet_rows rows = {};
	struct fleet_facts facts = {};
	struct reason why = { "" };
	size_t len = 0;

	cr_assert_eq(catalogue__facts(catalogue, &facts, &why), 0, "%s", why.text);
	cr_assert_lt(at, facts.snapshot_nr);
	cr_assert_eq(rows_reader__new(catalogue, &reader, &why), 0, "%s", why.text);
	cr_assert_eq(rows_reader__read(reader, facts.snapshot[at].snapshot_id, facts.origin_nr, &rows, &why), 0,
		     "%s", why.text);
	cr_expect_eq(rows.nr, facts.snapshot[at].row_nr);
	text[0] = '\0';
	for (size_t i = 0; i < rows.nr; i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%u:%ld/%ld", i ? " " : "", rows.row[i].origin,
				rows.row[i].cost.size, rows.row[i].cost.count);
	fleet_rows_release(&rows);
	fleet_facts_release(&facts);
	rows_reader__free(reader);
	catalogue__close(catalogue);
	return text;
}

Test(fleet_index, numbers_origins_in_the_order_of_files)
{
	static const struct fleet_trace other[] = { { 7, AT_A }, { 8 }, { 9, AT_B } };
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/h/x/2.snap", .wall_ns = "2", TRACES(other), .is_compact = true });
	fleet_write(&(struct fleet_file){ "d/h/x/1.snap", TRACES(some) });
	sum = fleet_index_d();
	cr_expect_str_eq(fleet_told, "");
	cr_expect_eq(sum.snapshots, 2);
	cr_expect_eq(sum.rows, 6);
	cr_expect_str_eq(rows_text(0), "0:50/2 1:20/1 2:30/1");
	cr_expect_str_eq(rows_text(1), "0:9/1 1:7/1 3:8/1");
}

Test(fleet_index, reads_nothing_in_a_second_run)
{
	struct index_sum sum;
	char *before, *after;

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_write_text("d/2.snap", "no snapshot");
	fleet_index_d();
	before = fleet_dump();
	sum = fleet_index_d();
	after = fleet_dump();
	cr_expect_eq(sum.known, 2);
	cr_expect_eq(sum.snapshots, 0);
	cr_expect_str_eq(fleet_told, "foreign 2.snap: not a snapshot\n", "it is told again");
	cr_expect_str_eq(before, after);
	free(before);
	free(after);
}

Test(fleet_index, does_not_open_a_known_file)
{
	struct stat st;
	struct timespec times[2];
	int fd;

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_index_d();
	cr_assert_eq(stat("d/1.snap", &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	fd = open("d/1.snap", O_WRONLY);
	cr_assert_eq(pwrite(fd, "spoilt", 6, 0), 6);
	cr_assert_eq(futimens(fd, times), 0);
	close(fd);
	cr_expect_eq(fleet_index_d().known, 1);
	cr_expect_str_eq(fleet_told, "", "or it would be damaged");
	cr_assert_eq(utimensat(AT_FDCWD, "d/1.snap", NULL, 0), 0);
	cr_expect_eq(fleet_index_d().problems[INDEX_FOREIGN], 1);
	cr_expect_str_eq(rows_text(0), "0:50/2 1:20/1 2:30/1", "what it had stays");
}

Test(fleet_index, reports_one_problem_for_each_file)
{
	static const struct fleet_trace huge[] = { { INT64_MAX, AT_A }, { 1, AT_A } };
	static const char *const told =
		"duplicate b.snap: of the same process and time as %s/d/a.snap\n"
		"damaged cut.snap: damaged: 200 bytes long, written as %ld\n"
		"foreign empty.snap: not a snapshot: the file is empty\n"
		"damaged huge.snap: %s\n"
		"foreign nohost.snap: it does not say when it was taken\n"
		"foreign nopid.snap: it does not say of which process it is\n"
		"foreign text.snap: not a snapshot\n";
	char expected[2048], cwd[256], *line;
	struct index_sum sum;
	struct stat st;

	fleet_write(&(struct fleet_file){ "d/a.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/b.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/cut.snap", .wall_ns = "3", TRACES(some) });
	cr_assert_eq(stat("d/cut.snap", &st), 0);
	cr_assert_eq(truncate("d/cut.snap", 200), 0);
	fleet_write_text("d/empty.snap", "");
	fleet_write(&(struct fleet_file){ "d/huge.snap", .wall_ns = "4", TRACES(huge) });
	fleet_write(&(struct fleet_file){ "d/nohost.snap", .wall_ns = "x", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/nopid.snap", .pid = "x", TRACES(some) });
	fleet_write_text("d/text.snap", "text");
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.problems[INDEX_DAMAGED], 2);
	cr_expect_eq(sum.problems[INDEX_FOREIGN], 4);
	cr_expect_eq(sum.problems[INDEX_DUPLICATE], 1);
	line = strstr(fleet_told, "damaged huge.snap: ");
	cr_assert(line);
	line = strndup(line + 19, strcspn(line + 19, "\n"));
	cr_assert(getcwd(cwd, sizeof(cwd)));
	snprintf(expected, sizeof(expected), told, cwd, (long)st.st_size, line);
	cr_expect_str_eq(fleet_told, expected);
	free(line);
}

Test(fleet_index, reads_only_regular_files_called_snap)
{
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/.hidden/1.snap", TRACES(some) });
	fleet_write_text("d/notes.txt", "");
	fleet_write_text("d/x.snapshot", "");
	cr_assert_eq(mkfifo("d/fifo.snap", 0600), 0);
	cr_assert_eq(symlink(".hidden/1.snap", "d/link.snap"), 0);
	cr_assert_eq(symlink("..", "d/round"), 0);
	cr_assert_eq(symlink("nowhere", "d/dangling.snap"), 0);
	cr_assert_eq(symlink("notes.txt", "d/other"), 0);
	cr_assert_eq(mkdir("d/dir.snap", 0700), 0);
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.others, 7);
	cr_expect_eq(sum.links, 3, "two called .snap, one to a directory");
	cr_expect_str_eq(fleet_told, "");
}

Test(fleet_index, keeps_and_counts_a_snapshot_whose_file_was_removed)
{
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(some) });
	fleet_index_d();
	cr_assert_eq(unlink("d/1.snap"), 0);
	sum = fleet_index_d();
	cr_expect_eq(sum.gone, 1);
	cr_expect_eq(sum.known, 1);
	cr_expect_str_eq(rows_text(0), "0:50/2 1:20/1 2:30/1");
	cr_expect_str_eq(rows_text(1), "0:50/2 1:20/1 2:30/1");
}

static void move(const char *from, const char *to)
{
	cr_assert_eq(rename(from, to), 0, "%s", from);
}

/* All of it, and nothing is missed, also the next time. */
static void expect_moved(uint64_t moved, const char *told)
{
	struct index_sum sum = fleet_index_d();

	cr_expect_eq(sum.moved, moved);
	cr_expect_eq(sum.snapshots, 0);
	cr_expect_eq(sum.gone, 0);
	cr_expect_str_eq(fleet_told, told);
	sum = fleet_index_d();
	cr_expect_eq(sum.moved, 0);
	cr_expect_eq(sum.gone, 0);
	cr_expect_str_eq(fleet_told, told);
}

static const char *path_of(size_t at)
{
	static char path[256];
	struct catalogue *catalogue = fleet_open();
	struct fleet_facts facts = {};

	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_assert_lt(at, facts.snapshot_nr);
	snprintf(path, sizeof(path), "%s", strstr(facts.snapshot[at].path, "/d/") + 1);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
	return path;
}

Test(fleet_index, follows_a_file_that_was_moved)
{
	fleet_write(&(struct fleet_file){ "d/1.snap", .label_version = "1", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(some) });
	fleet_index_d();
	cr_assert_eq(mkdir("d/archive", 0700), 0);
	move("d/1.snap", "d/archive/1.snap");
	move("d/2.snap", "d/archive/2.snap");
	expect_moved(2, "");
	cr_expect_str_eq(path_of(0), "d/archive/1.snap");
	cr_expect_str_eq(path_of(1), "d/archive/2.snap");
	cr_expect_str_eq(rows_text(0), "0:50/2 1:20/1 2:30/1");
}

/* A rotation gives each name the content of the name before it. */
Test(fleet_index, follows_files_that_were_rotated)
{
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/x.1.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/x.snap", .wall_ns = "2", TRACES(some) });
	fleet_index_d();
	move("d/x.1.snap", "d/x.2.snap");
	move("d/x.snap", "d/x.1.snap");
	fleet_write(&(struct fleet_file){ "d/x.snap", .wall_ns = "3", TRACES(some) });
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.moved, 2);
	cr_expect_str_eq(fleet_told, "");
	cr_expect_str_eq(path_of(0), "d/x.2.snap");
	cr_expect_str_eq(path_of(1), "d/x.1.snap");
	cr_expect_str_eq(path_of(2), "d/x.snap");
	expect_moved(0, "");
}

Test(fleet_index, replaces_a_removed_file_by_its_duplicate)
{
	char told[512], cwd[256];

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/3.snap", TRACES(some) });
	cr_expect_eq(fleet_index_d().problems[INDEX_DUPLICATE], 2);
	cr_assert_eq(unlink("d/1.snap"), 0);
	cr_assert(getcwd(cwd, sizeof(cwd)));
	snprintf(told, sizeof(told), "duplicate 3.snap: of the same process and time as %s/d/2.snap\n", cwd);
	expect_moved(1, told);
	cr_expect_str_eq(path_of(0), "d/2.snap");
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(some) });
	cr_expect_eq(fleet_index_d().moved, 1, "2 is another one now");
	cr_expect_str_eq(fleet_told, "");
	cr_expect_str_eq(path_of(0), "d/3.snap");
	cr_expect_str_eq(path_of(1), "d/2.snap");
}

/* `symbolize` rewrites a file so: the process and time stay, the names differ. */
Test(fleet_index, replaces_a_snapshot_when_its_file_is_rewritten)
{
	static const struct fleet_trace named[] = { { 10, AT_A } };
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/1.snap", .label_version = "1", TRACES(some) });
	fleet_index_d();
	fleet_write(&(struct fleet_file){ "d/1.snap", .label_version = "2", TRACES(named) });
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_str_eq(fleet_told, "");
	cr_expect_str_eq(rows_text(0), "1:10/1");
}

/* The file was copied, then symbolized. The copy's name comes first, but the copy does not take the file's place. */
Test(fleet_index, treats_a_copy_of_the_earlier_file_as_a_duplicate)
{
	static const struct fleet_trace named[] = { { 10, AT_A } };
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/web/1.snap", TRACES(some) });
	fleet_index_d();
	cr_assert_eq(mkdir("d/backup", 0700), 0);
	move("d/web/1.snap", "d/backup/1.snap");
	fleet_write(&(struct fleet_file){ "d/web/1.snap", TRACES(named) });
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.moved, 0);
	cr_expect_eq(sum.problems[INDEX_DUPLICATE], 1);
	cr_expect(strstr(fleet_told, "/d/web/1.snap"), "%s", fleet_told);
	cr_expect_str_eq(path_of(0), "d/web/1.snap");
	cr_expect_str_eq(rows_text(0), "1:10/1");
}

Test(fleet_index, merges_tracebacks_that_differ_only_in_their_end)
{
	static const struct fleet_frame code[] = { { .offset = 0x7f001000 }, { .offset = 0x7f002000 } };
	static const struct fleet_trace traces[] = {
		{ 10, AT_A }, { 5, .frame = &frames[0], .nframe = 3, .total_nframe = 9 },
		{ 1, .frame = &code[0], .nframe = 1 }, { 2, .frame = &code[1], .nframe = 1 },
	};

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(traces) });
	fleet_index_d();
	cr_expect_str_eq(rows_text(0), "0:15/2 1:3/2");
}

Test(fleet_index, sums_up_samples)
{
	static const struct fleet_trace traces[] = {
		{ 100, AT_A, .weight = 4.5 }, { 10, AT_B, .weight = 1 }, { 70, AT_A, .weight = 3 },
	};
	struct sums sums = {}, total = {};
	struct catalogue *catalogue;
	struct rows_reader *reader;
	struct fleet_rows rows = {};
	struct fleet_facts facts;

	fleet_write(&(struct fleet_file){ "d/1.snap", .is_sampled = true, TRACES(traces) });
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_assert_eq(rows_reader__new(catalogue, &reader, NULL), 0);
	cr_assert_eq(rows_reader__read(reader, facts.snapshot[0].snapshot_id, facts.origin_nr, &rows, NULL), 0);
	sums_add_block(&sums, &total, 100, 4.5, 0);
	sums_add_block(&sums, &total, 70, 3, 0);
	cr_assert_eq(rows.nr, 2);
	cr_assert(rows.spread);
	cr_expect_eq(memcmp(&rows.spread[0], &sums.all, sizeof(sums.all)), 0);
	cr_expect_eq(rows.row[0].cost.size, 170, "of the samples themselves");
	cr_expect(facts.snapshot[0].is_sampled);
	cr_expect_eq(facts.snapshot[0].size, 450 + 10 + 210);
	cr_expect_eq(facts.snapshot[0].count, 9, "4.5 + 1 + 3, rounded");
	fleet_rows_release(&rows);
	fleet_facts_release(&facts);
	rows_reader__free(reader);
	catalogue__close(catalogue);
}

Test(fleet_index, identifies_custom_domains_by_name)
{
	static const struct fleet_trace own[] = { { 1, AT_A, .domain = 16 } };
	static const struct fleet_trace numpy[] = { { 1, AT_A, .domain = 389047 } };
	char *dump;

	fleet_write(&(struct fleet_file){ "d/1.snap", .domain_16 = "pool", TRACES(own) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .domain_16 = "slab", .wall_ns = "2", TRACES(own) });
	fleet_write(&(struct fleet_file){ "d/3.snap", .domain_16 = "pool", .wall_ns = "3", TRACES(own) });
	fleet_write(&(struct fleet_file){ "d/4.snap", .wall_ns = "4", TRACES(numpy) });
	fleet_index_d();
	dump = fleet_dump();
	cr_expect(strstr(dump, "\nnumber=16 name=pool \nnumber=17 name=slab \nnumber=389047 name=#389047 \n"),
		  "%s", dump);
	free(dump);
	cr_expect_str_eq(rows_text(0), "0:1/1");
	cr_expect_str_eq(rows_text(1), "1:1/1");
	cr_expect_str_eq(rows_text(2), "0:1/1");
	cr_expect_str_eq(rows_text(3), "2:1/1");
}

Test(fleet_index, detects_two_rows_with_one_id)
{
	static const struct fleet_trace at_a[] = { { 20, AT_A } }, at_b[] = { { 20, AT_B } };

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(at_a) });
	fleet_index_d();
	fleet_sql("UPDATE traceback SET verify = verify + 1");
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(at_a) });
	cr_expect_eq(fleet_index_d().snapshots, 0);
	cr_expect_str_eq(fleet_told, "damaged 2.snap: a traceback has the id of another one\n");
	fleet_sql("UPDATE traceback SET verify = verify - 1; UPDATE frame SET verify = verify + 1");
	fleet_write(&(struct fleet_file){ "d/3.snap", .wall_ns = "3", TRACES(at_b) });
	cr_expect_eq(fleet_index_d().snapshots, 0);
	cr_expect(strstr(fleet_told, "damaged 3.snap: a frame, traceback or domain has the id of another one\n"),
		  "%s", fleet_told);
	fleet_sql("UPDATE snapshot SET verify = verify + 1");
	fleet_write(&(struct fleet_file){ "d/1.snap", .comm = "x", TRACES(at_a) });
	fleet_index_d();
	cr_expect(strstr(fleet_told, "damaged 1.snap: it has the id of another snapshot, "), "%s", fleet_told);
}

/* ---- unexpected numbers and texts -------------------------------------------------------------------- */

Test(fleet_index, refuses_an_invalid_domain_number)
{
	static const char *const number[] = { "9223372036854775807", "4294967295", "-1" };
	static const char *const dir[] = { "d" };
	struct catalogue *catalogue;
	struct index_sum sum;
	struct reason why = { "" };
	char sql[128];

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_index_d();
	for (size_t i = 0; i < ARRAY_SIZE(number); i++) {
		snprintf(sql, sizeof(sql), "DELETE FROM domain; INSERT INTO domain VALUES (%s, 'x')", number[i]);
		fleet_sql(sql);
		cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
		cr_expect_eq(fleet_index(catalogue, dir, 1, NULL, &sum, &why), -EBADMSG, "%s", number[i]);
		cr_expect_str_eq(why.text, "catalogue.db: the catalogue is damaged: an invalid id or number");
		catalogue__close(catalogue);
	}
}

Test(fleet_index, reports_a_problem_without_a_text)
{
	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_index_d();
	fleet_sql("UPDATE file SET problem = 1, line = ''");
	cr_expect_eq(fleet_index_d().problems[INDEX_DAMAGED], 1);
	cr_expect_str_eq(fleet_told, "damaged 1.snap: damaged\n");
}

/* Nanoseconds since 1970 end in 2262, file systems later. */
Test(fleet_index, recognizes_a_file_dated_in_a_distant_year)
{
	static const struct timespec times[2] = { { .tv_sec = 13600000000 }, { .tv_sec = 13600000000 } };

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	cr_assert_eq(utimensat(AT_FDCWD, "d/1.snap", times, 0), 0);
	cr_expect_eq(fleet_index_d().snapshots, 1);
	cr_expect_eq(fleet_index_d().known, 1);
}

/* ---- which files the index looks at -------------------------------------------------------------------- */

Test(fleet_index, reads_overlapping_directories_once)
{
	static const char *const dir[] = { "d/x", "d", "d/../d", "d" };
	struct catalogue *catalogue;
	struct index_sum sum;
	struct reason why = { "" };

	fleet_write(&(struct fleet_file){ "d/x/1.snap", TRACES(some) });
	fleet_write_text("d/x/notes", "");
	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
	cr_assert_eq(fleet_index(catalogue, dir, ARRAY_SIZE(dir), NULL, &sum, &why), 0, "%s", why.text);
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.others, 1);
	cr_expect_eq(fleet_index(catalogue, (const char *const[]){ "none" }, 1, NULL, &sum, &why), -ENOENT);
	cr_expect_str_eq(why.text, "none: No such file or directory");
	catalogue__close(catalogue);
}

/* A shell expands *.snap to files and links; the directory that contains them may be given as well. */
Test(fleet_index, accepts_files_instead_of_directories)
{
	static const char *const files[] = { "d/2.snap", "d/1.snap", "d/../d/1.snap", "link.snap" };
	static const char *const more[] = { "d/2.snap", "d" };
	static const char *const text[] = { "d/1.snap", "d/notes.txt" };
	struct catalogue *catalogue;
	struct index_sum sum;
	struct reason why = { "" };

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/3.snap", .wall_ns = "3", TRACES(some) });
	fleet_write_text("d/notes.txt", "");
	cr_assert_eq(symlink("d/2.snap", "link.snap"), 0);
	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
	cr_assert_eq(fleet_index(catalogue, files, ARRAY_SIZE(files), NULL, &sum, &why), 0, "%s", why.text);
	cr_expect_eq(sum.snapshots, 2);
	cr_assert_eq(fleet_index(catalogue, more, ARRAY_SIZE(more), NULL, &sum, &why), 0, "%s", why.text);
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.known, 2);
	cr_expect_eq(sum.gone, 0);
	cr_expect_eq(fleet_index_check(files, ARRAY_SIZE(files), &why), 0);
	cr_expect_eq(fleet_index_check(text, ARRAY_SIZE(text), &why), -ENOTDIR);
	cr_expect_str_eq(why.text, "d/notes.txt: neither a directory nor a file called .snap");
	catalogue__close(catalogue);
}

/* ---- killed in the middle of indexing, and run again ---- */

TestSuite(fleet_index_killed, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

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
