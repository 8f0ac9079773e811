// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/index_private.h"

struct hash_id domain_name_id(const char *name)
{
	return hash_id_make(name, strlen(name));
}

static int load_origin(struct library *library, sqlite3_stmt *row)
{
	struct known_row origin = {
		.hash = { sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 3) },
		.domain = sqlite3_column_int64(row, 2),
		.number = sqlite3_column_int64(row, 0),
	};

	if (sqlite3_column_int64(row, 0) != library->origin_nr || origin.hash.id <= 0)
		return -EBADMSG;
	library->origin_nr++;
	return known_add(&library->origins, &origin);
}

static int load_id(struct known *known, sqlite3_stmt *row)
{
	struct known_row thing = {
		.hash = { sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1) },
	};

	return thing.hash.id > 0 ? known_add(known, &thing) : -EBADMSG;
}

static int load_traceback(struct library *library, sqlite3_stmt *row)
{
	return load_id(&library->tracebacks, row);
}

static int load_frame(struct library *library, sqlite3_stmt *row)
{
	return load_id(&library->frames, row);
}

static int load_domain(struct library *library, sqlite3_stmt *row)
{
	int64_t number = sqlite3_column_int64(row, 0);
	struct known_row name = { .hash = domain_name_id(sql_text(row, 1)), .number = number };
	struct known_row has_name = {};
	int err = 0;

	if (number < 0 || number >= UINT32_MAX)
		return -EBADMSG;
	has_name.hash.id = number + 1;
	if (number >= DOMAIN_OWN)
		err = known_add(&library->domains, &name);
	return err ?: known_add(&library->domain_numbers, &has_name);
}

static const struct {
	const char *sql;
	int (*load)(struct library *library, sqlite3_stmt *row);
} loads[] = {
	{ "SELECT number, traceback_id, domain, verify FROM origin LEFT JOIN traceback USING (traceback_id)"
	  " ORDER BY number", load_origin },
	{ "SELECT traceback_id, verify FROM traceback", load_traceback },
	{ "SELECT frame_id, verify FROM frame", load_frame },
	{ "SELECT number, name FROM domain", load_domain },
};

static int load_library_table(struct library *library, const struct catalogue *catalogue, size_t at, struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(catalogue, loads[at].sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0 && !err)
		err = loads[at].load(library, row);
	sqlite3_finalize(row);
	if (more < 0)
		return more;
	if (err == -EBADMSG)
		return catalogue_report_damage(catalogue, why, "an invalid id or number");
	return err ? reason_set(why, err, "%s: %s", catalogue->path, strerror(-err)) : 0;
}

int library_load(struct library *library, const struct catalogue *catalogue, struct reason *why)
{
	int err = 0;

	*library = (struct library){ .domain_next = DOMAIN_OWN };
	pthread_rwlock_init(&library->lock, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(loads) && !err; i++)
		err = load_library_table(library, catalogue, i, why);
	return err;
}

void library_release(struct library *library)
{
	known_release(&library->origins);
	known_release(&library->tracebacks);
	known_release(&library->frames);
	known_release(&library->domains);
	known_release(&library->domain_numbers);
	pthread_rwlock_destroy(&library->lock);
}
