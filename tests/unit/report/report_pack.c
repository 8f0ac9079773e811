// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/array.h"
#include "cpu_limit.h"
#include "engine_data.h"
#include "full.h"
#include "report/build_report.h"
#include "report/pack_report.h"
#include "report/report_layout.h"
#include "report/report_series.h"
#include "snapshot.h"

/* Events at the numbers in `event`, ended by 0; the path of an item is its number. */
static struct series made_series(size_t nr, const size_t *event)
{
	struct series series = { .given_nr = nr };

	for (size_t i = 0; i < nr; i++) {
		struct series_item item = { .process = strdup("p"), .moment.monotonic_ns = i + 1, .is_timed = true };

		cr_assert(asprintf(&item.path, "%zu", i) > 0);
		for (const size_t *at = event; *at; at++)
			item.is_timed &= *at != i;
		cr_assert_eq(array_push(&series, item, item), 0);
	}
	return series;
}

static bool has_item(const struct series *series, size_t number)
{
	for (size_t i = 0; i < series->item_nr; i++)
		if (strtoul(series->item[i].path, NULL, 10) == number)
			return true;
	return false;
}

static void expect_ascending(const struct series *series)
{
	for (size_t i = 1; i < series->item_nr; i++)
		cr_expect_lt(series->item[i - 1].moment.monotonic_ns, series->item[i].moment.monotonic_ns);
}

Test(report_series, stays_if_it_is_short)
{
	struct series series = made_series(120, (size_t[]){ 0 });

	cr_assert_eq(series_thin(&series, 120), 0);
	cr_expect_eq(series.item_nr, 120);
	report_series_release(&series);
}

Test(report_series, keeps_first_last_and_events)
{
	struct series series = made_series(1000, (size_t[]){ 3, 4, 777, 0 });
	size_t widest = 0;

	cr_assert_eq(series_thin(&series, 120), 0);
	cr_expect_eq(series.item_nr, 120);
	cr_expect_eq(series.given_nr, 1000);
	expect_ascending(&series);
	for (size_t i = 0; i < 5; i++)
		cr_expect(has_item(&series, (size_t[]){ 0, 3, 4, 777, 999 }[i]));
	for (size_t i = 1; i < series.item_nr; i++) {
		size_t step = series.item[i].moment.monotonic_ns - series.item[i - 1].moment.monotonic_ns;

		widest = step > widest ? step : widest;
	}
	cr_expect_lt(widest, 12, "995 snapshots on 115 places: about every ninth");
	report_series_release(&series);
}

Test(report_series, thins_out_events_too)
{
	size_t event[500] = {};
	struct series series;

	for (size_t i = 0; i < 499; i++)
		event[i] = i + 1;
	series = made_series(500, event);
	cr_assert_eq(series_thin(&series, 10), 0);
	cr_expect_eq(series.item_nr, 10);
	cr_expect(has_item(&series, 0) && has_item(&series, 499));
	expect_ascending(&series);
	report_series_release(&series);
}

Test(report_series, knows_processes)
{
	struct series series = made_series(3, (size_t[]){ 0 });

	cr_expect(series_is_one_process(&series));
	strcpy(series.item[2].process, "q");
	cr_expect(!series_is_one_process(&series));
	report_series_release(&series);
}

Test(report_series, is_sorted_by_time)
{
	struct series series = made_series(3, (size_t[]){ 0 });

	series.item[0].moment.monotonic_ns = 9;
	series_sort(&series);
	cr_expect_str_eq(series.item[2].path, "0");
	expect_ascending(&series);
	report_series_release(&series);
}

#define PLAIN_MAX (32 << 20)

/* The JSON behind the bytes. */
static json_t *unpacked(const uint8_t *bytes, size_t nr)
{
	char *plain = malloc(PLAIN_MAX);
	z_stream stream = { .next_in = (uint8_t *)bytes, .avail_in = nr, .next_out = (uint8_t *)plain,
			    .avail_out = PLAIN_MAX };
	json_error_t error;
	json_t *json;

	cr_assert_eq(inflateInit2(&stream, 15 + 16), Z_OK);
	cr_assert_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
	json = json_loadb(plain, PLAIN_MAX - stream.avail_out, JSON_REJECT_DUPLICATES, &error);
	cr_assert(json, "%s at %d", error.text, error.position);
	inflateEnd(&stream);
	free(plain);
	return json;
}

