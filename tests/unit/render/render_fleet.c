// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Answers about a fleet, with names that must not be printed as they are. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/array.h"
#include "engine/leak_runtime.h"
#include "render/fleet.h"

static const struct frame_view frame = {
	.filename = "a\n.c", .lineno = 3, .function = "new\033[2J", .object = "/bin/shop", .offset = 0x200,
};
static struct statistic keys[] = { { .frame = &frame, .nframe = 1 }, { .key = "web\r\t" } };
static const struct groups groups = { .key = keys, .key_nr = ARRAY_SIZE(keys) };
static const char *const hosts[] = { "größe", "h\033]0;x\007" };

static struct statistics no_rows = { .key_type = KEY_LINENO };
static const struct report_cohort cohort = { .snapshots = 200, .processes = 100, .hosts = 100 };
static const struct report report = { .statistics = &no_rows, .cohort = &cohort, .cohort_nr = 1 };
static struct fleet_answer answer = { .report = &report, .groups = &groups, .host = hosts };

static void expect(int (*put)(FILE *out, const struct fleet_answer *answer, bool is_json), bool is_json,
		   const char *want)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	cr_assert_eq(put(out, &answer, is_json), 0);
	cr_assert_eq(fclose(out), 0);
	cr_expect_str_eq(text, want);
	free(text);
}

/* Columns stay aligned, whatever the name of a host is. */
Test(render_fleet, prints_aligned_hosts)
{
	struct host_row row[] = {
		{ .median = 1 << 20, .p95 = 2 << 20, .max = 3ll << 40, .mad = 7, .sum = 9, .max_host = 1, .hosts = 99,
		  .outliers = 5, .score = 2.5 },
		{ .median = 4096, .p95 = 4096, .max = 90000, .max_host = 0, .hosts = 100, .outliers = 6 },
		{ .max = 1, .hosts = 1 },
	};
	struct host_rows rows = { row, ARRAY_SIZE(row) };

	answer.hosts = &rows;
	expect(fleet_put_hosts, false,
	       "200 snapshots of 100 processes on 100 hosts\n"
	       "! 1 of 3 groups, of which a few hosts have far more than the others\n"
	       "      median        p95       most on host          outliers  hosts\n"
	       "!   1024 KiB   2048 KiB   3072 GiB on h\\x1b]0;x\\x07        5     99  a\\x0a.c:3 in new\\x1b[2J\n"
	       "      4096 B     4096 B   87.9 KiB on größe                6    100  a\\x0a.c:3 in new\\x1b[2J\n"
	       "         0 B        0 B        1 B on größe                       1  a\\x0a.c:3 in new\\x1b[2J\n");
	rows.row_nr = 1;
	expect(fleet_put_hosts, true,
	       "{\"schema\":\"allocsnap.fleet.hosts/2\",\"key_type\":\"lineno\",\"cumulative\":false,"
	       "\"selection\":{\"snapshots\":200,\"processes\":100,\"hosts\":100},\"warnings\":[],\"losses\":{},"
	       "\"hosts\":[{\"traceback\":[{\"filename\":\"a\\\\x0a.c\",\"lineno\":3,"
	       "\"function\":\"new\\\\x1b[2J\",\"object\":\"/bin/shop\",\"offset\":512}],"
	       "\"median\":1048576,\"p95\":2097152,\"max\":3298534883328,\"mad\":7,\"sum\":9,"
	       "\"max_host\":\"h\\\\x1b]0;x\\\\x07\",\"hosts\":99,\"outliers\":5,\"score\":2.5}]}\n");
}

