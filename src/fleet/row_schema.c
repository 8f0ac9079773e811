// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_schema.h"

#define EMBED(name, path) \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"src/fleet/sql/" path "\"\n.byte 0\n.popsection\n"); \
	extern const char name[]

EMBED(sqlite_sql, "sqlite.sql");
EMBED(clickhouse_sql, "clickhouse.sql");
EMBED(clickhouse_cluster_sql, "clickhouse-cluster.sql");
EMBED(origins_sql, "origins.sql");

const char *row_schema_sqlite(void)
{
	return sqlite_sql;
}

const char *row_schema_clickhouse(void)
{
	return clickhouse_sql;
}

const char *row_schema_clickhouse_cluster(void)
{
	return clickhouse_cluster_sql;
}

const char *row_question_sums(void)
{
	return origins_sql;
}