static json_int_t sum_of(const json_t *array)
{
	json_int_t sum = 0;
	json_t *value;
	size_t i;

	json_array_foreach(array, i, value)
		sum += json_integer_value(value);
	return sum;
}

static const json_t *member(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	cr_assert(value, "no \"%s\"", name);
	return value;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

Test(report_json, has_numbers_of_any_size)
{
	struct packed_json *json = packed_json__new();
	const uint8_t *bytes;
	json_t *read;
	size_t nr;

	packed_json__text(json, "{");
	packed_json__begin(json, "n");
	packed_json__uint(json, 0);
	packed_json__uint(json, INT64_MAX);
	packed_json__int(json, INT64_MIN);
	packed_json__real(json, 0.1);
	packed_json__real(json, INFINITY);
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "none");
	packed_json__end(json);
	packed_json__text(json, "}");
	cr_assert_eq(packed_json__finish(json, &bytes, &nr), 0);
	read = unpacked(bytes, nr);
	cr_expect_eq(json_integer_value(json_array_get(member(read, "n"), 0)), 0);
	cr_expect_eq(json_integer_value(json_array_get(member(read, "n"), 1)), INT64_MAX);
	cr_expect_eq(json_integer_value(json_array_get(member(read, "n"), 2)), INT64_MIN);
	cr_expect_eq(json_real_value(json_array_get(member(read, "n"), 3)), 0.1);
	cr_expect(isfinite(json_real_value(json_array_get(member(read, "n"), 4))));
	cr_expect_eq(json_array_size(member(read, "none")), 0);
	json_decref(read);
	packed_json__free(json);
}

/* ---- merging --------------------------------------------------------------------------------------------------- */

#define CALLERS 20000
#define SITES 10

static uint32_t added_frame(struct report_data *data, uint32_t line)
{
	struct report_frame frame = { .line = line };
	uint32_t id;

	cr_assert_eq(report_string_add(data, "a.c", &frame.file), 0);
	cr_assert_eq(report_frame_add(data, &frame, &id), 0);
	return id;
}

/* SITES lines that allocate, each called by many others: blocks of 1 byte, but one of a million. */
static void fill_data(struct report_data *data)
{
	struct report_column column = { .head = json_pack("{s:s}", "name", "a.snap") };

	cr_assert_eq(report_data_init(data, REPORT_KEY_ALL), 0);
	data->key_columns_wanted = REPORT_KEY_ALL;
	data->head = json_pack("{s:s}", "schema", "allocsnap.report/1");
	for (uint32_t i = 0; i < CALLERS; i++) {
		const uint32_t path[] = { added_frame(data, 100 + i), added_frame(data, 1 + i % SITES) };
		const struct report_key key = { .thread = 1 + i % 3, .birth_after_ns = i };
		uint32_t traceback, key_id, row;

		cr_assert_eq(report_path_add(data, path, 2, 1, &traceback), 0);
		cr_assert_eq(report_key_add(data, &key, &key_id), 0);
		cr_assert_eq(report_row_add(data, traceback, key_id, &row), 0);
		cr_assert_eq(array_push(&column, cell, ((struct report_cell){ row, i ? 1 : 1000000, 1 })), 0);
	}
	cr_assert_eq(array_push(data, column, column), 0);
}

static json_t *packed_within(struct report_data *data, size_t bytes_max, struct packed_report *ret)
{
	cr_assert_eq(pack_report(data, bytes_max, ret), 0);
	return unpacked(ret->bytes, ret->bytes_nr);
}

