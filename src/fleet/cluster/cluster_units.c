// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/trace_cost.h"
#include "fleet/cluster/cluster_choose.h"
#include "fleet/cluster/cluster_private.h"
#include "fleet/id_set.h"
#include "fleet/index_private.h"
#include "fleet/row_export.h"
#include "fleet/row_tables.h"

int64_t unit_key(int64_t unit)
{
	return unit ?: INT64_MIN;
}

int units_report_lack(const struct cluster_units *units, struct reason *why)
{
	return reason_set(why, -EBADMSG, "%s: rows of the chosen snapshots are missing there",
			  cluster__options(units->cluster)->url);
}

/* ---- domains -------------------------------------------------------------------------------------------------- */

static int64_t free_domain_number(const struct cluster_units *units, int64_t wanted)
{
	int64_t number = wanted < DOMAIN_OWN || wanted > UINT32_MAX - 1 ? DOMAIN_OWN : wanted;

	while (known_find(&units->taken, number + 1, 0))
		number++;
	return number;
}

/* A domain of our own without a name has none in a catalogue either. */
static bool has_domain_name(int64_t id, const char *name)
{
	char number[24];

	snprintf(number, sizeof(number), "#%lld", (long long)id);
	return id >= DOMAIN_OWN || strcmp(name, number);
}

static int add_domain_name(struct cluster_units *units, uint32_t number, const char *name)
{
	char *copy = strdup(name);
	int err = copy ? array_push(units, domain, ((struct unit_domain){ number, copy })) : -ENOMEM;

	if (err)
		free(copy);
	return err;
}

/* Programs' domains keep their catalogue's numbers if these are free. A row with a name comes before one without. */
static int take_domain(void *units_, const union row_value *value)
{
	struct cluster_units *units = units_;
	int64_t id = value[0].number, number = id < DOMAIN_OWN ? id : free_domain_number(units, value[2].number);
	const struct known_row domain = { .hash.id = (int64_t)(id + 1ull), .number = number }, taken = { .hash.id = number + 1 };
	int err;

	if (domain.hash.id <= 0 || known_find(&units->domains, domain.hash.id, 0))
		return domain.hash.id <= 0 ? -EBADMSG : 0;
	err = known_add(&units->domains, &domain) ?: known_add(&units->taken, &taken);
	return err || !has_domain_name(id, value[1].text) ? err : add_domain_name(units, number, value[1].text);
}

static int units_read_domains(struct cluster_units *units, struct reason *why)
{
	return cluster__ask(units->cluster, &(struct cluster_query){
		.sql = "SELECT DISTINCT domain, name, number FROM domain ORDER BY number, name DESC, domain",
		.types = "iti", .row = take_domain, .what = units,
	}, why);
}

/* ---- what a unit is ------------------------------------------------------------------------------------------- */

char *units_lendable_sql(bool disputed)
{
	return row_sql_fill(ROW_SQL_lendable, ROW_PLACES({ "disputed", disputed ?
		"(uniqExactIf(outer_name, detail > 0) > 1 OR uniqExactIf(names, detail = 2) > 1)" : "1" }));
}

static int find_lendable(struct cluster_units *units, const char *lendable, struct reason *why)
{
	int64_t nr = 0;
	char *sql = NULL;
	int err = asprintf(&sql, "SELECT toInt64(count()) FROM (%s)", lendable) < 0 ? -ENOMEM : 0;

	if (err)
		return err;
	err = cluster__ask_number(units->cluster, sql, NULL, &nr, why);
	units->has_lendable = nr > 0;
	free(sql);
	return err;
}

static int choose_unit(struct cluster_units *units, bool by_own_frame, struct reason *why)
{
	char *lendable = units_lendable_sql(false);
	int err = lendable ? find_lendable(units, lendable, why) : -ENOMEM;

	if (!err && !by_own_frame)
		units->unit = strdup("traceback_id");
	else if (!err && !units->has_lendable)
		units->unit = strdup("CASE WHEN own >= 0 THEN 0 - own ELSE traceback_id END");
	else if (!err)
		units->unit = row_sql_fill(ROW_SQL_own_frames, ROW_PLACES({ "lendable", lendable }));
	free(lendable);
	return err ?: units->unit ? 0 : -ENOMEM;
}

