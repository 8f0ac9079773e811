// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Adds the frames, tracebacks, domains and origins that no earlier file had. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/index_private.h"

/* A result besides 0 and errors. */
enum { OTHER = 1 }; /* the id belongs to something else */

/* Returns 0 if the hash is known, -ENOENT if it is not, or OTHER. */
static int library_look_up(const struct known *known, const struct hash_id *hash)
{
	const struct known_row *row = known_find(known, hash->id, 0);

	return !row ? -ENOENT : row->hash.verify == hash->verify ? 0 : OTHER;
}

/* Call it after the row is written to the catalogue. */
static int library_add_row(struct known *known, const struct known_row *row, struct reason *why)
{
	return known_add(known, row) ? reason_set(why, -ENOMEM, "%s", strerror(ENOMEM)) : 0;
}

/* ---- frames and tracebacks ------------------------------------------------------------------------- */

static int write_frame(struct index_writer *w, const struct found *found, const struct found_frame *frame,
		       struct reason *why)
{
	const struct catalogue *catalogue = w->catalogue;
	sqlite3_stmt *insert = w->statement[INSERT_FRAME];

	sqlite3_bind_int64(insert, 1, frame->hash.id);
	sqlite3_bind_int64(insert, 2, frame->hash.verify);
	sqlite3_bind_int64(insert, 4, frame->lineno);
	sqlite3_bind_int64(insert, 6, frame->first_line);
	sqlite3_bind_int64(insert, 9, frame->offset);
	sqlite3_bind_int64(insert, 10, frame->flags);
	return sql_bind_text(catalogue, insert, 3, found->text + frame->filename, why) ?:
	       sql_bind_text(catalogue, insert, 5, found->text + frame->function, why) ?:
	       sql_bind_text(catalogue, insert, 7, found->text + frame->object, why) ?:
	       sql_bind_text(catalogue, insert, 8, found->text + frame->build_id, why) ?:
	       sql_finish(catalogue, insert, why);
}

static int library_add_frame(struct index_writer *w, const struct found *found, const struct found_frame *frame,
			     struct reason *why)
{
	int err = library_look_up(&w->library->frames, &frame->hash);

	if (err != -ENOENT)
		return err;
	return write_frame(w, found, frame, why) ?:
	       library_add_row(&w->library->frames, &(struct known_row){ .hash = frame->hash }, why);
}

static int write_traceback(struct index_writer *w, const struct found *found,
			   const struct found_traceback *traceback, struct reason *why)
{
	const uint32_t *frame = found->traceback_frame + traceback->first;
	sqlite3_stmt *insert = w->statement[INSERT_TRACEBACK];

	for (uint32_t i = 0; i < traceback->nframe; i++)
		w->frame_ids[i] = found->frame[frame[i]].hash.id;
	sqlite3_bind_int64(insert, 1, traceback->hash.id);
	sqlite3_bind_int64(insert, 2, traceback->hash.verify);
	return sql_bind_blob(w->catalogue, insert, 3, traceback->nframe ? (void *)w->frame_ids : "",
			     traceback->nframe * sizeof(*w->frame_ids), why) ?:
	       sql_finish(w->catalogue, insert, why);
}

static int add_frames(struct index_writer *w, const struct found *found,
		      const struct found_traceback *traceback, struct reason *why)
{
	const uint32_t *frame = found->traceback_frame + traceback->first;
	int err = 0;

	for (uint32_t i = 0; i < traceback->nframe && !err; i++)
		err = library_add_frame(w, found, &found->frame[frame[i]], why);
	return err;
}

static int library_add_traceback(struct index_writer *w, const struct found *found,
				 const struct found_traceback *traceback, struct reason *why)
{
	int err = library_look_up(&w->library->tracebacks, &traceback->hash);

	if (err != -ENOENT)
		return err;
	if (array_reserve(&w->frame_ids, &w->frame_ids_alloc, traceback->nframe))
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	return add_frames(w, found, traceback, why) ?: write_traceback(w, found, traceback, why) ?:
	       library_add_row(&w->library->tracebacks, &(struct known_row){ .hash = traceback->hash }, why);
}

/* ---- domains ---------------------------------------------------------------------------------------- */

static bool is_free(const struct library *library, uint32_t number)
{
	return number != DOMAIN_NONE && !known_find(&library->domain_numbers, number + 1ll, 0);
}