Test(report_merge, leaves_small_reports_alone)
{
	struct report_data data;
	struct packed_report packed;
	json_t *json;

	fill_data(&data);
	json = packed_within(&data, 1 << 20, &packed);
	cr_expect_eq(packed.merged_nr, 0);
	cr_expect_not(json_object_get(json, "merged"));
	cr_expect_eq(json_array_size(member(member(json, "tracebacks"), "node")), CALLERS);
	cr_expect_eq(sum_of(member(json_array_get(member(json, "snapshots"), 0), "size")), 1000000 + CALLERS - 1);
	json_decref(json);
	packed_report_release(&packed);
	report_data_release(&data);
}

Test(report_merge, keeps_sums_and_sites)
{
	struct report_data data;
	struct packed_report packed;
	json_t *json;

	fill_data(&data);
	json = packed_within(&data, 4096, &packed);
	cr_expect_eq(packed.merged_of, CALLERS);
	cr_expect_geq(packed.merged_nr, CALLERS - 1);
	cr_expect_leq(packed.bytes_nr, 4096);
	cr_expect_eq(json_integer_value(member(member(json, "merged"), "tracebacks")), packed.merged_nr);
	cr_expect_eq(json_array_size(member(member(json, "tracebacks"), "node")), SITES + 1);
	cr_expect_eq(sum_of(member(json_array_get(member(json, "snapshots"), 0), "size")), 1000000 + CALLERS - 1);
	cr_expect_eq(sum_of(member(json_array_get(member(json, "snapshots"), 0), "count")), CALLERS);
	json_decref(json);
	packed_report_release(&packed);
	report_data_release(&data);
}

/* ---- many sites -------------------------------------------------------------------------------------------------- */

/* site_nr functions allocate: the first one has a byte, the second one has two, and so on. */
static void fill_many_sites(struct report_data *data, uint32_t site_nr)
{
	struct report_column column = { .head = json_pack("{s:s}", "name", "a.snap") };

	cr_assert_eq(report_data_init(data, REPORT_KEY_ALL), 0);
	data->key_columns_wanted = REPORT_KEY_ALL;
	data->head = json_pack("{s:s}", "schema", "allocsnap.report/1");
	for (uint32_t i = 0; i < site_nr; i++) {
		const struct report_key key = { .thread = 1 + i % 3 };
		uint32_t path[] = { added_frame(data, 1), 0 }, traceback, key_id, row;
		struct report_frame site = { .line = 2 + i };
		char name[32];

		snprintf(name, sizeof(name), "function_%u", i);
		cr_assert_eq(report_string_add(data, name, &site.function), 0);
		cr_assert_eq(report_frame_add(data, &site, &path[1]), 0);
		cr_assert_eq(report_path_add(data, path, 2, 1, &traceback), 0);
		cr_assert_eq(report_key_add(data, &key, &key_id), 0);
		cr_assert_eq(report_row_add(data, traceback, key_id, &row), 0);
		cr_assert_eq(array_push(&column, cell, ((struct report_cell){ row, i + 1, 1 })), 0);
	}
	cr_assert_eq(array_push(data, column, column), 0);
}

static bool has_string(const json_t *json, const char *text)
{
	json_t *value;
	size_t i;

	json_array_foreach(member(json, "strings"), i, value)
		if (!strcmp(json_string_value(value), text))
			return true;
	return false;
}

