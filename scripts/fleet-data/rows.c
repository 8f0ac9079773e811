// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rows.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/row_tables.h"

/* The tables of fleet/row_tables.h. An upload is its snapshot. No frame is a wrapper. */
static const char settings[] =
	"PRAGMA page_size = 16384; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
	"PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; BEGIN;";

struct rows {
	const struct model *model;
	sqlite3 *db;
	sqlite3_stmt *allocation, *snapshot, *label, *traceback, *traceback_frame, *frame, *domain;
	uint64_t nr;
};

static void check(struct rows *rows, int result)
{
	if (result == SQLITE_OK || result == SQLITE_DONE)
		return;
	fprintf(stderr, "fleet-data: rows: %s\n", sqlite3_errmsg(rows->db));
	exit(1);
}

static sqlite3_stmt *prepare(struct rows *rows, const char *sql)
{
	sqlite3_stmt *statement;

	check(rows, sqlite3_prepare_v2(rows->db, sql, -1, &statement, NULL));
	return statement;
}

/* format: i for int64_t, s for const char *. */
static void insert(struct rows *rows, sqlite3_stmt *statement, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	for (int i = 0; format[i]; i++)
		if (format[i] == 'i')
			check(rows, sqlite3_bind_int64(statement, i + 1, va_arg(list, int64_t)));
		else
			check(rows, sqlite3_bind_text(statement, i + 1, va_arg(list, const char *), -1,
						      SQLITE_STATIC));
	va_end(list);
	check(rows, sqlite3_step(statement));
	check(rows, sqlite3_reset(statement));
}

/* ---- tracebacks -------------------------------------------------------------------------------- */

static int64_t traceback_id(const struct model *m, uint32_t program, uint32_t version, uint32_t number)
{
	return 1 + (int64_t)(program * VERSIONS + version) * m->traceback_nr + number;
}

static int64_t frame_id(const struct model *m, uint32_t program, uint32_t version, uint32_t number)
{
	return 1 + (int64_t)(program * VERSIONS + version) * m->frame_nr + number;
}

/* The build and the offset count only for code without a name. */
static void add_frame_row(struct rows *rows, uint32_t program, uint32_t version, uint32_t number)
{
	const struct model *m = rows->model;
	const struct frame_facts *facts = &m->frame[program][version][number];
	bool is_nameless = !*facts->function;

	insert(rows, rows->frame, "iissiissii", frame_id(m, program, version, number), (int64_t)0, facts->function,
	       facts->file, (int64_t)facts->line, (int64_t)facts->first_line, facts->module,
	       is_nameless ? m->build_id[program][version] : "", is_nameless ? (int64_t)facts->offset : (int64_t)0, (int64_t)0);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	while (*text++);
	return hash;
}

/* As tracebacks are equal: frames with a line are known by it alone. */
static uint64_t hash_frame(uint64_t hash, const struct frame_facts *facts, const char *build_id)
{
	hash = random_of(hash_text(hash, facts->line ? facts->file : ""), facts->line, *facts->function ? 0 : facts->offset);
	if (facts->line)
		return hash;
	return hash_text(hash_text(hash_text(hash, facts->function), facts->module), *facts->function ? "" : build_id);
}

static void add_traceback(struct rows *rows, uint32_t program, uint32_t version, uint32_t number)
{
	const struct model *m = rows->model;
	struct traceback_facts facts = model_traceback(m, program, number);
	int64_t id = traceback_id(m, program, version, number);
	uint64_t hash = 0;

	for (uint32_t i = 0; i < facts.nframe; i++) {
		hash = hash_frame(hash, &m->frame[program][version][facts.frame[i]], m->build_id[program][version]);
		insert(rows, rows->traceback_frame, "iii", id, (int64_t)i, frame_id(m, program, version, facts.frame[i]));
	}
	insert(rows, rows->traceback, "iiiii", id, (int64_t)0, (int64_t)0, frame_id(m, program, version, facts.frame[0]),
	       (int64_t)(hash >> 1));
}

/* ---- allocations ------------------------------------------------------------------------------- */

static int64_t domain_number(uint32_t program, uint32_t domain)
{
	return domain + (domain == IN_POOL ? program : 0);
}

static void add_domains(struct rows *rows)
{
	insert(rows, rows->domain, "is", (int64_t)IN_HEAP, "malloc");
	insert(rows, rows->domain, "is", (int64_t)IN_MMAP, "mmap");
	for (uint32_t program = 0; program < PROGRAMS; program++)
		if (programs[program].pool)
			insert(rows, rows->domain, "is", domain_number(program, IN_POOL),
			       programs[program].pool);
}

static int by_key(const void *left, const void *right)
{
	const struct site *a = left, *b = right;

	return (a->traceback > b->traceback) - (a->traceback < b->traceback) ?:
	       (a->domain > b->domain) - (a->domain < b->domain);
}

