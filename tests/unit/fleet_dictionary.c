// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "fleet_files.h"
#include "snapshot.h"

TestSuite(fleet_dictionary, .init = fleet_enter, .fini = fleet_leave, .timeout = 60);

#define BUILD_A "0123456789abcdef00"
#define BUILD_B "fedcba987654321000"

static struct snapshot *read_dictionary(const struct dictionary_options *options)
{
	struct catalogue *catalogue = fleet_open();
	struct snapshot *dictionary = NULL;
	struct reason why = { "" };

	cr_assert_eq(dictionary_read(catalogue, options, &dictionary, &why), 0, "%s", why.text);
	catalogue__close(catalogue);
	return dictionary;
}

/* "FILE:LINE FUNCTION OBJECT+OFFSET" of each frame of an origin, most recent call first. */
static const char *origin_text(const struct snapshot *dictionary, uint64_t origin)
{
	static char text[1024];
	const struct snapshot_tables *t = snapshot__tables(dictionary);
	const struct snap_traceback *traceback = &t->traceback[t->trace_traceback[origin]];
	size_t len = 0;

	cr_assert_lt(origin, t->trace_nr);
	text[0] = '\0';
	for (uint32_t i = 0; i < traceback->nframe; i++) {
		const struct snap_frame *frame = &t->frame[t->traceback_frame[traceback->first + i]];

		len += snprintf(text + len, sizeof(text) - len, "%s%s:%u %s %s+%lx", i ? ", " : "",
				snapshot__string(dictionary, frame->filename), frame->lineno,
				snapshot__string(dictionary, frame->function),
				snapshot__string(dictionary, t->object[frame->object].path), frame->offset);
	}
	return text;
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

Test(fleet_dictionary, keys_hold_across_builds)
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
	struct snapshot *dictionary;
	const struct snapshot_tables *t;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		frame[i] = cases[i].frame;
	index_frames(frame, ARRAY_SIZE(frame));
	dictionary = read_dictionary(NULL);
	t = snapshot__tables(dictionary);
	cr_assert_eq(t->trace_nr, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(origin_text(dictionary, i), cases[i].text);
	cr_expect_eq(t->trace_traceback[0], t->trace_traceback[1], "two builds, one traceback");
	cr_expect_eq(t->trace_traceback[2], t->trace_traceback[3]);
	snapshot__close(dictionary);
}

Test(fleet_dictionary, trace_n_is_origin_n)
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
	struct snapshot *dictionary;
	const struct snapshot_tables *t;

	fleet_write(&(struct fleet_file){ "d/1.snap", .domain_16 = "pool", TRACES(trace) });
	fleet_index_d();
	dictionary = read_dictionary(NULL);
	t = snapshot__tables(dictionary);
	cr_assert_eq(t->trace_nr, ARRAY_SIZE(trace));
	for (size_t i = 0; i < ARRAY_SIZE(trace); i++) {
		cr_expect_str_eq(origin_text(dictionary, i), text[i]);
		cr_expect_eq(t->trace_domain[i], domain[i]);
	}
	cr_expect_str_eq(snapshot__domain_name(dictionary, 16), "pool");
	snapshot__close(dictionary);
}

Test(fleet_dictionary, the_first_prefix_that_fits_is_taken_away)
{
	static const char *const prefix[] = { "/build/", "/build/app-2/", "/opt/app" };
	static const struct dictionary_options options = { .strip_prefix = prefix, .strip_prefix_nr = 3 };
	static const struct fleet_frame frame[] = {
		{ "/build/app-2/a.c", 1, "f", "/opt/app/bin/x", BUILD_A, 1 },
		{ "/opt/app/bin/x", 0, NULL, "/opt/app/bin/x", BUILD_A, 2 },
		{ "/usr/build/a.c", 1, "f", "/usr/opt/app", BUILD_A, 3 },
	};
	struct snapshot *dictionary;

	index_frames(frame, ARRAY_SIZE(frame));
	dictionary = read_dictionary(&options);
	cr_expect_str_eq(origin_text(dictionary, 0), "app-2/a.c:1 f /bin/x+0");
	cr_expect_str_eq(origin_text(dictionary, 1), "/bin/x@0123456789ab:0  /bin/x@0123456789ab+2");
	cr_expect_str_eq(origin_text(dictionary, 2), "/usr/build/a.c:1 f /usr/opt/app+0");
	snapshot__close(dictionary);
}

Test(fleet_dictionary, a_line_may_be_a_distance)
{
	static const struct dictionary_options options = { .line_drift = true };
	static const struct fleet_frame frame[] = {
		{ "a.c", 13, "f", "/bin/app" }, { "a.c", 10, "f", "/bin/app" },
		{ "a.c", 9, "f", "/bin/app" },  { "a.c", 12, NULL, "/bin/app" },
		{ "b.c", 5, "g", "/bin/app" },
	};
	static const char *const text[] = {
		"a.c:f:3 f /bin/app+0", "a.c:f:0 f /bin/app+0", "a.c:9 f /bin/app+0", "a.c:12  /bin/app+0",
		"b.c:5 g /bin/app+0",
	};
	struct snapshot *dictionary;

	index_frames(frame, ARRAY_SIZE(frame));
	fleet_sql("UPDATE frame SET first_line = 10 WHERE filename = 'a.c'");
	dictionary = read_dictionary(&options);
	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		cr_expect_str_eq(origin_text(dictionary, i), text[i]);
	snapshot__close(dictionary);
	dictionary = read_dictionary(NULL);
	cr_expect_str_eq(origin_text(dictionary, 0), "a.c:13 f /bin/app+0");
	snapshot__close(dictionary);
}

Test(fleet_dictionary, a_damaged_catalogue_is_found_out)
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
		struct snapshot *dictionary = NULL;
		struct catalogue *catalogue;
		struct reason why = { "" };

		remove("catalogue.db");
		index_frames(frame, ARRAY_SIZE(frame));
		fleet_sql(harm[i]);
		catalogue = fleet_open();
		cr_expect_eq(dictionary_read(catalogue, NULL, &dictionary, &why), -EBADMSG, "%s", harm[i]);
		cr_expect(strstr(why.text, "catalogue.db: the catalogue is damaged: "), "%s", why.text);
		cr_expect_null(dictionary, "%s", harm[i]);
		catalogue__close(catalogue);
	}
}
