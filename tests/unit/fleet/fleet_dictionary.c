// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "engine/tally.h"
#include "fleet_files.h"
#include "snapshot.h"

TestSuite(fleet_dictionary, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

#define BUILD_A "0123456789abcdef00"
#define BUILD_B "fedcba987654321000"

static struct dictionary read_dictionary(const struct dictionary_options *options)
{
	struct catalogue *catalogue = fleet_open();
	struct dictionary dictionary = {};
	struct reason why = { "" };

	cr_assert_eq(dictionary_read_catalogue(catalogue, options, &dictionary, &why), 0, "%s", why.text);
	catalogue__close(catalogue);
	return dictionary;
}

/* "FILE:LINE FUNCTION OBJECT+OFFSET" of each frame of an origin, most recent call first; renamed, if it is. */
static const char *text_of(const struct snapshot *dictionary, const uint32_t *key_frame, uint64_t origin)
{
	static char text[1024];
	const struct snapshot_tables *t = snapshot__tables(dictionary);
	const struct snap_traceback *traceback = &t->traceback[t->trace_traceback[origin]];
	size_t len = 0;

	cr_assert_lt(origin, t->trace_nr);
	text[0] = '\0';
	for (uint32_t i = 0; i < traceback->nframe; i++) {
		uint32_t id = t->traceback_frame[traceback->first + i];
		const struct snap_frame *frame = &t->frame[key_frame ? key_frame[id] : id];

		len += snprintf(text + len, sizeof(text) - len, "%s%s:%u %s %s+%lx", i ? ", " : "",
				snapshot__string(dictionary, frame->filename), frame->lineno,
				snapshot__string(dictionary, frame->function),
				snapshot__string(dictionary, t->object[frame->object].path), frame->offset);
	}
	return text;
}

/* The text that filters match. */
static const char *name_text(const struct dictionary *dictionary, uint64_t origin)
{
	return text_of(dictionary->snapshot, NULL, origin);
}

static const char *key_text(const struct dictionary *dictionary, uint64_t origin)
{
	return text_of(dictionary->snapshot, dictionary->key_frame, origin);
}

/* One origin for each frame. */
static void index_frames(const struct fleet_frame *frame, size_t nr)
{
	struct fleet_trace trace[16];

	for (size_t i = 0; i < nr; i++)
		trace[i] = (struct fleet_trace){ i + 1, &frame[i], 1, 1 };
	fleet_write(&(struct fleet_file){ "d/1.snap", .trace = trace, .trace_nr = nr });
	fleet_index_d();
}

Test(fleet_dictionary, has_equal_keys_for_equal_frames_of_two_builds)
{
	static const struct {
		struct fleet_frame frame;
		const char *text;
	} cases[] = {
		{ { "a.c", 7, "f", "/bin/app", BUILD_A, 0x10 }, "a.c:7 f /bin/app+0" },
		{ { "a.c", 7, "f", "/bin/app", BUILD_B, 0x20 }, "a.c:7 f /bin/app+0" },
		{ { "/bin/app", 0, "g", "/bin/app", BUILD_A, 0x30 }, "/bin/app:0 g /bin/app+0" },
		{ { "/bin/app", 0, "g", "/bin/app", BUILD_B, 0x40 }, "/bin/app:0 g /bin/app+0" },
		{ { "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x50 },
		  "/bin/app@0123456789ab:0  /bin/app@0123456789ab+50" },
		{ { "/bin/app", 0, NULL, "/bin/app", BUILD_B, 0x50 },
		  "/bin/app@fedcba987654:0  /bin/app@fedcba987654+50" },
		{ { "/bin/app", 0, NULL, "/bin/app", NULL, 0x50 }, "/bin/app:0  /bin/app+50" },
		{ { NULL, 0, NULL, NULL, NULL, 0x7f0000001000 }, ":0  +0" },
		{ { NULL, 0, "jit", NULL, NULL, 0x7f0000002000 }, ":0 jit +0" },
	};
	struct fleet_frame frame[ARRAY_SIZE(cases)];
	struct dictionary dictionary;
	const struct snapshot_tables *t;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		frame[i] = cases[i].frame;
	index_frames(frame, ARRAY_SIZE(frame));
	dictionary = read_dictionary(NULL);
	t = snapshot__tables(dictionary.snapshot);
	cr_assert_eq(t->trace_nr, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(key_text(&dictionary, i), cases[i].text);
	cr_expect_eq(t->trace_traceback[0], t->trace_traceback[1], "two builds, one traceback");
	cr_expect_eq(t->trace_traceback[2], t->trace_traceback[3]);
	dictionary_release(&dictionary);
}

Test(fleet_dictionary, has_one_trace_for_each_origin)
{
	static const struct fleet_frame frame[] = {
		{ "a.c", 1, "a", "/bin/app" }, { "m.c", 2, "main", "/bin/app" },
	};
	static const struct fleet_trace trace[] = {
		{ 1, frame, 2, 2, .domain = 16 }, { 1, frame + 1, 1, 1 }, { 1 }, { 1, frame, 2, 2 },
	};
	static const uint32_t domain[] = { 16, 0, 0, 0 };
	static const char *const text[] = {
		"a.c:1 a /bin/app+0, m.c:2 main /bin/app+0", "m.c:2 main /bin/app+0", "",
		"a.c:1 a /bin/app+0, m.c:2 main /bin/app+0",
	};
	struct dictionary dictionary;
	const struct snapshot_tables *t;

	fleet_write(&(struct fleet_file){ "d/1.snap", .domain_16 = "pool", TRACES(trace) });
	fleet_index_d();
	dictionary = read_dictionary(NULL);
	t = snapshot__tables(dictionary.snapshot);
	cr_assert_eq(t->trace_nr, ARRAY_SIZE(trace));
	for (size_t i = 0; i < ARRAY_SIZE(trace); i++) {
		cr_expect_str_eq(key_text(&dictionary, i), text[i]);
		cr_expect_eq(t->trace_domain[i], domain[i]);
	}
	cr_expect_str_eq(snapshot__domain_name(dictionary.snapshot, 16), "pool");
	dictionary_release(&dictionary);
}

/* A snapshot without names, one with functions, and one with lines and inlined calls; then another build. */
Test(fleet_dictionary, names_places_that_another_snapshot_has_names_for)
{
	static const struct fleet_frame bare[] = {
		{ "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x10 }, { "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x20 },
	};
	static const struct fleet_frame functions[] = {
		{ "/bin/app", 0, "leaf", "/bin/app", BUILD_A, 0x10 }, { "/bin/app", 0, "main", "/bin/app", BUILD_A, 0x20 },
	};
	static const struct fleet_frame lines[] = {
		{ "a.h", 1, "helper", "/bin/app", BUILD_A, 0x10, .flags = SNAP_FRAME_INLINE },
		{ "a.c", 2, "leaf", "/bin/app", BUILD_A, 0x10 }, { "a.c", 9, "main", "/bin/app", BUILD_A, 0x20 },
	};
	static const struct fleet_frame other[] = {
		{ "/bin/app", 0, NULL, "/bin/app", BUILD_B, 0x10 }, { "/bin/app", 0, "main", "/bin/app", BUILD_A, 0x20 },
	};
	static const struct fleet_trace trace[] = {
		{ 1, bare, 2, 1 }, { 2, functions, 2, 1 }, { 3, lines, 3, 1 }, { 4, other, 2, 1 },
	};
	static const char *const named = "a.h:1 helper /bin/app+0, a.c:2 leaf /bin/app+0, a.c:9 main /bin/app+0";
	struct dictionary dictionary;
	const struct snapshot_tables *t;

	fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(trace) });
	fleet_index_d();
	dictionary = read_dictionary(NULL);
	t = snapshot__tables(dictionary.snapshot);
	for (size_t i = 0; i < 3; i++) {
		cr_expect_str_eq(name_text(&dictionary, i), named, "%zu: %s", i, name_text(&dictionary, i));
		cr_expect_eq(t->trace_traceback[i], t->trace_traceback[0], "one traceback");
	}
	cr_expect_str_eq(name_text(&dictionary, 3), "/bin/app:0  /bin/app+10, a.c:9 main /bin/app+0");
	dictionary_release(&dictionary);
}

/* One host has functions, another one sends lines for the same build-id, a third has no names. */
Test(fleet_dictionary, lends_no_names_that_another_snapshot_contradicts)
{
	static const struct fleet_frame honest[] = {
		{ "/bin/app", 0, "honest_leak", "/bin/app", BUILD_A, 0x10 }, { "/bin/app", 0, "main", "/bin/app", BUILD_A, 0x20 },
	};
	static const struct fleet_frame evil[] = {
		{ "/src/evil.c", 7, "forged_name", "/bin/app", BUILD_A, 0x10 }, { "a.c", 9, "main", "/bin/app", BUILD_A, 0x20 },
		{ "a.c", 30, "f", "/bin/app", BUILD_A, 0x30 },
	};
	static const struct fleet_frame bare[] = {
		{ "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x10 }, { "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x20 },
		{ "/bin/app", 0, NULL, "/bin/app", BUILD_A, 0x30 },
	};
	static const struct fleet_frame other_line[] = { { "a.c", 31, "f", "/bin/app", BUILD_A, 0x30 } };
	static const struct fleet_trace trace[2][4] = {
		{ { 1, honest, 2, 2 }, { 2, evil, 3, 3 }, { 3, bare, 3, 3 }, { 4, other_line, 1, 1 } },
		{ { 1, other_line, 1, 1 }, { 2, bare, 3, 3 }, { 3, evil, 3, 3 }, { 4, honest, 2, 2 } },
	};

	for (int i = 0; i < 2; i++) {
		struct dictionary dictionary;

		remove("catalogue.db");
		fleet_write(&(struct fleet_file){ "d/1.snap", TRACES(trace[i]) });
		fleet_index_d();
		dictionary = read_dictionary(NULL);
		cr_expect_str_eq(name_text(&dictionary, i ? 3 : 0), "/bin/app:0 honest_leak /bin/app+0, a.c:9 main /bin/app+0");
		cr_expect_str_eq(name_text(&dictionary, i ? 1 : 2),
				 "/bin/app:0  /bin/app+10, a.c:9 main /bin/app+0, /bin/app:0  /bin/app+30");
		cr_expect_str_eq(name_text(&dictionary, i ? 0 : 3), "a.c:31 f /bin/app+0");
		cr_expect_eq(dictionary.refused_nr, 2);
		dictionary_release(&dictionary);
	}
}

Test(fleet_dictionary, removes_the_first_prefix_that_matches)
{
	static const char *const prefix[] = { "/build/", "/build/app-2/", "/opt/app" };
	static const struct dictionary_options options = { .strip_prefix = prefix, .strip_prefix_nr = 3 };
	static const struct fleet_frame frame[] = {
		{ "/build/app-2/a.c", 1, "f", "/opt/app/bin/x", BUILD_A, 1 },
		{ "/opt/app/bin/x", 0, NULL, "/opt/app/bin/x", BUILD_A, 2 },
		{ "/usr/build/a.c", 1, "f", "/usr/opt/app", BUILD_A, 3 },
	};
	struct dictionary dictionary;

	index_frames(frame, ARRAY_SIZE(frame));
	dictionary = read_dictionary(&options);
	cr_expect_str_eq(key_text(&dictionary, 0), "app-2/a.c:1 f /bin/x+0");
	cr_expect_str_eq(key_text(&dictionary, 1), "/bin/x@0123456789ab:0  /bin/x@0123456789ab+2");
	cr_expect_str_eq(key_text(&dictionary, 2), "/usr/build/a.c:1 f /usr/opt/app+0");
	dictionary_release(&dictionary);
}

Test(fleet_dictionary, expresses_a_line_as_a_distance_from_the_function)
{
	static const struct dictionary_options options = { .line_drift = true };
	static const struct fleet_frame frame[] = {
		{ "a.c", 13, "f", "/bin/app" }, { "a.c", 10, "f", "/bin/app" },
		{ "a.c", 9, "f", "/bin/app" },  { "a.c", 12, NULL, "/bin/app" },
		{ "b.c", 5, "g", "/bin/app" },
	};
	static const char *const text[] = {
		"a.c:f:3 f +0", "a.c:f:0 f +0", "a.c:9 f /bin/app+0", "a.c:12  /bin/app+0",
		"b.c:5 g /bin/app+0",
	};
	struct dictionary dictionary;

	index_frames(frame, ARRAY_SIZE(frame));
	fleet_sql("UPDATE frame SET first_line = 10 WHERE filename = 'a.c'");
	dictionary = read_dictionary(&options);
	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		cr_expect_str_eq(key_text(&dictionary, i), text[i]);
	dictionary_release(&dictionary);
	dictionary = read_dictionary(NULL);
	cr_expect_str_eq(key_text(&dictionary, 0), "a.c:13 f /bin/app+0");
	dictionary_release(&dictionary);
}

/* ---- its use in questions: filters see a frame's own names, keys are the same across builds ------------- */

/* Two builds: a function is a line further down in the second. And a library, built twice, without names. */
static const struct fleet_frame builds[] = {
	{ "/src/a.c", 10, "f", "/app-1/bin", BUILD_A, 0x110 }, { "/src/a.c", 11, "f", "/app-2/bin", BUILD_B, 0x110 },
	{ "/src/a.c", 12, "f", "/app-1/bin", BUILD_A, 0x120 }, { "/src/a.c", 13, "f", "/app-2/bin", BUILD_B, 0x120 },
	{ "/src/a.c", 12, "f", "/app-2/bin", BUILD_B, 0x130 }, { "/lib/x", 0, NULL, "/lib/x", BUILD_A, 0x10 },
	{ "/lib/x", 0, NULL, "/lib/x", BUILD_B, 0x10 },	      { "/lib/x", 0, "g", "/lib/x", BUILD_A, 0x40 },
};

static void index_builds(void)
{
	index_frames(builds, ARRAY_SIZE(builds));
	fleet_sql("UPDATE frame SET first_line = CASE object WHEN '/app-1/bin' THEN 10 ELSE 11 END WHERE lineno > 0");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "KEY=COUNT" of each group, ascending; a frame's key is FILE:LINE OBJECT+OFFSET. */
static const char *rows_text(const struct statistics *statistics)
{
	static char all[1024];
	char *row[16], *end = all;

	cr_assert_leq(statistics->statistic_nr, ARRAY_SIZE(row));
	for (size_t i = 0; i < statistics->statistic_nr; i++) {
		const struct statistic *s = &statistics->statistic[i];
		const struct frame_view *f = s->frame;

		if (s->key)
			asprintf(&row[i], "%s=%ld", s->key, s->cost.count);
		else
			asprintf(&row[i], "%s:%u %s+%lx=%ld", f->filename, f->lineno, f->object ?: "", f->offset,
				 s->cost.count);
	}
	qsort(row, statistics->statistic_nr, sizeof(*row), by_text);
	all[0] = '\0';
	for (size_t i = 0; i < statistics->statistic_nr; i++) {
		end += sprintf(end, "%s%s", i ? ", " : "", row[i]);
		free(row[i]);
	}
	return all;
}

/* The groups of the same question: as many keys, and as many origins, which have one frame each. */
static void check_groups(const struct dictionary *dictionary, const struct engine_options *engine,
			 const struct statistics *statistics)
{
	struct reason why = { "" };
	struct groups *groups;
	int64_t nr;

	cr_assert_eq(groups_make(dictionary->snapshot, engine, &groups, &why), 0, "%s", why.text);
	nr = groups->first[ARRAY_SIZE(builds)];
	cr_expect_eq(groups->key_nr, statistics->statistic_nr);
	cr_expect_eq(nr, statistics->total.count);
	groups_free(groups);
}

static void check_question(enum key_type key_type, bool line_drift, const char *filter_text, const char *want)
{
	const struct dictionary_options names = { .key_type = key_type, .line_drift = line_drift };
	struct dictionary dictionary = read_dictionary(&names);
	struct cost cost[ARRAY_SIZE(builds)];
	const struct tally tally = { .cost = cost };
	struct engine_options engine = { .key_type = key_type, .key_frame = dictionary.key_frame };
	struct statistics *statistics;
	struct reason why = { "" };
	struct filter filter = {};

	for (size_t i = 0; i < ARRAY_SIZE(cost); i++)
		cost[i] = (struct cost){ 1, 1 };
	if (filter_text) {
		cr_assert_eq(filter_parse(filter_text, true, &filter, &why), 0, "%s", why.text);
		engine.select = (struct selection){ .filter = &filter, .filter_nr = 1 };
	}
	cr_assert_eq(tally_statistics(dictionary.snapshot, &tally, &engine, &statistics, &why), 0, "%s", why.text);
	cr_expect_str_eq(rows_text(statistics), want);
	check_groups(&dictionary, &engine, statistics);
	statistics_free(statistics);
	filter_release(&filter);
	dictionary_release(&dictionary);
}

Test(fleet_dictionary, filters_by_path_and_not_by_build)
{
	static const char *const both = "/lib/x:0 /lib/x+0=1, /lib/x@0123456789ab:0 /lib/x@0123456789ab+10=1, "
					"/lib/x@fedcba987654:0 /lib/x@fedcba987654+10=1";

	index_builds();
	check_question(KEY_LINENO, false, "/lib/x", both);
	check_question(KEY_LINENO, false, "object=/lib/x", both);
	check_question(KEY_TRACEBACK, true, "object=/lib/x", both);
	check_question(KEY_LINENO, false, "object=*@*", "");
	check_question(KEY_LINENO, false, "*@*", "");
}

Test(fleet_dictionary, groups_files_and_objects_by_path)
{
	index_builds();
	for (int line_drift = 0; line_drift < 2; line_drift++) {
		check_question(KEY_FILENAME, line_drift, NULL, "/lib/x:0 +0=3, /src/a.c:0 +0=5");
		check_question(KEY_OBJECT, line_drift, NULL, "/app-1/bin=2, /app-2/bin=3, /lib/x=3");
		check_question(KEY_FUNCTION, line_drift, NULL,
			       "<unknown> in /lib/x@0123456789ab=1, <unknown> in /lib/x@fedcba987654=1, f=5, g=1");
	}
}

Test(fleet_dictionary, groups_lines_by_distance)
{
	static const char *const rows = "/src/a.c:f:0 +0=2, /src/a.c:f:1 +0=1, /src/a.c:f:2 +0=2";

	index_builds();
	check_question(KEY_LINENO, true, "function=f", rows);
	check_question(KEY_TRACEBACK, true, "function=f", rows);
	check_question(KEY_LINENO, false, "function=f",
		       "/src/a.c:10 /app-1/bin+0=1, /src/a.c:11 /app-2/bin+0=1, /src/a.c:12 +0=2, "
		       "/src/a.c:13 /app-2/bin+0=1");
}

/* Line 12 is the third of its function in one build, the second in the other. */
Test(fleet_dictionary, filters_by_line_and_not_by_distance)
{
	index_builds();
	check_question(KEY_LINENO, true, "/src/a.c:12", "/src/a.c:f:1 +0=1, /src/a.c:f:2 +0=1");
	check_question(KEY_TRACEBACK, true, "/src/a.c", "/src/a.c:f:0 +0=2, /src/a.c:f:1 +0=1, /src/a.c:f:2 +0=2");
	check_question(KEY_LINENO, true, "object=/app-1/*", "/src/a.c:f:0 +0=1, /src/a.c:f:2 +0=1");
	check_question(KEY_LINENO, true, "*:f", "");
}

/* A line's function may begin elsewhere in another build of the same file. */
Test(fleet_dictionary, keeps_two_distances_of_one_line_in_two_builds)
{
	static const struct dictionary_options drift = { .line_drift = true };
	static const struct fleet_frame frame[] = {
		{ "a.c", 20, "f", "/bin/app", BUILD_A, 1 }, { "a.c", 20, "f", "/bin/app", BUILD_B, 2 },
	};
	struct dictionary dictionary;

	index_frames(frame, ARRAY_SIZE(frame));
	fleet_sql("UPDATE frame SET first_line = CASE build_id WHEN '" BUILD_A "' THEN 10 ELSE 12 END");
	dictionary = read_dictionary(&drift);
	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		cr_expect_str_eq(name_text(&dictionary, i), "a.c:20 f /bin/app+0");
	cr_expect_str_eq(key_text(&dictionary, 0), "a.c:f:10 f +0");
	cr_expect_str_eq(key_text(&dictionary, 1), "a.c:f:8 f +0");
	dictionary_release(&dictionary);
}

Test(fleet_dictionary, detects_a_damaged_catalogue)
{
	static const char *const harm[] = {
		"UPDATE origin SET number = 7 WHERE number = 1", "UPDATE origin SET traceback_id = 5",
		"UPDATE origin SET domain = -1", "UPDATE traceback SET frames = x'010203'",
		"UPDATE traceback SET frames = x'0102030405060708'", "DELETE FROM frame",
		"UPDATE frame SET lineno = 4294967296", "UPDATE frame SET flags = 4096",
		"UPDATE frame SET build_id = 'no hex', function = '', lineno = 0",
		"INSERT INTO domain VALUES (-1, 'x')",
	};
	static const struct fleet_frame frame[] = {
		{ "a.c", 13, "f", "/bin/app", BUILD_A, 1 }, { "a.c", 10, "f", "/bin/app", BUILD_A, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(harm); i++) {
		struct dictionary dictionary = {};
		struct catalogue *catalogue;
		struct reason why = { "" };

		remove("catalogue.db");
		index_frames(frame, ARRAY_SIZE(frame));
		fleet_sql(harm[i]);
		catalogue = fleet_open();
		cr_expect_eq(dictionary_read_catalogue(catalogue, NULL, &dictionary, &why), -EBADMSG, "%s", harm[i]);
		cr_expect(strstr(why.text, "catalogue.db: the catalogue is damaged: "), "%s", why.text);
		cr_expect_null(dictionary.snapshot, "%s", harm[i]);
		cr_expect_null(dictionary.key_frame, "%s", harm[i]);
		catalogue__close(catalogue);
	}
}