/* By their key, so that the table grows at its end. */
static void add_snapshot(struct rows *rows, const struct moment *moment, int64_t snapshot_id, struct site *site)
{
	const struct model *m = rows->model;
	const struct program *program = &programs[moment->program];
	int64_t process_id = (int64_t)(moment->start_ticks >= 3600000) << 40 |
			     (int64_t)(moment->host + 1) << 8 | moment->process;

	insert(rows, rows->snapshot, "iiissisisissii", snapshot_id, process_id, moment->wall_s, moment->host_name, program->comm,
	       (int64_t)moment->pid, program->cgroup, (int64_t)moment->monotonic_s * 1000000000, moment->boot_id,
	       (int64_t)moment->start_ticks, moment->has_exited ? "end" : "interval",
	       moment->has_exited ? "exited 0" : "running", (int64_t)moment->host,
	       (int64_t)(hash_text(0, moment->boot_id) >> 1));
	insert(rows, rows->label, "iis", snapshot_id, moment->wall_s, version_name[moment->version]);
	for (uint32_t i = 0; i < m->options.sites; i++)
		site[i] = model_site(m, moment, i);
	qsort(site, m->options.sites, sizeof(*site), by_key);
	for (uint32_t i = 0; i < m->options.sites; i++)
		insert(rows, rows->allocation, "iiiiii", snapshot_id, moment->wall_s,
		       traceback_id(m, moment->program, moment->version, site[i].traceback),
		       domain_number(moment->program, site[i].domain), site[i].size, (int64_t)site[i].count);
	rows->nr += m->options.sites;
}

static void add_all(struct rows *rows)
{
	const struct fleet_options *options = &rows->model->options;
	struct site *site = calloc(options->sites, sizeof(*site));
	int64_t id = 0;

	must(site ? 0 : -1, "memory");
	for (uint32_t host = 0; host < options->hosts; host++)
		for (uint32_t process = 0; process < options->processes; process++)
			for (uint32_t time = 0; time < options->times; time++) {
				struct moment moment = model_moment(rows->model, host, process, time);

				add_snapshot(rows, &moment, ++id, site);
			}
	free(site);
}

static void prepare_all(struct rows *rows)
{
	rows->allocation = prepare(rows, "INSERT INTO allocation VALUES (?, ?, ?, ?, ?, ?)");
	rows->snapshot = prepare(rows, "INSERT INTO snapshot SELECT ?1, ?1, ?2, ?3, 2 * ?8 + 1, ?8, 1000000000 * ?3, ?8,"
				 " ?15, ?16, ?4, ?5, '', '', ?7, '', ?9, '', '', ?11, ?12, '', ?6, ?10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?13, ?14, ?2");
	check(rows, sqlite3_bind_int64(rows->snapshot, 15, RECORDING_S * 1000000000ll));
	check(rows, sqlite3_bind_int64(rows->snapshot, 16, INTERVAL_S * 1000000000ll));
	rows->label = prepare(rows, "INSERT INTO label VALUES (?, ?, 'version', ?)");
	rows->traceback = prepare(rows, "INSERT INTO traceback VALUES (?, ?, ?, ?, ?, 0)");
	rows->traceback_frame = prepare(rows, "INSERT INTO traceback_frame VALUES (?, ?, ?)");
	rows->frame = prepare(rows, "INSERT INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	rows->domain = prepare(rows, "INSERT INTO domain VALUES (?1, ?2, ?1)");
}

static void finish(struct rows *rows)
{
	sqlite3_stmt *const all[] = { rows->allocation, rows->snapshot, rows->label, rows->traceback,
				      rows->traceback_frame, rows->frame, rows->domain };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sqlite3_finalize(all[i]);
	check(rows, sqlite3_exec(rows->db, "COMMIT", NULL, NULL, NULL));
	check(rows, sqlite3_close(rows->db));
}

uint64_t rows_write(const struct model *m, const char *path)
{
	struct rows rows = { .model = m };

	unlink(path);
	check(&rows, sqlite3_open(path, &rows.db));
	check(&rows, sqlite3_exec(rows.db, settings, NULL, NULL, NULL));
	check(&rows, sqlite3_exec(rows.db, row_sql_text(ROW_SQL_sqlite), NULL, NULL, NULL));
	prepare_all(&rows);
	add_domains(&rows);
	for (uint32_t i = 0; i < PROGRAMS * VERSIONS; i++)
		for (uint32_t number = 0; number < m->frame_nr; number++)
			add_frame_row(&rows, i / VERSIONS, i % VERSIONS, number);
	for (uint32_t i = 0; i < PROGRAMS * VERSIONS; i++)
		for (uint32_t number = 0; number < m->traceback_nr; number++)
			add_traceback(&rows, i / VERSIONS, i % VERSIONS, number);
	add_all(&rows);
	finish(&rows);
	return rows.nr;
}