/* A program's domain keeps its number if the number is free. */
static uint32_t choose_number(struct library *library, uint32_t wanted)
{
	if (is_free(library, wanted))
		return wanted;
	while (!is_free(library, library->domain_next))
		library->domain_next++;
	return library->domain_next;
}

static int write_domain(struct index_writer *w, uint32_t number, const char *name, struct reason *why)
{
	sqlite3_stmt *insert = w->statement[INSERT_DOMAIN];

	sqlite3_bind_int64(insert, 1, number);
	return sql_bind_text(w->catalogue, insert, 2, name, why) ?: sql_finish(w->catalogue, insert, why) ?:
	       library_add_row(&w->library->domain_numbers, &(struct known_row){ .hash.id = number + 1ll }, why);
}

static int add_own_domain(struct index_writer *w, struct found_domain *domain, const char *name,
			  struct reason *why)
{
	char number[DOMAIN_NAME_MAX];
	struct known_row row = {};
	const struct known_row *known;
	int err;

	snprintf(number, sizeof(number), "#%u", domain->wanted);
	name = *name ? name : number;
	row.hash = domain_name_id(name);
	known = known_find(&w->library->domains, row.hash.id, 0);
	if (known) {
		domain->number = known->number;
		return known->hash.verify == row.hash.verify ? 0 : OTHER;
	}
	domain->number = row.number = choose_number(w->library, domain->wanted);
	err = write_domain(w, row.number, name, why);
	return err ?: library_add_row(&w->library->domains, &row, why);
}

static int library_add_domain(struct index_writer *w, struct found *found, struct found_domain *domain,
			      struct reason *why)
{
	const char *name = found->text + domain->name;

	if (domain->wanted >= DOMAIN_OWN)
		return add_own_domain(w, domain, name, why);
	return is_free(w->library, domain->wanted) ? write_domain(w, domain->wanted, name, why) : 0;
}

/* ---- origins ----------------------------------------------------------------------------------------- */

static int write_origin(struct index_writer *w, const struct known_row *origin, struct reason *why)
{
	sqlite3_stmt *insert = w->statement[INSERT_ORIGIN];

	sqlite3_bind_int64(insert, 1, origin->number);
	sqlite3_bind_int64(insert, 2, origin->hash.id);
	sqlite3_bind_int64(insert, 3, origin->domain);
	return sql_finish(w->catalogue, insert, why);
}

static int library_add_origin(struct index_writer *w, struct found *found, const struct found_origin *origin,
			      struct reason *why)
{
	struct library *library = w->library;
	const struct found_traceback *traceback = &found->traceback[origin->traceback];
	struct known_row row = {
		.hash = traceback->hash,
		.domain = found->domain[origin->domain].number,
		.number = library->origin_nr,
	};
	int err = library_add_traceback(w, found, traceback, why);
	const struct known_row *known;

	if (err)
		return err;
	known = known_find(&library->origins, row.hash.id, row.domain);
	if (!known && library->origin_nr >= UINT32_MAX - 1)
		return reason_set(why, -EOVERFLOW, "%s: it is full: 2^32 origins", w->catalogue->path);
	if (!known) {
		err = write_origin(w, &row, why) ?: library_add_row(&library->origins, &row, why);
		library->origin_nr += !err;
	}
	found->rows.row[origin->row].origin = known ? known->number : row.number;
	return err;
}

static int library_add_news(struct index_writer *w, struct found *found, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < found->domain_nr && !err; i++)
		if (found->domain[i].is_news)
			err = library_add_domain(w, found, &found->domain[i], why);
	for (size_t i = 0; i < found->origin_nr && !err; i++)
		err = library_add_origin(w, found, &found->origin[i], why);
	return err;
}

int index_writer_add_news(struct index_writer *w, struct found *found, const char *path, struct reason *why)
{
	bool has_news = found->origin_nr;
	int err;

	for (size_t i = 0; i < found->domain_nr; i++)
		has_news |= found->domain[i].is_news;
	if (!has_news)
		return 0;
	pthread_rwlock_wrlock(&w->library->lock);
	err = library_add_news(w, found, why);
	pthread_rwlock_unlock(&w->library->lock);
	if (err != OTHER)
		return err;
	found->problem = INDEX_DAMAGED;
	reason_set(&found->why, 0, "%s: a frame, traceback or domain has the id of another one", path);
	return 0;
}
