// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of a cluster: domains, frames, and tracebacks with their frames in one blob each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/mirror_private.h"
#include "fleet/index_private.h"

struct names_reading {
	struct cluster_mirror *mirror;
	struct reason *why;
	struct known taken; /* numbers + 1 of domains */
	int64_t traceback_id; /* the one whose frames are being read; 0: none yet */
	int64_t *frame;
	size_t frame_nr, frame_alloc;
};

/* ---- domains -------------------------------------------------------------------------------------------------- */

static int64_t free_domain_number(const struct names_reading *reading, int64_t wanted)
{
	int64_t number = wanted < DOMAIN_OWN || wanted > UINT32_MAX - 1 ? DOMAIN_OWN : wanted;

	while (known_find(&reading->taken, number + 1, 0))
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

/* Programs' domains keep their catalogue's numbers if these are free. A row with a name comes before one without. */
static int take_domain(void *reading_, const union row_value *value)
{
	struct names_reading *reading = reading_;
	int64_t id = value[0].number, number = id < DOMAIN_OWN ? id : free_domain_number(reading, value[2].number);
	const struct known_row domain = { .hash.id = id + 1, .number = number };
	const struct known_row taken = { .hash.id = number + 1 };
	int err;

	if (id < 0 || known_find(&reading->mirror->domains, id + 1, 0))
		return id < 0 ? -EBADMSG : 0;
	err = known_add(&reading->mirror->domains, &domain) ?: known_add(&reading->taken, &taken);
	if (err || !has_domain_name(id, value[1].text))
		return err;
	return mirror_insert(reading->mirror, MIRROR_DOMAIN, "it",
			     (union row_value[]){ { .number = number }, { .text = value[1].text } }, reading->why);
}

int mirror_read_domains(struct cluster_mirror *mirror, struct reason *why)
{
	static const enum row_type types[] = { ROW_INT, ROW_TEXT, ROW_INT };
	struct names_reading reading = { .mirror = mirror, .why = why };
	const struct cluster_query query = {
		.sql = "SELECT DISTINCT domain, name, number FROM domain ORDER BY number, name DESC, domain",
		.type = types, .column_nr = 3, .row = take_domain, .what = &reading,
	};
	int err = cluster__ask(mirror->cluster, &query, why);

	known_release(&reading.taken);
	return err;
}

/* ---- frames and tracebacks ------------------------------------------------------------------------------------ */

static int take_frame(void *reading_, const union row_value *value)
{
	struct names_reading *reading = reading_;

	return mirror_insert(reading->mirror, MIRROR_FRAME, "iititittii", value, reading->why);
}

static int insert_origin_of_traceback(struct names_reading *reading)
{
	struct cluster_mirror *mirror = reading->mirror;

	if (!mirror->wants_tracebacks)
		return 0;
	if (mirror->origin_nr == UINT32_MAX)
		return -EBADMSG;
	return mirror_insert(mirror, MIRROR_ORIGIN, "iii", (union row_value[]){
		{ .number = mirror->origin_nr++ }, { .number = reading->traceback_id }, { .number = 0 },
	}, reading->why);
}

static int insert_traceback(struct names_reading *reading)
{
	struct cluster_mirror *mirror = reading->mirror;
	sqlite3_stmt *insert = mirror->insert[MIRROR_TRACEBACK];

	if (!reading->traceback_id)
		return 0;
	sqlite3_bind_int64(insert, 1, reading->traceback_id);
	return sql_bind_blob(mirror->catalogue, insert, 2, reading->frame ? (const void *)reading->frame : "",
			     reading->frame_nr * sizeof(*reading->frame), reading->why) ?:
	       sql_finish(mirror->catalogue, insert, reading->why) ?: insert_origin_of_traceback(reading);
}

/* Rows come ordered by traceback and position, from 0 without a gap; position -1 is there for each. */
static int take_traceback_frame(void *reading_, const union row_value *value)
{
	struct names_reading *reading = reading_;
	int err;

	if (value[0].number != reading->traceback_id) {
		err = insert_traceback(reading);
		reading->traceback_id = value[0].number;
		reading->frame_nr = 0;
		return err || value[1].number != -1 ? err ?: -EBADMSG : 0;
	}
	if (value[1].number != (int64_t)reading->frame_nr)
		return -EBADMSG;
	return array_push(reading, frame, value[2].number);
}

int mirror_read_names(struct cluster_mirror *mirror, struct reason *why)
{
	static const enum row_type frame[] = {
		ROW_INT, ROW_INT, ROW_TEXT, ROW_INT, ROW_TEXT, ROW_INT, ROW_TEXT, ROW_TEXT, ROW_INT, ROW_INT,
	};
	static const enum row_type traceback[] = { ROW_INT, ROW_INT, ROW_INT };
	struct names_reading reading = { .mirror = mirror, .why = why };
	const struct cluster_query frames = {
		.sql = "SELECT DISTINCT frame_id, verify, file, line, func, first_line, module, build_id, offset, flags FROM frame"
		       " WHERE frame_id > 0 ORDER BY frame_id",
		.type = frame, .column_nr = ARRAY_SIZE(frame), .row = take_frame, .what = &reading,
	};
	const struct cluster_query tracebacks = {
		.sql = "SELECT DISTINCT traceback_id, position, frame_id FROM ("
		       " SELECT traceback_id, toInt64(-1) AS position, toInt64(0) AS frame_id FROM traceback"
		       " UNION ALL SELECT traceback_id, position, frame_id FROM traceback_frame"
		       " WHERE traceback_id IN (SELECT traceback_id FROM traceback)"
		       ") AS both ORDER BY traceback_id, position, frame_id",
		.type = traceback, .column_nr = 3, .row = take_traceback_frame, .what = &reading,
	};
	int err = cluster__ask(mirror->cluster, &frames, why) ?: cluster__ask(mirror->cluster, &tracebacks, why) ?:
		  insert_traceback(&reading);

	free(reading.frame);
	return err;
}