Test(render_fleet, prints_leaks)
{
	static const struct fleet_snapshot snapshot = { .host = "web\r2", .comm = "shop\td", .pid = 4711 };
	struct fleet_leak row[] = {
		{ .group = 0, .kind = LEAK_SURE, .hosts = 500, .processes = 2500, .kind_hosts = 412, .kind_processes = 2060,
		  .bytes_per_s = 1024, .least_bytes_per_s = 512,
		  .most = { .snapshot = &snapshot, .window.span_ns = 60000000000,
			    .verdict = { .kind = LEAK_SURE, .bytes_per_s = 102.4, .survivors = 50, .periods = 8, .span = 8,
					 .horizon_ns = 5000000000, .since_ns = 35000000000, .allocated = 50, .live = 50 } } },
		{ .group = 0, .kind = LEAK_FREED, .hosts = 1, .processes = 1, .kind_hosts = 1, .kind_processes = 1,
		  .most = { .snapshot = &snapshot, .verdict = { .kind = LEAK_FREED, .allocated = 9, .live = 2 } } },
	};
	struct fleet_leak_bundle bundle[] = { { 0, 1, 1024, 512 }, { 1, 1, .kind = LEAK_FREED } };
	struct fleet_leaks leaks = {
		.row = row, .row_nr = ARRAY_SIZE(row), .bundle = bundle, .bundle_nr = ARRAY_SIZE(bundle),
		.process_nr = 2500, .unjudged_nr = { 2499, 1 }, .unjudged = { [FLEET_UNJUDGED_GAPS] = &snapshot },
		.kind_nr = { [LEAK_SURE] = 1, [LEAK_FREED] = 1 },
	};

	answer.leaks = &leaks;
	expect(fleet_put_leaks, false,
	       "cannot be judged: 1 of 2500 processes: 1 with gaps in the recording (shop\\x09d.4711 on web\\x0d2)\n"
	       "200 snapshots of 100 processes on 100 hosts\n"
	       "1 line leaks, 0 may\n"
	       "LEAKS     60.0 KiB/min (at least 30.0 KiB/min)  on 412 of 500 hosts  new\\x1b[2J at a\\x0a.c:3\n"
	       "    in 2060 of 2500 processes, most in shop\\x09d.4711 on web\\x0d2, 6144 B/min, since 0:35\n"
	       "        50 of 50 blocks older than 5.0 s are live, born in each eighth of the time; nothing from here was\n"
	       "        freed so far: a leak, or something that takes more than 60 s to fill\n"
	       "not shown: 1 line that does not leak; --all shows them with the reason\n");
	answer.shows_all = true;
	leaks.bundle = bundle + 1;
	leaks.bundle_nr = 1;
	leaks.kind_nr[LEAK_SURE] = 0;
	leaks.unjudged_nr[FLEET_JUDGED] = 2500;
	expect(fleet_put_leaks, false,
	       "200 snapshots of 100 processes on 100 hosts\n"
	       "0 lines leak, 0 may\n"
	       "freed     on 1 of 1 host  new\\x1b[2J at a\\x0a.c:3\n"
	       "    in 1 of 1 process: shop\\x09d.4711 on web\\x0d2\n"
	       "        blocks of any age are freed: 2 of 9 are live\n");
}

/* Lines that leak together, as `leaks` has them: a sum, the common caller, each line with its callers, one reason. */
Test(render_fleet, prints_lines_that_leak_together)
{
	static const struct fleet_snapshot snapshot = { .host = "web-2", .comm = "shopd", .pid = 4711 };
	static struct frame_view calls[] = {
		{ .filename = "main.c", .lineno = 70, .function = "main" },
		{ .filename = "order.c", .lineno = 7, .function = "parse\033" },
		{ .filename = "order.c", .lineno = 20, .function = "order_new" },
	};
	static struct frame_view other_calls[] = {
		{ .filename = "main.c", .lineno = 70, .function = "main" },
		{ .filename = "order.c", .lineno = 7, .function = "parse\033" },
		{ .filename = "order.c", .lineno = 30, .function = "item_new" },
	};
	struct leak_place_caller caller = { .frame = calls, .nframe = 3 }, other = { .frame = other_calls, .nframe = 3 };
	const struct leak_verdict verdict = { .kind = LEAK_SURE, .bytes_per_s = 100, .survivors = 50, .periods = 8, .span = 8,
					      .horizon_ns = 5000000000, .allocated = 50, .live = 50 };
	struct fleet_leak row[] = {
		{ .group = 0, .kind = LEAK_SURE, .hosts = 4, .processes = 4, .kind_hosts = 3, .kind_processes = 3,
		  .bytes_per_s = 1024, .hints = 1u << LEAK_RUNTIME_JAVA,
		  .most = { .snapshot = &snapshot, .window.span_ns = 60000000000, .verdict = verdict, .common = 1,
			    .place = { &caller, 1, 1, NULL } } },
		{ .group = 0, .kind = LEAK_SURE, .hosts = 4, .processes = 4, .kind_hosts = 3, .kind_processes = 3,
		  .bytes_per_s = 512,
		  .most = { .snapshot = &snapshot, .window.span_ns = 60000000000, .verdict = verdict, .common = 1,
			    .place = { &other, 1, 1, NULL } } },
	};
	struct fleet_leak_bundle bundle[] = { { 0, 2, 1536, 1024 } };
	struct fleet_leaks leaks = {
		.row = row, .row_nr = 2, .bundle = bundle, .bundle_nr = 1, .process_nr = 4, .unjudged_nr = { 4 },
		.kind_nr = { [LEAK_SURE] = 2 },
	};

	answer.leaks = &leaks;
	expect(fleet_put_leaks, false,
	       "200 snapshots of 100 processes on 100 hosts\n"
	       "2 lines leak, 0 may\n"
	       "LEAKS     90.0 KiB/min (at least 60.0 KiB/min)  on 3 of 4 hosts  "
	       "lines that leak together, below parse\\x1b\n"
	       "    in 3 of 4 processes, most in shopd.4711 on web-2, all the time\n"
	       "    60.0 KiB/min  new\\x1b[2J at a\\x0a.c:3 ← parse\\x1b at order.c:7 ← main at main.c:70\n"
	       "    30.0 KiB/min  new\\x1b[2J at a\\x0a.c:3 ← parse\\x1b at order.c:7 ← main at main.c:70\n"
	       "        50 of 50 blocks older than 5.0 s are live, born in each eighth of the time; nothing from here was\n"
	       "        freed so far: a leak, or something that takes more than 60 s to fill\n"
	       "hint: Java code calls what leaks: 'leaks PID --domain java' judges its objects, with Java's lines; 'census --java live PID' counts them by class\n");
}
