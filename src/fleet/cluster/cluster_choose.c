// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_choose.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/text_stream.h"
#include "fleet/catalogue_private.h"
#include "fleet/row_tables.h"

/* choice.sql selects this for a snapshot, besides the columns of its row. */
struct chosen_upload {
	int64_t chosen_by, behind_ns, twins;
	char *fate;
};

struct choosing {
	struct cluster *cluster;
	struct facts_builder *facts;
	struct cohort_ended ended, unseen;
	int64_t *upload; /* ascending */
	size_t upload_nr, upload_alloc;
	struct chosen_upload *told; /* of each upload */
	size_t told_nr, told_alloc;
	size_t at; /* the next upload of which the row comes */
	int64_t first, last; /* seconds: partitions of other times are not read */
};

/* ---- the text ------------------------------------------------------------------------------------------------- */

static char *join_texts(const char *before, char *const *text, size_t nr, const char *after, const char *between)
{
	char *joined = NULL;
	size_t len;
	FILE *out = open_memstream(&joined, &len);

	for (size_t i = 0; out && i < nr; i++)
		fprintf(out, "%s%s%s%s", i ? between : "", before, text[i], after);
	if (out && !fclose(out))
		return joined;
	free(joined);
	return NULL;
}

static char *make_fates(const char *those, const char *among)
{
	char *boots = among ? row_sql_fill(ROW_SQL_boots, ROW_PLACES({ "among", among })) : NULL, *fates = NULL;

	if (boots && those)
		fates = row_sql_fill(ROW_SQL_fates, ROW_PLACES({ "those", those }, { "among", among }, { "boots", boots }));
	free(boots);
	return fates;
}

static int make_condition(const struct cluster_choice *choice, char **ret, struct reason *why)
{
	char *all_fates = make_fates("1", "1");
	size_t len;
	FILE *out = open_memstream(ret, &len);
	int err = all_fates && out ? 0 : -ENOMEM;

	err = err ?: fleet_selections_write_sql(choice->selection, choice->selection_nr, all_fates, out, why);
	if (out)
		err = text_stream_close(out, ret) ?: err;
	free(all_fates);
	return err;
}

static char *make_chosen(const struct cluster_choice *choice, const char *where)
{
	bool is_latest = choice->times == COHORT_LATEST || choice->times == COHORT_LIVE;

	return row_sql_fill(is_latest ? ROW_SQL_latest : ROW_SQL_all_times, ROW_PLACES({ "where", where }));
}

/* Processes and hosts of other snapshots are of no interest. */
static char *make_choice_sql(char *const *where, char *const *chosen, size_t choice_nr, const char *live)
{
	char *those = join_texts("process_id IN (SELECT process_id FROM snapshot WHERE ", where, choice_nr, ")", " OR ");
	char *among = join_texts("host_id IN (SELECT host_id FROM snapshot WHERE ", where, choice_nr, ")", " OR ");
	char *chosen_by = join_texts("(snapshot_id IN (", chosen, choice_nr, "))", " + 2 * ");
	char *fates = make_fates(those, among), *sql = NULL;

	if (chosen_by && fates)
		sql = row_sql_fill(ROW_SQL_choice, ROW_PLACES({ "live", live }, { "chosen_by", chosen_by }, { "fates", fates }));
	free(those);
	free(among);
	free(chosen_by);
	free(fates);
	return sql;
}

/* Writes the question of choice.sql to *ret, which the caller frees, also after a failure. */
static int write_choice_sql(const struct cluster_choice *choice, size_t choice_nr, const char *live, char **ret,
			    struct reason *why)
{
	char *where[CLUSTER_CHOICES_MAX] = {}, *chosen[CLUSTER_CHOICES_MAX] = {};
	int err = 0;

	for (size_t i = 0; i < choice_nr && !err; i++) {
		err = make_condition(&choice[i], &where[i], why);
		chosen[i] = err ? NULL : make_chosen(&choice[i], where[i]);
		err = err ?: chosen[i] ? 0 : -ENOMEM;
	}
	*ret = err ? NULL : make_choice_sql(where, chosen, choice_nr, live);
	for (size_t i = 0; i < choice_nr; i++) {
		free(where[i]);
		free(chosen[i]);
	}
	return err ?: *ret ? 0 : -ENOMEM;
}

/* ---- which snapshots ------------------------------------------------------------------------------------------ */

