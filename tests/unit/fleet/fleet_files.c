// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "snapshot.h"

static char home[PATH_MAX];
static char directory[] = "/tmp/fleet.XXXXXX";
char fleet_told[8192];

void fleet_enter(void)
{
	cr_assert(getcwd(home, sizeof(home)));
	cr_assert(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
	cr_assert_eq(mkdir("d", 0700), 0);
}

void fleet_leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir(home) || system(command))
		abort();
}

static void make_dirs_of(const char *path)
{
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		cr_assert(!mkdir(copy, 0700) || errno == EEXIST, "%s: %s", copy, strerror(errno));
		*slash = '/';
	}
}

static void write_bytes(const char *path, const void *bytes, size_t len)
{
	FILE *file;

	make_dirs_of(path);
	file = fopen(path, "w");
	cr_assert(file, "%s", path);
	cr_assert_eq(fwrite(bytes, 1, len, file), len);
	cr_assert_eq(fclose(file), 0);
}

void fleet_write_text(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

static uint32_t add_frame(struct snapshot_builder *builder, const struct fleet_frame *frame)
{
	struct snap_object object = {};
	struct snap_frame row = { .lineno = frame->lineno, .offset = frame->offset, .flags = frame->flags };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, frame->filename, &row.filename), 0);
	cr_assert_eq(snapshot_builder__string(builder, frame->function, &row.function), 0);
	cr_assert_eq(snapshot_builder__string(builder, frame->object, &object.path), 0);
	cr_assert_eq(snapshot_builder__string(builder, frame->build_id, &object.build_id), 0);
	cr_assert_eq(snapshot_builder__object(builder, &object, &row.object), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &row, &id), 0);
	return id;
}

static void add_trace(struct snapshot_builder *builder, const struct fleet_trace *trace)
{
	struct snap_trace row = {
		.size = trace->size, .domain = trace->domain, .weight = trace->weight,
		.birth_ns = trace->birth_ns,
	};
	uint32_t frame[8];

	for (uint32_t i = 0; i < trace->nframe; i++)
		frame[i] = add_frame(builder, &trace->frame[i]);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, trace->nframe, trace->total_nframe, 0,
						 &row.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &row), 0);
}

static void add_metadata(struct snapshot_builder *builder, const struct fleet_file *file)
{
	const struct {
		const char *key, *value;
	} pairs[] = {
		{ "host", file->host ?: "host" },   { "pid", file->pid ?: "7" },
		{ "wall_ns", file->wall_ns ?: "1" }, { "comm", file->comm },
		{ "label.version", file->label_version }, { "domain.16", file->domain_16 },
		{ "filters", file->filters },	     { "boot_id", file->boot_id },
		{ "start_time_ticks", file->start_ticks }, { "exec_count", file->exec_count },
		{ "end", file->end },		     { "monotonic_ns", file->monotonic_ns },
		{ "recording_start_monotonic_ns", file->recording_ns },
		{ "interval_ns", file->interval_ns }, { "trigger", file->trigger },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (pairs[i].value && *pairs[i].value)
			cr_assert_eq(snapshot_builder__metadata(builder, pairs[i].key, pairs[i].value), 0);
	for (unsigned int i = 0; i < file->more_labels; i++) {
		char key[32];

		snprintf(key, sizeof(key), "label.%u", i);
		cr_assert_eq(snapshot_builder__metadata(builder, key, file->label_version), 0);
	}
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "blocks_dropped", file->lost), 0);
}

void fleet_write(const struct fleet_file *file)
{
	struct snapshot_save_options options = { .compress = file->is_compact, .compact = file->is_compact };
	struct snapshot_builder *builder =
		snapshot_builder__new(SNAP_WITH_DOMAIN | (file->is_sampled ? SNAP_WITH_WEIGHT : 0) |
				      (file->gap_end_ns ? SNAP_WITH_BIRTH : 0));
	struct snapshot *snapshot;
	size_t len;
	void *bytes;

	add_metadata(builder, file);
	if (file->gap_end_ns)
		cr_assert_eq(snapshot_builder__gap(builder, file->gap_end_ns - 5, file->gap_end_ns), 0);
	for (size_t i = 0; i < file->trace_nr; i++)
		add_trace(builder, &file->trace[i]);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_assert_eq(snapshot__serialize(snapshot, &options, &bytes, &len), 0);
	write_bytes(file->path, bytes, len);
	free(bytes);
	snapshot__close(snapshot);
}

/* ---- the catalogue ---------------------------------------------------------------------------------- */

static void tell(void *what, enum index_problem problem, const char *path, const char *line)
{
	static const char *const kind[] = {
		[INDEX_DAMAGED] = "damaged", [INDEX_FOREIGN] = "foreign",
		[INDEX_DUPLICATE] = "duplicate", [INDEX_UNREADABLE] = "unreadable",
	};
	const char *name = strrchr(path, '/') + 1, *rest = strstr(line, ": ");
	size_t len = strlen(fleet_told);

	cr_expect_null(what);
	cr_expect(rest, "%s", line);
	snprintf(fleet_told + len, sizeof(fleet_told) - len, "%s %s%s\n", kind[problem], name, rest ?: "");
}

struct index_sum fleet_index_d(void)
{
	static const char *const dir[] = { "d" };
	const struct index_events events = { .problem = tell };
	struct catalogue *catalogue;
	struct index_sum sum = {};
	struct reason why = { "" };

	fleet_told[0] = '\0';
	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_WRITE, &catalogue, &why), 0, "%s", why.text);
	cr_assert_eq(fleet_index(catalogue, dir, 1, &events, &sum, &why), 0, "%s", why.text);
	catalogue__close(catalogue);
	return sum;
}

struct catalogue *fleet_open(void)
{
	struct catalogue *catalogue = NULL;
	struct reason why = { "" };

	cr_assert_eq(catalogue__open("catalogue.db", CATALOGUE_READ, &catalogue, &why), 0, "%s", why.text);
	return catalogue;
}

static sqlite3 *open_db(void)
{
	sqlite3 *db;

	cr_assert_eq(sqlite3_open_v2("catalogue.db", &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	return db;
}

void fleet_sql(const char *sql)
{
	sqlite3 *db = open_db();
	char *message = NULL;

	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK, "%s: %s", sql, message);
	sqlite3_close(db);
}

static int print_row(void *out, int nr, char **value, char **name)
{
	for (int i = 0; i < nr; i++)
		fprintf(out, "%s=%s ", name[i], value[i]);
	return fputs("\n", out) < 0;
}

char *fleet_dump(void)
{
	static const char *const selects[] = {
		"SELECT number, path, size, problem, line FROM file ORDER BY 1",
		"SELECT * FROM snapshot ORDER BY 1", "SELECT snapshot, hex(rows) FROM snapshot_rows ORDER BY 1",
		"SELECT * FROM label ORDER BY 1, 2", "SELECT * FROM loss ORDER BY 1, 2",
		"SELECT * FROM origin ORDER BY 1",
		"SELECT traceback_id, verify, hex(frames) FROM traceback ORDER BY 1",
		"SELECT * FROM frame ORDER BY 1", "SELECT * FROM domain ORDER BY 1",
	};
	sqlite3 *db = open_db();
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; i < ARRAY_SIZE(selects); i++)
		cr_assert_eq(sqlite3_exec(db, selects[i], print_row, out, NULL), SQLITE_OK, "%s", selects[i]);
	fclose(out);
	sqlite3_close(db);
	return text;
}
