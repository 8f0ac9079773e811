// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Limits on what foreign snapshots and catalogues can make the reader do. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "fleet/index_private.h"
#include "fleet_files.h"

TestSuite(fleet_bounds, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_frame frame = { "a.c", 1, "a", "/bin/app", "aa", 0x10 };
static const struct fleet_trace some[] = { { 10, &frame, 1, 1 } };

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

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", .label_version = more, .is_compact = true,
					  TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/3.snap", .wall_ns = "3", .domain_16 = more, TRACES(own) });
	fleet_write(&(struct fleet_file){ "d/4.snap", .wall_ns = "4", .label_version = most, TRACES(some) });
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

	fleet_write(&(struct fleet_file){ "d/1.snap", .label_version = most, .more_labels = 62, TRACES(some) });
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", .label_version = most, .more_labels = 63,
					  .is_compact = true, TRACES(some) });
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
	fleet_write(&(struct fleet_file){ "d/2.snap", .wall_ns = "2", TRACES(some) });
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

	fleet_write(&(struct fleet_file){ "d/z.snap", TRACES(some) });
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