/* value: the columns of choice.sql. */
static int take_choice(void *choosing_, const union row_value *value)
{
	struct choosing *c = choosing_;
	struct chosen_upload told = { value[1].number, value[4].number, value[6].number };
	int err;

	if (value[0].number <= 0) {
		*(value[0].number ? &c->unseen : &c->ended) = (struct cohort_ended){
			value[2].number, value[3].real, value[4].number, value[5].number,
		};
		return 0;
	}
	c->first = c->upload_nr && c->first < value[7].number ? c->first : value[7].number;
	c->last = c->upload_nr && c->last > value[7].number ? c->last : value[7].number;
	told.fate = strdup(value[8].text);
	err = told.fate ? array_push(c, told, told) : -ENOMEM;
	if (err)
		free(told.fate);
	return err ?: array_push(c, upload, value[0].number);
}

static int choose_uploads(struct choosing *c, const struct cluster_choice *choice, size_t choice_nr, bool is_live,
			  struct reason *why)
{
	char *sql = NULL;
	int err = write_choice_sql(choice, choice_nr, is_live ? "fate IN ('', '" ENDING_RUNNING "')" : "1", &sql, why);

	err = err ?: cluster__ask(c->cluster, &(struct cluster_query){
		.sql = sql, .types = "iiiriiiit", .row = take_choice, .what = c,
	}, why);
	free(sql);
	return err;
}

/* ---- their facts ---------------------------------------------------------------------------------------------- */

/* In the order of take_snapshot(). */
#define X(name) ", " #name
static const char fact_columns[] = "upload_id, gap_size, gap_count, is_sampled" FLEET_NUMBERS(X) ", path" FLEET_TEXTS(X);
#undef X

#define INTEGER(name) "i"
#define TEXT(name) "t"
static const char fact_types[] = "iiii" FLEET_NUMBERS(INTEGER) "t" FLEET_TEXTS(TEXT);
enum { PATH = sizeof("iiii" FLEET_NUMBERS(INTEGER)) - 1 };

static int take_snapshot(void *choosing_, const union row_value *value)
{
	struct choosing *c = choosing_;
	const struct chosen_upload *told = &c->told[c->at];
	struct fleet_snapshot snapshot = {
		.upload_id = value[0].number, .gap_blocks = { .size = value[1].number, .count = value[2].number },
		.is_sampled = value[3].number, .is_open = value[3].number > 1, .path = value[PATH].text,
	};
	size_t at = 4;

	if (c->at == c->upload_nr || c->upload[c->at++] != snapshot.upload_id)
		return -EBADMSG;
#define X(name) snapshot.name = value[at++].number;
	FLEET_NUMBERS(X)
#undef X
#define X(name) snapshot.name = value[++at].text;
	FLEET_TEXTS(X)
#undef X
	snapshot.ending = told->fate;
	snapshot.behind_ns = told->behind_ns;
	snapshot.has_twin = told->twins;
	snapshot.chosen_by = told->chosen_by;
	return facts_builder__snapshot(c->facts, snapshot.upload_id, &snapshot);
}

static int take_label(void *choosing, const union row_value *value)
{
	return facts_builder__label(((struct choosing *)choosing)->facts, value[0].number, value[1].text, value[2].text);
}

static int take_loss(void *choosing, const union row_value *value)
{
	return facts_builder__loss(((struct choosing *)choosing)->facts, value[0].number, value[1].text, value[2].number);
}

/* The rows of a table, in the order of their columns. */
static int ask_uploads(struct choosing *c, const char *table_name, const char *columns, const char *types,
		       int (*row)(void *what, const union row_value *value), struct reason *why)
{
	const struct cluster_table table = { .number = c->upload, .nr = c->upload_nr };
	char *sql = NULL;
	int err;

	if (asprintf(&sql, "SELECT DISTINCT %s FROM %s WHERE time BETWEEN %" PRId64 " AND %" PRId64 " AND upload_id IN"
		     " (SELECT chosen_id FROM chosen) ORDER BY %s", columns, table_name, c->first, c->last,
		     columns == fact_columns ? "upload_id" : columns) < 0)
		return -ENOMEM;
	err = cluster__ask(c->cluster, &(struct cluster_query){
		.sql = sql, .table = &table, .table_nr = 1, .types = types, .row = row, .what = c,
	}, why);
	free(sql);
	return err;
}