Test(report_merge, keeps_the_largest_of_many_sites)
{
	const uint32_t site_nr = full_or(200000, 20000);
	const size_t room = 4.5 * site_nr;
	const json_int_t bytes = (json_int_t)site_nr * (site_nr + 1) / 2;
	struct report_data data;
	struct packed_report packed;
	const json_t *merged, *last;
	char largest[32];
	json_t *json;

	fill_many_sites(&data, site_nr);
	data.traceback[7].is_kept = true;
	json = packed_within(&data, room, &packed);
	merged = member(json, "merged");
	last = json_array_get(member(json, "snapshots"), 0);
	cr_expect_leq(packed.bytes_nr, room);
	cr_expect_eq(packed.site_of, site_nr);
	cr_expect_gt(packed.small_site_nr, site_nr / 2);
	cr_expect_eq(json_integer_value(member(merged, "sites")), packed.small_site_nr);
	cr_expect_eq(json_integer_value(member(merged, "sites_of")), site_nr);
	cr_expect_float_eq(json_real_value(member(merged, "site_share")), (double)packed.small_site_nr / bytes, 1e-7,
			   "the largest of the small ones");
	cr_expect_eq(json_integer_value(member(merged, "tracebacks")), 0, "none is merged by its site");
	cr_expect_eq(json_array_size(member(member(json, "tracebacks"), "node")), site_nr - packed.small_site_nr + 1);
	cr_expect_eq(sum_of(member(last, "size")), bytes);
	cr_expect_eq(sum_of(member(last, "count")), site_nr);
	snprintf(largest, sizeof(largest), "function_%u", site_nr - 1);
	cr_expect(has_string(json, largest));
	cr_expect(has_string(json, "function_7"), "what must stay stays");
	cr_expect_not(has_string(json, "function_8"));
	json_decref(json);
	packed_report_release(&packed);
	report_data_release(&data);
}

Test(report_merge, counts_a_site_by_the_sum_of_its_tracebacks)
{
	struct report_data data;
	struct peak_shares shares;

	fill_data(&data);
	cr_assert_eq(peak_shares_find(&data, &shares), 0);
	cr_expect_eq(shares.site_nr, SITES);
	for (uint32_t i = 0; i < SITES; i++)
		cr_expect_float_eq(shares.site[i], i ? 1.0 / SITES : 1001999. / 1019999, 1e-6, "%u: %f", i, shares.site[i]);
	peak_shares_release(&shares);
	report_data_release(&data);
}

/* ---- many domains ------------------------------------------------------------------------------------------------ */

#define DOMAINS 300000
#define NAMED_EVERY 100 /* a file names 4096 at most */

