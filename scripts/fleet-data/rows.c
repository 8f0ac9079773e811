// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rows.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * size and count are of all blocks of a snapshot with one traceback in one domain. A traceback's func, file,
 * line and module are of its most recent frame that is no wrapper; "" and 0 where they are not known. What has
 * no name has its place in the file (offset), and the module is that build's.
 * stack: the same for tracebacks whose frames have the same names. The frames are in traceback_frame, too.
 */
static const char schema[] =
	"PRAGMA page_size = 16384; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
	"PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; BEGIN;"
	"CREATE TABLE allocation (snapshot_id INTEGER NOT NULL, time INTEGER NOT NULL,"
	" traceback_id INTEGER NOT NULL, domain INTEGER NOT NULL, size INTEGER NOT NULL,"
	" count INTEGER NOT NULL, PRIMARY KEY (snapshot_id, traceback_id, domain)) WITHOUT ROWID;"
	"CREATE TABLE snapshot (snapshot_id INTEGER PRIMARY KEY, time INTEGER NOT NULL, host TEXT NOT NULL,"
	" pid INTEGER NOT NULL, comm TEXT NOT NULL, cgroup TEXT NOT NULL, version TEXT NOT NULL,"
	" build_id TEXT NOT NULL, process_id INTEGER NOT NULL);"
	"CREATE TABLE traceback (traceback_id INTEGER PRIMARY KEY, func TEXT NOT NULL, file TEXT NOT NULL,"
	" line INTEGER NOT NULL, first_line INTEGER NOT NULL, module TEXT NOT NULL, offset INTEGER NOT NULL,"
	" stack INTEGER NOT NULL);"
	"CREATE TABLE traceback_frame (traceback_id INTEGER NOT NULL, position INTEGER NOT NULL,"
	" func TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, module TEXT NOT NULL,"
	" offset INTEGER NOT NULL, PRIMARY KEY (traceback_id, position)) WITHOUT ROWID;"
	"CREATE TABLE domain (domain INTEGER PRIMARY KEY, name TEXT NOT NULL);";

struct rows {
	const struct model *model;
	sqlite3 *db;
	sqlite3_stmt *allocation, *snapshot, *traceback, *frame, *domain;
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

/* A frame's columns. Of a module, the build counts only for code without a name, and so does the offset. */
struct row_frame {
	char module[128];
	const char *func, *file;
	int64_t line, first_line, offset;
};

static struct row_frame row_frame(const struct model *m, uint32_t program, uint32_t version,
				  const struct frame_facts *facts)
{
	struct row_frame row = { .func = facts->function, .file = facts->file, .line = facts->line,
				 .first_line = facts->first_line };

	snprintf(row.module, sizeof(row.module), "%s", facts->module);
	if (!*facts->function) {
		snprintf(row.module, sizeof(row.module), "%s@%.12s", facts->module,
			 m->build_id[program][version]);
		row.offset = facts->offset;
	}
	return row;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	while (*text++);
	return hash;
}

/* As tracebacks are equal: frames with a line are known by it alone. */
static uint64_t hash_frame(uint64_t hash, const struct row_frame *row)
{
	hash = random_of(hash_text(hash, row->file), row->line, row->offset);
	return row->line ? hash : hash_text(hash_text(hash, row->func), row->module);
}

static void add_traceback(struct rows *rows, uint32_t program, uint32_t version, uint32_t number)
{
	const struct model *m = rows->model;
	struct traceback_facts facts = model_traceback(m, program, number);
	int64_t id = traceback_id(m, program, version, number);
	struct row_frame first = {};
	uint64_t hash = 0;

	for (uint32_t i = 0; i < facts.nframe; i++) {
		struct row_frame row =
			row_frame(m, program, version, &m->frame[program][version][facts.frame[i]]);

		if (!i)
			first = row;
		hash = hash_frame(hash, &row);
		insert(rows, rows->frame, "iissisi", id, (int64_t)i, row.func, row.file, row.line, row.module,
		       row.offset);
	}
	insert(rows, rows->traceback, "issiisii", id, first.func, first.file, first.line, first.first_line,
	       first.module, first.offset, (int64_t)(hash >> 1));
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

	insert(rows, rows->snapshot, "iisissssi", snapshot_id, moment->wall_s, moment->host_name,
	       (int64_t)moment->pid, program->comm, program->cgroup, version_name[moment->version],
	       m->build_id[moment->program][moment->version], process_id);
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
	rows->snapshot = prepare(rows, "INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
	rows->traceback = prepare(rows, "INSERT INTO traceback VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
	rows->frame = prepare(rows, "INSERT INTO traceback_frame VALUES (?, ?, ?, ?, ?, ?, ?)");
	rows->domain = prepare(rows, "INSERT INTO domain VALUES (?, ?)");
}

static void finish(struct rows *rows)
{
	sqlite3_stmt *const all[] = { rows->allocation, rows->snapshot, rows->traceback, rows->frame,
				      rows->domain };

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
	check(&rows, sqlite3_exec(rows.db, schema, NULL, NULL, NULL));
	prepare_all(&rows);
	add_domains(&rows);
	for (uint32_t i = 0; i < PROGRAMS * VERSIONS; i++)
		for (uint32_t number = 0; number < m->traceback_nr; number++)
			add_traceback(&rows, i / VERSIONS, i % VERSIONS, number);
	add_all(&rows);
	finish(&rows);
	return rows.nr;
}