int cluster_units__new(struct cluster *cluster, bool by_own_frame, struct cluster_units **ret, struct reason *why)
{
	struct cluster_units *units = calloc(1, sizeof(*units));
	int err;

	if (!units)
		return reason_set(why, -ENOMEM, "out of memory");
	units->cluster = cluster;
	snprintf(units->rules, sizeof(units->rules), "%" PRId64, row_own_frame_rules());
	err = choose_unit(units, by_own_frame, why) ?: units_read_domains(units, why);
	if (!err) {
		*ret = units;
		return 0;
	}
	cluster_units__free(units);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

void cluster_units__free(struct cluster_units *units)
{
	if (!units)
		return;
	free(units->unit);
	free(units->origin);
	known_release(&units->origins);
	for (size_t i = 0; i < units->domain_nr; i++)
		free(units->domain[i].name);
	free(units->domain);
	known_release(&units->domains);
	known_release(&units->taken);
	free(units);
}

uint32_t cluster_units__origin_nr(const struct cluster_units *units)
{
	return units->origin_nr;
}

int units_find_origin(struct cluster_units *units, int64_t unit, int64_t domain_id, uint32_t *ret)
{
	const struct known_row *domain = known_find(&units->domains, (int64_t)(domain_id + 1ull), 0), *known;
	struct known_row row = { .hash.id = unit_key(unit), .number = units->origin_nr };

	if (!domain || unit == INT64_MIN || units->origin_nr == UINT32_MAX)
		return -EBADMSG;
	row.domain = domain->number;
	known = known_find(&units->origins, row.hash.id, row.domain);
	*ret = known ? known->number : row.number;
	if (known)
		return 0;
	return known_add(&units->origins, &row) ?:
	       array_push(units, origin, ((struct unit_origin){ unit, domain_id, row.domain }));
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

struct sums_reading {
	struct cluster_units *units;
	struct fleet_sum sum;
	size_t cost_alloc;
	uint64_t row_nr;
};

/* sums: a text, which is freed. */
static char *by_unit(const struct cluster_units *units, char *sums, const char *columns, const char *added)
{
	char *sql = NULL;

	if (sums)
		sql = row_sql_fill(ROW_SQL_units, ROW_PLACES({ "unit", units->unit }, { "rules", units->rules },
							      { "sums", sums }, { "columns", columns }, { "added", added }));
	free(sums);
	return sql;
}

static int reach_origin(struct sums_reading *reading, uint32_t origin)
{
	struct fleet_sum *sum = &reading->sum;
	int err = array_reserve(&sum->cost, &reading->cost_alloc, origin + 1ull);

	for (; !err && sum->origin_nr <= origin; sum->origin_nr++)
		sum->cost[sum->origin_nr] = (struct cost){};
	return err;
}

/* value: unit, domain, bytes, blocks, bytes as a double, rows. A server's sum of integers wraps around. */
static int take_sum(void *reading_, const union row_value *value)
{
	struct sums_reading *reading = reading_;
	uint32_t origin = 0;
	int err = units_find_origin(reading->units, value[0].number, value[1].number, &origin);

	if (!err && (value[4].real > 9.2e18 || value[2].number < 0 || value[3].number < 0))
		err = -ERANGE;
	err = err ?: reach_origin(reading, origin);
	if (err)
		return err;
	reading->sum.cost[origin] = (struct cost){ .size = value[2].number, .count = value[3].number };
	reading->row_nr += value[5].number;
	return 0;
}

static int take_spread(void *reading_, const union row_value *value)
{
	struct sums_reading *reading = reading_;
	uint32_t origin = 0;
	int err = units_find_origin(reading->units, value[0].number, value[1].number, &origin);

	if (err || origin >= reading->sum.origin_nr)
		return err ?: -EBADMSG;
	reading->sum.sums[origin].all = (struct spread){
		.size = { value[2].real, value[3].real, value[4].real },
		.count = { value[5].real, value[6].real, value[7].real },
	};
	return 0;
}

static int read_spreads(struct sums_reading *reading, const struct cohort *cohort, struct reason *why)
{
	bool has_times = cohort->snapshot_nr > cohort->process_nr;
	char *sums = row_sql_fill(ROW_SQL_spreads, ROW_PLACES({ "is_alike", has_times ? "1" : "0" }));
	const struct chosen_query query = {
		.sql = by_unit(reading->units, sums,
			       "beyond_s, variance_s, covariance_s, beyond_c, variance_c, covariance_c",
			       "sum(beyond_s), sum(variance_s), sum(covariance_s),"
			       " sum(beyond_c), sum(variance_c), sum(covariance_c)"),
		.snapshot = cohort->snapshot, .snapshot_nr = cohort->snapshot_nr, .wants_numbers = true,
		.types = "iirrrrrr", .row = take_spread, .what = reading,
	};

	reading->sum.sums = calloc(reading->sum.origin_nr + 1ull, sizeof(*reading->sum.sums));
	if (!reading->sum.sums) {
		free(query.sql);
		return -ENOMEM;
	}
	return cluster_ask_chosen(reading->units->cluster, &query, why);
}

int cluster_units__sum(struct cluster_units *units, const struct cohort *cohort, struct fleet_sum *ret,
		       struct reason *why)
{
	struct sums_reading reading = { .units = units, .sum = fleet_sum_begin(cohort) };
	const struct chosen_query query = {
		.sql = by_unit(units, row_sql_fill(ROW_SQL_origins, NULL, 0), "bytes, blocks, about, row_nr",
			       "sum(bytes), sum(blocks), sum(about), sum(row_nr)"),
		.snapshot = cohort->snapshot, .snapshot_nr = cohort->snapshot_nr, .types = "iiiiri", .row = take_sum,
		.what = &reading,
	};
	int err = cluster_ask_chosen(units->cluster, &query, why);

	if (!err && reading.row_nr != cohort_row_nr(cohort))
		err = units_report_lack(units, why);
	if (!err && cohort_has_samples(cohort))
		err = read_spreads(&reading, cohort, why);
	if (err == -ERANGE)
		err = cohort_explain_error(cost_too_much(why), &cohort, 1, why);
	if (err)
		fleet_sum_release(&reading.sum);
	else
		*ret = reading.sum;
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int take_each(void *units, const union row_value *value)
{
	uint32_t origin;

	return value[0].number > 0 ? units_find_origin(units, value[0].number, 0, &origin) : -EBADMSG;
}

/* They are of domain 0, which each catalogue has. */
int cluster_units__want_all(struct cluster_units *units, struct reason *why)
{
	const struct known_row domain = { .hash.id = 1 };
	int err = known_find(&units->domains, 1, 0) ? 0 : known_add(&units->domains, &domain);

	return err ? reason_set(why, err, "out of memory") : cluster__ask(units->cluster, &(struct cluster_query){
		.sql = "SELECT DISTINCT traceback_id FROM traceback ORDER BY traceback_id", .types = "i", .row = take_each, .what = units,
	}, why);
}

/* ---- hosts ---------------------------------------------------------------------------------------------------- */

struct hosts_reading {
	struct host_rows rows;
	size_t row_alloc;
	const struct groups *groups;
	uint32_t host_nr;
};

/* The columns of hosts.sql. */
static int take_host_row(void *reading_, const union row_value *value)
{
	struct hosts_reading *reading = reading_;
	struct host_row row = {
		.group = value[0].number, .hosts = value[1].number, .median = value[2].number, .p95 = value[3].number,
		.max = value[4].number, .mad = value[5].number, .sum = value[6].number, .max_host = value[8].number,
		.outliers = value[9].number,
	};
	int err;

	if (value[0].number < 0 || (uint64_t)value[0].number >= reading->groups->key_nr || value[8].number < 0 ||
	    value[8].number >= reading->host_nr)
		return -EBADMSG;
	for (size_t i = 2; i <= 6; i++)
		if (value[7].real > 9.2e18 || value[i].number < 0)
			return -ERANGE;
	err = array_reserve(&reading->rows.row, &reading->row_alloc, reading->rows.row_nr + 1);
	if (!err)
		reading->rows.row[reading->rows.row_nr++] = row;
	return err;
}

struct grouped_units {
	int64_t *number;
	size_t number_nr, number_alloc;
};

static int list_grouped(const struct cluster_units *units, const struct groups *groups, struct grouped_units *ret)
{
	int err = 0;

	for (size_t i = 0; i < units->origin_nr && !err; i++)
		for (uint32_t at = groups->first[i]; at < groups->first[i + 1] && !err; at++)
			err = array_push(ret, number, units->origin[i].unit) ?:
			      array_push(ret, number, units->origin[i].domain_id) ?: array_push(ret, number, groups->group[at]);
	return err;
}

static char *make_host_sums(const struct cluster_units *units, const char *table, const char *sums)
{
	return row_sql_fill(ROW_SQL_host_sums, ROW_PLACES({ "unit", units->unit }, { "rules", units->rules },
							   { "table", table }, { "sums", sums }));
}

static char *make_hosts_sql(const struct cluster_units *units, const struct cohort *cohort)
{
	char *own = make_host_sums(units, "allocation", "sum(size) AS bytes, 0.0 AS beyond"), *beyond = NULL;
	char nr[16], half[16], most[16], *sums = NULL, *sql = NULL;

	snprintf(nr, sizeof(nr), "%" PRIu32, cohort->host_nr);
	snprintf(half, sizeof(half), "%zu", nearest_rank(cohort->host_nr, 50));
	snprintf(most, sizeof(most), "%zu", nearest_rank(cohort->host_nr, 95));
	if (cohort_has_samples(cohort))
		beyond = make_host_sums(units, "sample", "toInt64(0) AS bytes, sum(size_beyond) AS beyond");
	if (own && (beyond || !cohort_has_samples(cohort)) &&
	    asprintf(&sums, "%s%s%s", own, beyond ? " UNION ALL " : "", beyond ?: "") < 0)
		sums = NULL;
	if (sums)
		sql = row_sql_fill(ROW_SQL_hosts, ROW_PLACES({ "sums", sums }, { "nr", nr }, { "half", half }, { "most", most }));
	free(own);
	free(beyond);
	free(sums);
	return sql;
}

int cluster_units__hosts(struct cluster_units *units, const struct cohort *cohort, const struct groups *groups,
			 struct host_rows *ret, struct reason *why)
{
	struct hosts_reading reading = { .groups = groups, .host_nr = cohort->host_nr };
	struct grouped_units grouped = {};
	int err = list_grouped(units, groups, &grouped);
	const struct cluster_table table = {
		.name = "grouped", .columns = "unit Int64, domain Int64, group_nr Int64", .number = grouped.number,
		.nr = grouped.number_nr,
	};

	err = err ?: cluster_ask_chosen(units->cluster, &(struct chosen_query){
		.sql = make_hosts_sql(units, cohort), .snapshot = cohort->snapshot,
		.snapshot_nr = cohort->snapshot_nr, .wants_numbers = true, .more = &table, .types = "iiiiiiirii",
		.row = take_host_row, .what = &reading,
	}, why);
	free(grouped.number);
	if (err == -ERANGE)
		err = cohort_explain_error(cost_too_much(why), &cohort, 1, why);
	if (err)
		host_rows_release(&reading.rows);
	else
		host_rows_sort(&reading.rows, groups);
	if (!err)
		*ret = reading.rows;
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