static struct snapshot *snapshot_of_domains(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_DOMAIN);
	struct snapshot *snapshot;

	for (uint32_t i = 0; i < DOMAINS; i++) {
		const struct snap_trace trace = { .size = 1, .domain = i };

		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
		if (i % NAMED_EVERY == 0)
			cr_assert_eq(snapshot_builder__domain_name(builder, i, i ? "named" : "heap"), 0);
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

/* A search through the list for each block takes longer. */
Test(report_domains, may_be_many)
{
	static const struct engine_options engine;
	struct snapshot *snapshot = snapshot_of_domains();
	const struct report_input input = { .snapshot = snapshot, .name = "a.snap", .options = &engine };
	struct reason why = {};
	struct packed_report packed;
	struct report_data data;
	size_t named = 0;
	json_t *json;

	limit_cpu_seconds(30);
	cr_assert_eq(report_data_init(&data, REPORT_KEY_DOMAIN), 0);
	data.key_columns_wanted = REPORT_KEY_DOMAIN;
	data.head = json_pack("{s:s}", "schema", "allocsnap.report/1");
	cr_assert_eq(report_add_snapshot(&data, &input, REPORT_CELLS_MAX, &why), 0, "%s", why.text);
	cr_expect_eq(data.domain_nr, DOMAINS);
	for (uint32_t i = 0; i < data.domain_nr; i++)
		named += !!data.domain[i].name;
	cr_expect_eq(named, DOMAINS / NAMED_EVERY);
	json = packed_within(&data, 100000, &packed);
	cr_expect_leq(packed.bytes_nr, 100000, "the filter by domain is left out");
	cr_expect_str_eq(json_string_value(json_array_get(member(member(json, "merged"), "dropped_keys"), 0)), "domain");
	cr_expect_eq(sum_of(member(json_array_get(member(json, "snapshots"), 0), "size")), DOMAINS);
	json_decref(json);
	packed_report_release(&packed);
	report_data_release(&data);
	snapshot__close(snapshot);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const struct data_trace traces[] = {
	{ 100, { { "a.c", 1, "f" }, { "m.c", 9, "main" } }, .times = 3, .birth_ns = 1, .thread = 1 },
	{ 200, { { "b.c", 2, "g" }, { "m.c", 9, "main" } }, .times = 2, .birth_ns = 2, .thread = 2 },
};

/* A folder with nr snapshots, which differ in the number of their traces. */
static void save_snapshots(const char *folder, size_t nr, struct series *ret)
{
	*ret = (struct series){};
	for (size_t i = 0; i < nr; i++) {
		struct data_snapshot data = data_snapshot(traces, 1 + i % 2, 1000 + i);
		char path[128];

		snprintf(path, sizeof(path), "%s/%zu.snap", folder, i);
		cr_assert_eq(snapshot__save(data.snapshot, path, NULL, NULL), 0);
		cr_assert_eq(series_add(ret, path, data.snapshot), 0);
		data_release(&data);
	}
}

static int build_within(size_t cell_max, struct series *series, struct report_data *ret)
{
	const struct engine_options engine = {};
	const struct report_request request = { .engine = &engine, .cell_max = cell_max };
	struct reason why = {};
	size_t newer_nr;

	return build_report(series, &request, ret, &newer_nr, &why);
}

Test(report_memory, is_bounded_by_fewer_keys_and_then_fewer_snapshots)
{
	char folder[] = "/tmp/report-XXXXXX", command[64];
	struct report_data data;
	struct series series;

	cr_assert(mkdtemp(folder));
	save_snapshots(folder, 8, &series);
	cr_expect_eq(build_within(100, &series, &data), 0);
	cr_expect_eq(data.column_nr, 8);
	cr_expect_eq(data.key_columns, data.key_columns_wanted);
	report_data_release(&data);
	cr_expect_eq(build_within(5, &series, &data), 0);
	cr_expect_lt(data.column_nr, 8);
	cr_expect_eq(series.item_nr, data.column_nr);
	cr_expect_not(data.key_columns & REPORT_KEY_BIRTH);
	cr_expect(data.key_columns_wanted & REPORT_KEY_BIRTH);
	report_data_release(&data);
	cr_expect_eq(build_within(1, &series, &data), -EFBIG);
	report_data_release(&data);
	report_series_release(&series);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static void write_source(const char *folder, const char *name, time_t changed)
{
	const struct timespec times[] = { { changed, 0 }, { changed, 0 } };
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert(file);
	for (int i = 1; i <= 9; i++)
		fprintf(file, "\tline %d\n", i);
	fclose(file);
	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void add_own_frame(struct report_data *data, const char *file, uint32_t line, bool is_library)
{
	struct report_frame frame = { .line = line, .is_library = is_library };
	uint32_t id;

	cr_assert_eq(report_string_add(data, file, &frame.file), 0);
	cr_assert_eq(report_frame_add(data, &frame, &id), 0);
}

Test(report_sources, are_those_around_own_frames_in_files_that_were_there)
{
	char folder[] = "/tmp/report-XXXXXX", command[64];
	struct report_data data;
	size_t newer_nr;
	json_t *lines;

	cr_assert(mkdtemp(folder));
	write_source(folder, "old.c", 1000);
	write_source(folder, "new.c", 3000);
	write_source(folder, "library.c", 1000);
	cr_assert_eq(report_data_init(&data, 0), 0);
	add_own_frame(&data, "/build/old.c", 5, false);
	add_own_frame(&data, "/build/new.c", 5, false);
	add_own_frame(&data, "/build/library.c", 5, true);
	cr_assert_eq(report_add_sources(&data, folder, 2000 * 1000000000ull, &newer_nr), 0);
	cr_expect_eq(newer_nr, 1);
	cr_expect_eq(json_object_size(data.sources), 1);
	lines = json_object_iter_value(json_object_iter(data.sources));
	cr_expect_eq(json_object_size(lines), 5);
	cr_expect_str_eq(json_string_value(json_object_get(lines, "3")), " line 3");
	cr_expect_str_eq(json_string_value(json_object_get(lines, "7")), " line 7");
	report_data_release(&data);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}
