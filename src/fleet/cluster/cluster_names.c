// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"
#include "fleet/row_tables.h"

/* ---- tracebacks ----------------------------------------------------------------------------------------------- */

/* Frames of a traceback, or a chain of names, in `frame`. */
struct frame_list {
	int64_t id;
	size_t first, nr;
};

struct id_list {
	int64_t *id;
	size_t id_nr, id_alloc;
};

struct naming {
	struct cluster_units *units;
	struct dictionary_maker *maker;
	struct frame_list *list;
	size_t list_nr, list_alloc;
	int64_t *frame;
	size_t frame_nr, frame_alloc;
	struct known wanted; /* ids of frames */
	struct id_list wanted_frames;
};

static int want_frame(struct naming *n, int64_t id)
{
	const struct known_row row = { .hash.id = id };

	if (id <= 0)
		return id ? -EBADMSG : 0;
	if (known_find(&n->wanted, id, 0))
		return 0;
	return known_add(&n->wanted, &row) ?: array_push(&n->wanted_frames, id, id);
}

/* value: list, position, frame. Rows come ordered by list and position, from 0 without a gap. */
static int take_list_frame(void *naming, const union row_value *value)
{
	struct naming *n = naming;
	int64_t id = value[0].number, position = value[1].number, frame = value[2].number;
	struct frame_list *list = n->list_nr ? &n->list[n->list_nr - 1] : NULL;
	int err = 0;

	if (!position)
		err = array_push(n, list, ((struct frame_list){ .id = id, .first = n->frame_nr }));
	else if (!list || list->id != id || position != (int64_t)list->nr)
		err = -EBADMSG;
	err = err ?: array_push(n, frame, frame) ?: want_frame(n, frame);
	if (!err)
		n->list[n->list_nr - 1].nr++;
	return err;
}

static int ask_about(struct naming *n, const struct id_list *ids, const char *sql, const char *types,
		     int (*row)(void *what, const union row_value *value), struct reason *why)
{
	const struct cluster_table table = { .number = ids->id, .nr = ids->id_nr };

	return !ids->id_nr ? 0 : cluster__ask(n->units->cluster, &(struct cluster_query){
		.sql = sql, .table = &table, .table_nr = 1, .types = types, .row = row, .what = n,
	}, why);
}

/* A traceback in several domains is listed for each. */
static int list_units(struct naming *n, struct id_list *tracebacks)
{
	int err = 0;

	for (size_t i = 0; i < n->units->origin_nr && !err; i++) {
		int64_t unit = n->units->origin[i].unit;

		err = unit > 0 ? array_push(tracebacks, id, unit) : want_frame(n, -unit);
	}
	return err;
}

static int read_tracebacks(struct naming *n, struct reason *why)
{
	struct id_list tracebacks = {};
	int err = list_units(n, &tracebacks) ?:
		  ask_about(n, &tracebacks, "SELECT DISTINCT traceback_id, position, frame_id FROM traceback_frame WHERE traceback_id"
			    " IN (SELECT chosen_id FROM chosen) ORDER BY traceback_id, position", "iii", take_list_frame, why);

	free(tracebacks.id);
	return err;
}

/* Appends the chains of places to the lists of tracebacks. */
static int read_chains(struct naming *n, struct reason *why)
{
	char *lendable = units_lendable_sql(false), *disputed = units_lendable_sql(true), *sql = NULL;
	int err = -ENOMEM;

	if (lendable && disputed)
		sql = row_sql_fill(ROW_SQL_chains, ROW_PLACES({ "lendable", lendable }, { "disputed", disputed }));
	if (sql)
		err = ask_about(n, &n->wanted_frames, sql, "iii", take_list_frame, why);
	free(lendable);
	free(disputed);
	free(sql);
	return err;
}

/* ---- the dictionary ------------------------------------------------------------------------------------------- */

static int take_frame(void *n, const union row_value *value)
{
	return dictionary_maker__frame(((struct naming *)n)->maker, &(struct dictionary_frame){
		.id = value[0].number, .filename = value[1].text, .lineno = value[2].number, .function = value[3].text,
		.first_line = value[4].number, .object = value[5].text, .build_id = value[6].text,
		.offset = value[7].number, .flags = value[8].number,
	});
}

static int read_named_frames(struct naming *n, struct reason *why)
{
	return ask_about(n, &n->wanted_frames, "SELECT DISTINCT frame_id, file, line, func, first_line, module, build_id, offset,"
			 " flags FROM frame WHERE frame_id IN (SELECT chosen_id FROM chosen) ORDER BY frame_id", "ititittii",
			 take_frame, why);
}

static int learn_names(struct naming *n, size_t first)
{
	int err = 0;

	for (size_t i = first; i < n->list_nr && !err; i++)
		err = dictionary_maker__learn(n->maker, n->frame + n->list[i].first, n->list[i].nr);
	for (size_t i = first; i < n->list_nr && !err; i++)
		err = dictionary_maker__look_up(n->maker, n->frame + n->list[i].first, n->list[i].nr);
	return err;
}

/* Units that have no list: own frames, and tracebacks without frames. */
static int add_units_without_list(struct naming *n, struct known *seen)
{
	int err = 0;

	for (size_t i = 0; i < n->units->origin_nr && !err; i++) {
		int64_t unit = n->units->origin[i].unit, frame = -unit;
		const struct known_row row = { .hash.id = unit_key(unit) };

		if (known_find(seen, row.hash.id, 0))
			continue;
		err = known_add(seen, &row) ?: dictionary_maker__traceback(n->maker, row.hash.id, &frame, unit < 0);
	}
	return err;
}

static int add_units(struct naming *n, size_t traceback_nr)
{
	struct known seen = {};
	int err = 0;

	for (size_t i = 0; i < traceback_nr && !err; i++) {
		const struct known_row row = { .hash.id = n->list[i].id };

		err = known_add(&seen, &row) ?:
		      dictionary_maker__traceback(n->maker, n->list[i].id, n->frame + n->list[i].first, n->list[i].nr);
	}
	err = err ?: add_units_without_list(n, &seen);
	known_release(&seen);
	return err;
}

static int add_origins(struct naming *n)
{
	const struct cluster_units *units = n->units;
	int err = 0;

	for (size_t i = 0; i < units->origin_nr && !err; i++)
		err = dictionary_maker__origin(n->maker, unit_key(units->origin[i].unit), units->origin[i].domain);
	for (size_t i = 0; i < units->domain_nr && !err; i++)
		err = dictionary_maker__domain(n->maker, units->domain[i].number, units->domain[i].name);
	return err;
}

static int make_dictionary(struct naming *n, struct dictionary *ret, struct reason *why)
{
	int err = read_tracebacks(n, why);
	size_t traceback_nr = n->list_nr;

	if (!err && n->units->has_lendable)
		err = read_chains(n, why);
	err = err ?: read_named_frames(n, why) ?: learn_names(n, traceback_nr) ?: add_units(n, traceback_nr) ?:
	      add_origins(n) ?: dictionary_maker__finish(n->maker, ret);
	return err == -EINVAL ? units_report_lack(n->units, why) : err;
}

int cluster_units__names(struct cluster_units *units, const struct dictionary_options *options, struct dictionary *ret,
			 struct reason *why)
{
	struct naming n = { .units = units };
	int err = dictionary_maker__new(options, &n.maker) ?: make_dictionary(&n, ret, why);

	dictionary_maker__free(n.maker);
	free(n.list);
	free(n.frame);
	known_release(&n.wanted);
	free(n.wanted_frames.id);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