static int read_chosen(struct choosing *c, bool labels, struct reason *why)
{
	int err = ask_uploads(c, "snapshot", fact_columns, fact_types, take_snapshot, why) ?:
		  ask_uploads(c, "loss", "upload_id, name, value", "iti", take_loss, why);

	return err || !labels ? err : ask_uploads(c, "label", "upload_id, name, value", "itt", take_label, why);
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static enum cohort_times times_of(const struct cluster_choice *choice)
{
	for (size_t i = 0; choice->times == COHORT_LIVE && i < choice->selection_nr; i++)
		if (fleet_selection_asks_for_ended(choice->selection[i]))
			return COHORT_LATEST;
	return choice->times;
}

static int make_cohorts(const struct choosing *c, const struct cluster_choice *choice, size_t choice_nr,
			const struct fleet_facts *facts, struct cohort *const *ret)
{
	int err = 0;

	for (size_t i = 0; i < choice_nr && !err; i++)
		err = cohort_of_chosen(facts, 1 << i, times_of(&choice[i]), ret[i]);
	if (err)
		return err;
	ret[0]->ended = c->ended;
	ret[0]->unseen = c->unseen;
	return 0;
}

static int read_chosen_facts(struct choosing *c, const struct cluster_choice *choice, size_t choice_nr, bool labels,
		      struct reason *why)
{
	int err = choose_uploads(c, choice, choice_nr, times_of(choice) == COHORT_LIVE, why);

	c->facts = facts_builder__new();
	if (!err && !c->facts)
		err = -ENOMEM;
	return err ?: c->upload_nr ? read_chosen(c, labels, why) : 0;
}

int cluster_choose(struct cluster *cluster, const struct cluster_choice *choice, size_t choice_nr, bool labels,
		   struct fleet_facts *ret_facts, struct cohort *const *ret_cohort, struct reason *why)
{
	struct choosing c = { .cluster = cluster };
	int err = read_chosen_facts(&c, choice, choice_nr, labels, why) ?: facts_builder__finish(c.facts, ret_facts) ?:
		  make_cohorts(&c, choice, choice_nr, ret_facts, ret_cohort);

	facts_builder__free(c.facts);
	for (size_t i = 0; i < c.told_nr; i++)
		free(c.told[i].fate);
	free(c.told);
	free(c.upload);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

/* ---- their rows ------------------------------------------------------------------------------------------------ */

/* Partitions of other times than the snapshots' are not read. */
static char *fill_times(const char *sql, const struct chosen_query *query)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	char *filled = NULL;
	size_t len;
	FILE *out = open_memstream(&filled, &len);

	for (size_t i = 0; i < query->snapshot_nr; i++) {
		int64_t time = query->snapshot[i]->time_ns / 1000000000;

		first = time < first ? time : first;
		last = time > last ? time : last;
	}
	for (const char *at = sql; out && *at;) {
		bool is_first = !strncmp(at, "{first}", 7), is_last = !strncmp(at, "{last}", 6);

		if (is_first || is_last)
			fprintf(out, "%" PRId64, is_first ? first : last);
		else
			putc(*at, out);
		at += is_first ? 7 : is_last ? 6 : 1;
	}
	if (out && !fclose(out))
		return filled;
	free(filled);
	return NULL;
}

static int64_t *list_chosen(const struct chosen_query *query, size_t *ret_nr)
{
	size_t width = query->wants_numbers ? 3 : 1;
	int64_t *number = calloc(query->snapshot_nr + 1, width * sizeof(*number)), *at = number;

	for (size_t i = 0; number && i < query->snapshot_nr; i++) {
		*at++ = query->snapshot[i]->upload_id;
		if (!query->wants_numbers)
			continue;
		*at++ = query->snapshot[i]->process;
		*at++ = query->snapshot[i]->host_nr;
	}
	*ret_nr = query->snapshot_nr * width;
	return number;
}

int cluster_ask_chosen(struct cluster *cluster, const struct chosen_query *query, struct reason *why)
{
	char *sql = query->sql ? fill_times(query->sql, query) : NULL;
	struct cluster_table table[2] = { {
		.columns = query->wants_numbers ? "chosen_id Int64, process_nr Int64, host_nr Int64" : NULL,
	} };
	int64_t *number = list_chosen(query, &table[0].nr);
	int err = -ENOMEM;

	table[0].number = number;
	if (query->more)
		table[1] = *query->more;
	if (sql && number)
		err = cluster__ask(cluster, &(struct cluster_query){
			.sql = sql, .table = table, .table_nr = query->more ? 2 : 1, .types = query->types,
			.row = query->row, .what = query->what,
		}, why);
	free(query->sql);
	free(sql);
	free(number);
	return err;
}
