// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "fleet/index_private.h"
#include "fleet/selection.h"
#include "fleet_files.h"
#include "skip.h"

TestSuite(fleet_catalogue, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_frame frame = { "a.c", 1, "a", "/bin/app", "aa", 0x10 };
static const struct fleet_trace some[] = { { 10, &frame, 1, 1 }, { 30, &frame, 1, 1, .domain = 1 } };

static void expect_refused(const char *path, int err, const char *says)
{
	struct catalogue *catalogue = NULL;
	struct reason why = { "" };

	cr_expect_eq(catalogue__open(path, CATALOGUE_READ, &catalogue, &why), err, "%s", says);
	cr_expect_str_eq(why.text, says);
	cr_expect_null(catalogue);
}

Test(fleet_catalogue, file_that_is_no_catalogue_is_refused)
{
	fleet_write_text("text", "this is a text, and a long one that SQLite looks at the beginning of, as it has "
			 "more than a hundred bytes");
	fleet_write_text("empty", "");
	expect_refused("none.db", -ENOENT, "none.db: No such file or directory");
	expect_refused("text", -EBADMSG, "text: not a catalogue");
	expect_refused("empty", -ENOENT, "empty: no snapshots have been indexed yet");
	expect_refused("d", -EBADMSG, "d: not a regular file");
}

Test(fleet_catalogue, of_another_version_or_application_is_refused)
{
	fleet_index_d();
	fleet_sql("PRAGMA user_version = 9");
	expect_refused("catalogue.db", -EBADMSG,
		       "catalogue.db: a catalogue of version 9, this one reads version 3");
	fleet_sql("PRAGMA application_id = 1");
	expect_refused("catalogue.db", -EBADMSG, "catalogue.db: not a catalogue");
}

Test(fleet_catalogue, of_no_snapshots_is_empty)
{
	struct catalogue *catalogue;
	struct fleet_facts facts;

	fleet_index_d();
	catalogue = fleet_open();
	cr_expect_str_eq(catalogue__path(catalogue), "catalogue.db");
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_expect_eq(facts.snapshot_nr, 0);
	cr_expect_eq(facts.origin_nr, 0);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

static void write_fleet(void)
{
	fleet_write(&(struct fleet_file){ "d/1.snap", "web-2", "11", "1000", "nginx", "1.4", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", "web-1", "12", "2000", "redis", .lost = 3, TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/3.snap", "web-2", "11", "500", "nginx", "1.3",
					  .filters = "file=a.c", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/4.snap", "web-2", "9", "700", "sh", TRACES(some) });
	fleet_index_d();
}

static const char *label_of(const struct fleet_facts *facts, size_t at)
{
	const struct fleet_snapshot *snapshot = &facts->snapshot[at];

	for (uint32_t i = 0; i < snapshot->label_nr; i++)
		if (!strcmp(facts->label[snapshot->label + i].name, "version"))
			return facts->label[snapshot->label + i].value;
	return "";
}

static size_t find(const struct fleet_facts *facts, int64_t time_ns)
{
	size_t at = 0;

	while (at < facts->snapshot_nr && facts->snapshot[at].time_ns != time_ns)
		at++;
	cr_assert_lt(at, facts->snapshot_nr);
	return at;
}

Test(fleet_catalogue, facts_are_ordered_by_host_process_and_time)
{
	struct catalogue *catalogue;
	struct fleet_facts facts;
	const struct fleet_snapshot *s;
	size_t at;

	write_fleet();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	s = facts.snapshot;
	cr_assert_eq(facts.snapshot_nr, 4);
	cr_expect_eq(facts.host_nr, 2);
	cr_expect_eq(facts.process_nr, 3);
	cr_expect_eq(facts.origin_nr, 2);
	cr_expect_str_eq(s[0].host, "web-1");
	cr_expect_eq(s[0].host_nr, 0);
	cr_expect_eq(s[0].loss_nr, 1);
	cr_expect_str_eq(facts.loss[s[0].loss].name, "blocks_dropped");
	cr_expect_eq(facts.loss[s[0].loss].value, 3);
	at = find(&facts, 500);
	cr_expect_eq(find(&facts, 1000), at + 1, "of one process by time");
	cr_expect_eq(s[at].process, s[at + 1].process);
	cr_expect_eq(s[at].host_nr, 1);
	cr_expect_str_eq(label_of(&facts, at), "1.3");
	cr_expect_str_eq(label_of(&facts, at + 1), "1.4");
	cr_expect(s[at].is_part && !s[at + 1].is_part);
	cr_expect_eq(s[at].pid, 11);
	cr_expect_eq(s[at].size, 40);
	cr_expect_eq(s[at].count, 2);
	cr_expect_eq(s[at].row_nr, 2);
	cr_expect_str_eq(s[at].cgroup, "");
	cr_expect_str_eq(strrchr(s[at].path, '/'), "/3.snap");
	cr_expect_neq(find(&facts, 700), 0);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* The second was started while the first went on, and ended before it. */
Test(fleet_catalogue, recordings_of_a_process_are_distinguished)
{
	static const struct fleet_file files[] = {
		{ "d/1.snap", .wall_ns = "10", .monotonic_ns = "10", .recording_ns = "5" },
		{ "d/2.snap", .wall_ns = "20", .monotonic_ns = "20", .recording_ns = "12" },
		{ "d/3.snap", .wall_ns = "30", .monotonic_ns = "30", .recording_ns = "5" },
	};
	static const int64_t time_ns[] = { 10, 30, 20 };
	static const uint32_t recording[] = { 0, 0, 1 };
	struct catalogue *catalogue;
	struct fleet_facts facts;
	struct cohort cohort;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		fleet_write(&files[i]);
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_expect(facts.process_nr == 1 && facts.recording_nr == 2);
	for (size_t i = 0; i < facts.snapshot_nr; i++)
		cr_expect(facts.snapshot[i].time_ns == time_ns[i] && facts.snapshot[i].recording == recording[i], "%zu", i);
	cr_assert_eq(cohort_choose(&facts, NULL, 0, COHORT_LATEST, &cohort), 0);
	cr_expect(cohort.snapshot_nr == 1 && cohort.snapshot[0]->time_ns == 30, "the latest, whichever recording's");
	cohort_release(&cohort);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

Test(fleet_catalogue, counts_blocks_that_lived_through_a_gap)
{
	static const struct fleet_frame frame[] = { { "a.c", 1, "f", "/bin/x", "", 1 } };
	static const struct fleet_trace traces[] = {
		{ 100, frame, 1, 1, .birth_ns = 10 }, { 30, frame, 1, 1, .birth_ns = 14 }, { 7, frame, 1, 1, .birth_ns = 30 },
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	fleet_write(&(struct fleet_file){ "d/1.snap", .monotonic_ns = "40", .gap_end_ns = 20, TRACES(traces) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .pid = "8", TRACES(traces) });
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	for (size_t i = 0; i < facts.snapshot_nr; i++) {
		const struct fleet_snapshot *s = &facts.snapshot[i];

		cr_expect(s->gap_blocks.size == (s->pid == 7 ? 130 : 0) && s->gap_blocks.count == (s->pid == 7 ? 2 : 0),
			  "%ld", s->pid);
	}
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

static void expect_times(const int64_t *time_ns, size_t nr, const char *what)
{
	struct catalogue *catalogue = fleet_open();
	struct fleet_facts facts;

	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_assert_eq(facts.snapshot_nr, nr);
	for (size_t i = 0; i < nr; i++)
		cr_expect_eq(facts.snapshot[i].time_ns, time_ns[i], "%s: %zu", what, i);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* The wall clock was set back between the second and the third. */
Test(fleet_catalogue, snapshots_of_a_process_are_ordered_by_the_monotonic_clock)
{
	fleet_write(&(struct fleet_file){ "d/1.snap", .wall_ns = "1000", .monotonic_ns = "10" });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2000", .monotonic_ns = "20" });
	fleet_write(&(struct fleet_file){ "d/3.snap", .wall_ns = "500", .monotonic_ns = "30" });
	fleet_index_d();
	expect_times((const int64_t[]){ 1000, 2000, 500 }, 3, "by the monotonic clock");
	fleet_write(&(struct fleet_file){ "d/4.snap", .wall_ns = "700" });
	fleet_index_d();
	expect_times((const int64_t[]){ 500, 700, 1000, 2000 }, 4, "where one lacks it, by the other");
}

/* Names give ids, and ids the order if nothing else does. */
Test(fleet_catalogue, parts_are_ordered_before_the_whole)
{
	static const char *const filters[] = { "a", "b", "c", "d", "e", "f", NULL };
	struct catalogue *catalogue;
	struct fleet_facts facts;
	struct cohort cohort;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		char path[] = "d/0.snap";

		path[2] += i;
		fleet_write(&(struct fleet_file){ path, .filters = filters[i] });
	}
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	cr_assert_eq(facts.snapshot_nr, ARRAY_SIZE(filters));
	for (size_t i = 0; i < facts.snapshot_nr; i++)
		cr_expect_eq(facts.snapshot[i].is_part, i + 1 < facts.snapshot_nr);
	for (enum cohort_times times = COHORT_LATEST; times <= COHORT_ALL; times++) {
		cr_assert_eq(cohort_choose(&facts, NULL, 0, times, &cohort), 0);
		cr_expect(cohort.snapshot_nr == 1 && !cohort.snapshot[0]->is_part, "%zu", cohort.snapshot_nr);
		cohort_release(&cohort);
	}
	facts.snapshot_nr--;
	cr_assert_eq(cohort_choose(&facts, NULL, 0, COHORT_ALL, &cohort), 0);
	cr_expect_eq(cohort.snapshot_nr, facts.snapshot_nr, "parts alone stay");
	cohort_release(&cohort);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

Test(fleet_catalogue, that_is_damaged_is_detected)
{
	static const struct {
		const char *sql, *says;
	} harms[] = {
		{ "UPDATE snapshot_rows SET rows = x'00'", "catalogue.db: the rows of a snapshot are damaged: too short" },
		{ "DELETE FROM snapshot_rows", "catalogue.db: the catalogue is damaged: a snapshot without rows" },
	};
	struct catalogue *catalogue;
	struct rows_reader *reader;
	struct fleet_facts facts;
	struct fleet_rows rows = {};
	struct reason why;

	write_fleet();
	for (size_t i = 0; i < ARRAY_SIZE(harms); i++) {
		fleet_sql(harms[i].sql);
		catalogue = fleet_open();
		cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
		cr_assert_eq(rows_reader__new(catalogue, &reader, NULL), 0);
		cr_expect_eq(rows_reader__read(reader, facts.snapshot[0].snapshot_id, facts.origin_nr, &rows,
					       &why), -EBADMSG);
		cr_expect_str_eq(why.text, harms[i].says);
		rows_reader__free(reader);
		fleet_facts_release(&facts);
		catalogue__close(catalogue);
	}
	fleet_sql("DELETE FROM snapshot WHERE number = 1");
	catalogue = fleet_open();
	cr_expect_eq(catalogue__facts(catalogue, &facts, &why), -EBADMSG, "a label of none");
	catalogue__close(catalogue);
	fleet_rows_release(&rows);
}

/* SQLite gives these names a meaning of its own. */
Test(fleet_catalogue, path_is_never_interpreted_by_sqlite)
{
	static const char *const path[] = { ":memory:", "file:x.db", "file:x.db?mode=memory", "./:memory:", "d/x.db" };
	static const char *const dir[] = { "d" };
	struct reason why = { "" };
	struct index_sum sum;

	write_fleet();
	for (size_t i = 0; i < ARRAY_SIZE(path); i++) {
		struct catalogue *catalogue;
		struct fleet_facts facts;

		cr_assert_eq(catalogue__open(path[i], CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
		cr_assert_eq(fleet_index(catalogue, dir, 1, NULL, &sum, &why), 0, "%s", why.text);
		catalogue__close(catalogue);
		cr_assert_eq(catalogue__open(path[i], CATALOGUE_READ, &catalogue, &why), 0, "%s", why.text);
		cr_assert_eq(catalogue__facts(catalogue, &facts, &why), 0, "%s", why.text);
		cr_expect_eq(facts.snapshot_nr, 4, "%s", path[i]);
		fleet_facts_release(&facts);
		catalogue__close(catalogue);
	}
	cr_expect_eq(access("x.db", F_OK), -1);
}

/* ---- concurrent readers and writers --------------------------------------------------------------------- */

Test(fleet_catalogue, has_one_writer_at_a_time)
{
	struct catalogue *catalogue;
	int fd;

	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, NULL), 0);
	fd = open("catalogue.db", O_RDONLY);
	cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), -1);
	cr_expect_eq(errno, EWOULDBLOCK);
	catalogue__close(catalogue);
	cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
}

static void be_told(void *what, const char *path)
{
	int *fd = what;

	cr_expect_str_eq(path, "catalogue.db");
	cr_assert_geq(*fd, 0, "told once");
	close(*fd); /* the other one has ended */
	*fd = -1;
}

Test(fleet_catalogue, reports_that_a_writer_waits)
{
	struct catalogue *catalogue;
	int fd;

	fleet_index_d();
	fd = open("catalogue.db", O_RDONLY);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(catalogue__open_to_write("catalogue.db", be_told, &fd, &catalogue, NULL), 0);
	cr_expect_eq(fd, -1);
	catalogue__close(catalogue);
	cr_assert_eq(catalogue__open_to_write("catalogue.db", be_told, &fd, &catalogue, NULL), 0);
	catalogue__close(catalogue);
}

Test(fleet_catalogue, is_readable_only_by_its_owner_and_leaves_no_journal)
{
	struct stat st;

	write_fleet();
	cr_assert_eq(stat("catalogue.db", &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	cr_expect_eq(access("catalogue.db-journal", F_OK), -1);
	cr_expect_eq(access("catalogue.db-wal", F_OK), -1);
}

static int read_as_nobody(void)
{
	struct catalogue *catalogue;
	struct fleet_facts facts;

	if (setgid(65534) || setuid(65534) || !access(".", W_OK) || !access("catalogue.db", W_OK))
		return 2;
	if (catalogue__open("catalogue.db", CATALOGUE_READ, &catalogue, NULL))
		return 3;
	return catalogue__facts(catalogue, &facts, NULL) ? 4 : facts.snapshot_nr == 4 ? 0 : 5;
}

Test(fleet_catalogue, can_be_read_without_write_permission)
{
	pid_t child;
	int status;

	if (geteuid())
		skip_because("only root can be another user");
	write_fleet();
	cr_assert_eq(chmod("catalogue.db", 0644), 0);
	cr_assert_eq(chmod(".", 0755), 0);
	child = fork();
	if (!child)
		_exit(read_as_nobody());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}

Test(fleet_catalogue, reader_refuses_a_catalogue_that_was_replaced)
{
	struct catalogue *catalogue;
	struct rows_reader *reader = NULL;
	struct reason why;

	write_fleet();
	catalogue = fleet_open();
	cr_assert_eq(rename("catalogue.db", "old.db"), 0);
	fleet_index_d();
	cr_expect_eq(rows_reader__new(catalogue, &reader, &why), -ESTALE);
	cr_expect_str_eq(why.text, "catalogue.db: it was replaced by another file");
	catalogue__close(catalogue);
}

/* ---- fleet bounds ---- */

/* Limits on what foreign snapshots and catalogues can make the reader do. */

TestSuite(fleet_bounds, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_trace one_trace[] = { { 10, &frame, 1, 1 } };

/* The caller frees it; the first bytes are the number, so that each is another. */
static char *text_of(size_t len, unsigned int number)
{
	char *text = malloc(len + 1);

	cr_assert(text && len > 12);
	memset(text, 'x', len);
	text[len] = '\0';
	text[snprintf(text, 12, "%u", number)] = '_';
	return text;
}

/* ---- files ------------------------------------------------------------------------------------------------ */

Test(fleet_bounds, refuse_a_file_with_a_text_that_is_too_long)
{
	char *most = text_of(FOUND_TEXT_MAX, 1), *more = text_of(FOUND_TEXT_MAX + 1, 2);
	const struct fleet_trace own[] = { { 10, &frame, 1, 1, .domain = 16 } };
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(one_trace) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", .label_version = more, .is_compact = true,
					  TRACES(one_trace) });
	fleet_write(&(struct fleet_file){ "d/3.snap", .wall_ns = "3", .domain_16 = more, TRACES(own) });
	fleet_write(&(struct fleet_file){ "d/4.snap", .wall_ns = "4", .label_version = most, TRACES(one_trace) });
	sum = fleet_index_d();
	cr_expect_str_eq(fleet_told, "damaged 2.snap: a text of 65537 bytes: no more than 65536 are taken\n"
			 "damaged 3.snap: a text of 65537 bytes: no more than 65536 are taken\n");
	cr_expect_eq(sum.snapshots, 2);
	free(most);
	free(more);
}

Test(fleet_bounds, refuse_a_file_with_too_many_labels)
{
	char *most = text_of(FOUND_TEXT_MAX, 1);
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/1.snap", .label_version = most, .more_labels = 62, TRACES(one_trace) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", .label_version = most, .more_labels = 63,
					  .is_compact = true, TRACES(one_trace) });
	sum = fleet_index_d();
	cr_expect_str_eq(fleet_told, "damaged 2.snap: labels and losses of more than 4194304 bytes\n");
	cr_expect_eq(sum.snapshots, 1);
	free(most);
}

/* The test lowers SQLite's own limit. */
Test(fleet_bounds, refuse_a_file_with_too_many_rows)
{
	static const char *const dir[] = { "d" };
	struct fleet_trace many[300];
	struct catalogue *catalogue;
	struct index_sum sum = {};
	struct reason why = { "" };

	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct fleet_trace){ i * 2654435761ull * 40503, &frame, 1, 1, .domain = 16 + i };
	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(many) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(one_trace) });
	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
	sqlite3_limit(catalogue->db, SQLITE_LIMIT_LENGTH, 1000);
	cr_expect_eq(fleet_index(catalogue, dir, 1, NULL, &sum, &why), 0, "%s", why.text);
	cr_expect_eq(sum.problems[INDEX_DAMAGED], 1);
	cr_expect_eq(sum.snapshots, 1);
	catalogue__close(catalogue);
}

/* nr frames, each with its own line and all with one name of 64 KiB: the file itself is small. */
static void write_frames(const char *path, unsigned int number, unsigned int nr)
{
	char *name = text_of(FOUND_TEXT_MAX, number), wall_ns[12];
	struct fleet_frame *frames = calloc(nr, sizeof(*frames));
	struct fleet_trace *traces = calloc(nr, sizeof(*traces));

	cr_assert(frames && traces);
	for (unsigned int i = 0; i < nr; i++) {
		frames[i] = (struct fleet_frame){ "a.c", i + 1, name, "/bin/app", "aa", i };
		traces[i] = (struct fleet_trace){ 1, &frames[i], 1, 1 };
	}
	snprintf(wall_ns, sizeof(wall_ns), "%u", number);
	fleet_write(&(struct fleet_file){ path, .wall_ns = wall_ns, .is_compact = true, .trace = traces,
					  .trace_nr = nr });
	free(name);
	free(frames);
	free(traces);
}

Test(fleet_bounds, refuse_a_file_with_too_many_bytes_of_frame_texts)
{
	struct index_sum sum;

	write_frames("d/1.snap", 1, 1000);
	write_frames("d/2.snap", 2, 1030);
	sum = fleet_index_d();
	cr_expect_str_eq(fleet_told, "damaged 2.snap: more than 67108864 bytes of texts\n");
	cr_expect_eq(sum.snapshots, 1);
}

/*
 * Files that were read wait to be written while the writer pauses; memory stays bounded. Sanitizers hold memory of
 * their own, so the memory is checked without them only.
 */
Test(fleet_bounds, limit_the_memory_of_files_that_wait_to_be_written)
{
	static const char *const dir[] = { "d" };
	struct indexed_files files = {};
	struct library library = {};
	struct index_threads *threads;
	struct catalogue *catalogue;
	struct rusage usage;
	struct found *found;
	char path[32];

	for (unsigned int i = 1; i <= 60; i++) {
		snprintf(path, sizeof(path), "d/%02u.snap", i);
		write_frames(path, i, 200);
	}
	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, NULL), 0);
	cr_assert_eq(library_load(&library, catalogue, NULL), 0);
	cr_assert_eq(index_files_list(&files, dir, 1, NULL), 0);
	cr_assert_eq(index_threads__new(&files, &library, &threads, NULL), 0);
	cr_assert_eq(index_threads__next(threads, &found), 0);
	sleep(2);
	for (size_t i = 1; i < files.file_nr; i++) {
		cr_assert_eq(index_threads__next(threads, &found), 0);
		cr_assert_gt(found->text_nr, 200 * FOUND_TEXT_MAX, "each is there all the same");
	}
	cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
#ifndef __SANITIZE_ADDRESS__
	cr_expect_lt(usage.ru_maxrss, 600 << 10, "%ld KiB", usage.ru_maxrss);
#endif
	index_threads__free(threads);
	index_files_release(&files);
	library_release(&library);
	catalogue__close(catalogue);
}

/* ---- directories ---------------------------------------------------------------------------------------- */

static char long_name[211];

/* The whole path is too long for one call, so each folder is made from its parent's descriptor. */
static void make_deep(unsigned int levels)
{
	int at = open("d", O_PATH | O_DIRECTORY);

	memset(long_name, 'n', sizeof(long_name) - 1);
	for (unsigned int i = 0; i < levels; i++) {
		int below;

		cr_assert_eq(mkdirat(at, long_name, 0700), 0);
		below = openat(at, long_name, O_PATH | O_DIRECTORY);
		cr_assert(below >= 0);
		close(at);
		at = below;
	}
	close(at);
}

Test(fleet_bounds, end_the_walk_where_paths_become_too_long)
{
	struct index_sum sum;

	fleet_write(&(struct fleet_file){ "d/z.snap", TRACES(one_trace) });
	make_deep(40);
	sum = fleet_index_d();
	cr_expect_eq(sum.snapshots, 1);
	cr_expect_eq(sum.problems[INDEX_UNREADABLE], 1);
	cr_expect(strstr(fleet_told, ": File name too long\n"), "%s", fleet_told);
}

/* ---- catalogues ------------------------------------------------------------------------------------------ */

static void expect_foreign_tables(enum catalogue_access access)
{
	struct catalogue *catalogue = NULL;
	struct reason why = { "" };

	cr_expect_eq(catalogue__open("catalogue.db", access, &catalogue, &why), -EBADMSG);
	cr_expect_str_eq(why.text, "catalogue.db: the catalogue is damaged: its tables are others than a catalogue's");
	cr_expect_null(catalogue);
}

Test(fleet_bounds, refuse_a_catalogue_with_views_or_triggers)
{
	static const char *const sql[] = {
		"DROP TABLE label; CREATE VIEW label AS WITH RECURSIVE n(snapshot, name, value) AS"
		" (SELECT 1, '', '' UNION ALL SELECT * FROM n) SELECT * FROM n",
		"CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM snapshot; END",
		"DROP TABLE loss; CREATE TABLE loss (snapshot INTEGER, name TEXT, value INTEGER AS (length(zeroblob(9))))",
		"DROP TABLE domain",
	};
	char command[64];

	for (size_t i = 0; i < ARRAY_SIZE(sql); i++) {
		snprintf(command, sizeof(command), "rm -f catalogue.db");
		cr_assert_eq(system(command), 0);
		fleet_index_d();
		fleet_sql(sql[i]);
		expect_foreign_tables(CATALOGUE_READ);
		expect_foreign_tables(CATALOGUE_WRITE);
	}
}

Test(fleet_bounds, report_a_value_that_sqlite_refuses)
{
	struct catalogue *catalogue;
	sqlite3_stmt *insert;
	struct reason why = { "" };

	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
	cr_assert_eq(sql_prepare(catalogue, "INSERT INTO domain VALUES (?1, ?2)", &insert, &why), 0);
	sqlite3_limit(catalogue->db, SQLITE_LIMIT_LENGTH, 100);
	cr_expect_eq(sql_bind_text(catalogue, insert, 2, long_name, &why), 0);
	memset(long_name, 'n', sizeof(long_name) - 1);
	cr_expect_eq(sql_bind_text(catalogue, insert, 2, long_name, &why), -E2BIG);
	cr_expect_str_eq(why.text, "catalogue.db: more bytes than it can have in one place");
	cr_expect_eq(sql_bind_blob(catalogue, insert, 2, long_name, sizeof(long_name), &why), -E2BIG);
	sqlite3_clear_bindings(insert);
	cr_expect_eq(sql_finish(catalogue, insert, &why), -EBADMSG);
	cr_expect_str_eq(why.text, "catalogue.db: NOT NULL constraint failed: domain.name", "and not something twice");
	sqlite3_bind_int(insert, 1, 20);
	cr_expect_eq(sql_bind_text(catalogue, insert, 2, "a", &why), 0);
	cr_expect_eq(sql_finish(catalogue, insert, &why), 0);
	cr_expect_eq(sql_finish(catalogue, insert, &why), -EBADMSG);
	cr_expect_str_eq(why.text, "catalogue.db: the catalogue is damaged: it has something twice");
	sqlite3_finalize(insert);
	catalogue__close(catalogue);
}
