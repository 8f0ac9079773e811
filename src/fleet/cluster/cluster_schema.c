// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_schema.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"
#include "fleet/row_tables.h"

#define FIRST_WITH_TTL "19.6"
#define PARTS_LATER_DAYS 7 /* a server may need hours for what is due; a snapshot without its labels would be wrong */

/* ---- the text ------------------------------------------------------------------------------------------------- */

int schema_options_check(const struct schema_options *options, struct reason *why)
{
	const char *name = options->cluster ?: "";

	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return reason_set(why, -EINVAL, "'%.100s' is no name of a cluster: letters, digits and _", options->cluster);
	return options->cluster && name == options->cluster ? reason_set(why, -EINVAL, "the cluster has no name") : 0;
}

static void write_ttl(char ttl[96], uint64_t days)
{
	snprintf(ttl, 96, "\nTTL toDateTime(time) + INTERVAL %" PRIu64 " DAY", days);
}

static int write_statements(FILE *out, enum row_sql part, const struct schema_options *options)
{
	char ttl[96] = "", parts_ttl[96] = "", *text;

	if (options->keep_days) {
		write_ttl(ttl, options->keep_days);
		write_ttl(parts_ttl, options->keep_days + PARTS_LATER_DAYS);
	}
	text = row_sql_fill(part, ROW_PLACES({ "local", options->cluster ? "local_" : "" }, { "ttl", ttl },
					     { "parts_ttl", parts_ttl }, { "cluster", options->cluster },
					     { "database", options->database }));
	if (!text)
		return -ENOMEM;
	fputs(text, out);
	free(text);
	return 0;
}

char *schema_text(const struct schema_options *options)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int err;

	if (!out)
		return NULL;
	fprintf(out, "CREATE DATABASE IF NOT EXISTS %s;\n\nUSE %s;\n\n", options->database, options->database);
	err = write_statements(out, ROW_SQL_clickhouse, options);
	if (options->cluster)
		err = err ?: write_statements(out, ROW_SQL_clickhouse_cluster, options);
	fprintf(out, "INSERT INTO schema_version VALUES (%d);\n", ROW_SCHEMA_VERSION);
	if (!fclose(out) && !err)
		return text;
	free(text);
	return NULL;
}

/* ---- what a server has ---------------------------------------------------------------------------------------- */

struct server_version {
	int64_t nr, least, most;
	int row_nr;
};

static int take_version(void *version_, const union row_value *value)
{
	struct server_version *version = version_;

	*version = (struct server_version){
		value[0].number, value[1].number, value[2].number, .row_nr = version->row_nr + 1,
	};
	return 0;
}

/* Any bytes are numbers. */
static bool is_version(const struct server_version *version)
{
	return version->row_nr == 1 && version->nr >= 0 && version->least >= 0 && version->most >= version->least &&
	       version->most <= INT32_MAX;
}

/* is_local: of this server, and not of the whole cluster. */
static int ask_version(struct cluster *cluster, bool is_local, struct server_version *ret, struct reason *why)
{
	static const char *const sql[] = {
		"SELECT toInt64(count()), toInt64(min(version)), toInt64(max(version)) FROM schema_version",
		"SELECT toInt64(count()), toInt64(min(version)), toInt64(max(version)) FROM local_schema_version",
	};
	const struct cluster_query query = {
		.sql = sql[is_local], .types = "iii", .row = take_version, .what = ret,
	};

	int err = cluster__ask(cluster, &query, why);

	return err || is_version(ret) ? err : cluster_refuse_answer(cluster, 200, why);
}

static int check_version(const struct cluster *cluster, const struct server_version *version, struct reason *why)
{
	const char *url = cluster__options(cluster)->url, *database = cluster__options(cluster)->database;

	if (!version->nr)
		return reason_set(why, -EBADMSG, "%s: the tables of database %s have no version; 'allocsnap fleet init' "
				  "completes them", url, database);
	if (version->least == ROW_SCHEMA_VERSION && version->most == ROW_SCHEMA_VERSION)
		return 0;
	return reason_set(why, -EBADMSG, "%s: the tables of database %s have version %" PRId64 ", this allocsnap has %d: "
			  "use %s, or another --database", url, database, version->most, ROW_SCHEMA_VERSION,
			  version->most > ROW_SCHEMA_VERSION ? "a newer allocsnap" : "an older allocsnap");
}

/* The columns that we need and the server has. */
struct found_columns {
	uint64_t column[ROW_TABLE_NR]; /* a bit for each */
};

static int take_column(void *found_, const union row_value *value)
{
	static const char *const type[] = { [ROW_INT] = "Int64", [ROW_REAL] = "Float64", [ROW_TEXT] = "String" };
	struct found_columns *found = found_;

	for (enum row_table_number i = 0; i < ROW_TABLE_NR; i++) {
		const struct row_table *table = row_table(i);

		for (size_t k = 0; !strcmp(table->name, value[0].text) && k < table->column_nr; k++)
			if (!strcmp(table->column[k].name, value[1].text) && !strcmp(type[table->column[k].type], value[2].text))
				found->column[i] |= 1ull << k;
	}
	return 0;
}

static int check_table_columns(struct cluster *cluster, struct reason *why)
{
	struct found_columns found = {};
	const struct cluster_query query = {
		.sql = "SELECT table, name, type FROM system.columns WHERE database = currentDatabase()",
		.types = "ttt", .row = take_column, .what = &found,
	};
	int err = cluster__ask(cluster, &query, why);

	for (enum row_table_number i = 0; i < ROW_TABLE_NR && !err; i++)
		if (found.column[i] != (1ull << row_table(i)->column_nr) - 1)
			err = reason_set(why, -EBADMSG, "%s: table %s of database %s is not the one that 'allocsnap fleet init' "
					 "makes; use another --database", cluster__options(cluster)->url, row_table(i)->name,
					 cluster__options(cluster)->database);
	return err;
}

int cluster_schema_check(struct cluster *cluster, struct reason *why)
{
	struct server_version version = {};

	return ask_version(cluster, false, &version, why) ?: check_version(cluster, &version, why) ?: check_table_columns(cluster, why);
}

/* ---- making it ------------------------------------------------------------------------------------------------ */

static int take_text(void *text_, const union row_value *value)
{
	snprintf(text_, 64, "%.63s", value->text);
	return 0;
}

static int check_has_ttl(struct cluster *cluster, struct reason *why)
{
	char version[64] = "";
	const struct cluster_query query = {
		.sql = "SELECT version()", .is_outside = true, .types = "t", .row = take_text, .what = version,
	};
	int err = cluster__ask(cluster, &query, why), major = 0, minor = 0;

	if (!err && sscanf(version, "%d.%d", &major, &minor) < 2)
		return reason_set(why, -EBADMSG, "%s: '%s' is no version of ClickHouse", cluster__options(cluster)->url, version);
	if (err || major > 19 || (major == 19 && minor >= 6))
		return err;
	return reason_set(why, -ENOTSUP, "%s: ClickHouse %s cannot remove old rows by itself, as " FIRST_WITH_TTL " and later can: "
			  "'allocsnap fleet forget' does",
			  cluster__options(cluster)->url, version);
}

/* Runs statements one by one; the texts have no ; elsewhere. */
static int run_statements(struct cluster *cluster, char *text, struct reason *why)
{
	int err = 0;

	for (char *next, *at = text; !err && at; at = next) {
		next = strchr(at, ';');
		if (next)
			*next++ = '\0';
		at += strspn(at, " \n");
		if (*at && strncmp(at, "USE ", 4) && strncmp(at, "INSERT ", 7))
			err = cluster__run(cluster, at, strncmp(at, "CREATE DATABASE", 15), why);
	}
	return err;
}

int cluster_schema_set_version(struct cluster *cluster, struct reason *why)
{
	struct server_version version = {};
	char insert[96];
	int err = check_table_columns(cluster, why) ?: ask_version(cluster, false, &version, why);

	snprintf(insert, sizeof(insert), "INSERT INTO schema_version VALUES (%d)", ROW_SCHEMA_VERSION);
	return err || version.nr ? err : cluster__run(cluster, insert, true, why);
}

/* Tables that are there stay as they are. */
static int check_keeps(struct cluster *cluster, const struct schema_options *options, struct reason *why)
{
	int64_t nr = 0;
	char sql[256];
	int err;

	snprintf(sql, sizeof(sql), "SELECT toInt64(count()) FROM system.tables WHERE database = currentDatabase()"
		 " AND name = '%ssnapshot' AND position(engine_full, 'toIntervalDay(%" PRIu64 ")') > 0",
		 options->cluster ? "local_" : "", options->keep_days);
	err = cluster__ask_number(cluster, sql, NULL, &nr, why);
	if (err || nr)
		return err;
	return reason_set(why, -EEXIST, "%s: database %s has tables that keep rows for another time: --keep does not change them, "
			  "ALTER TABLE … MODIFY TTL does", cluster__options(cluster)->url, cluster__options(cluster)->database);
}

/* The database is not there yet, so that the first question may fail with -ENOENT. */
static int make_tables(struct cluster *cluster, const struct schema_options *options, struct reason *why)
{
	struct server_version version = {};
	char *text;
	int err = ask_version(cluster, options->cluster != NULL, &version, why);

	if (!err && version.nr)
		err = check_version(cluster, &version, why);
	if (!err && version.nr && options->keep_days)
		err = check_keeps(cluster, options, why);
	if (err && err != -ENOENT)
		return err;
	text = schema_text(options);
	err = text ? run_statements(cluster, text, why) : reason_set(why, -ENOMEM, "out of memory");
	free(text);
	return err;
}

int cluster_schema_make(struct cluster *cluster, const struct schema_options *options, struct reason *why)
{
	int err = cluster__run(cluster, "SELECT 1", false, why);

	if (!err && options->keep_days)
		err = check_has_ttl(cluster, why);
	return err ?: make_tables(cluster, options, why);
}
