// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Writes the results into the catalogue, in the order of the files. Origins get their numbers here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/index_private.h"

/* ---- frames, tracebacks, domains and origins that no earlier file had ---- */

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

int index_writer__put_domain(struct index_writer *w, uint32_t wanted, const char *name, uint32_t *ret_number,
			     struct reason *why)
{
	char number[DOMAIN_NAME_MAX];
	struct known_row row = {};
	const struct known_row *known;
	int err;

	*ret_number = wanted;
	if (wanted < DOMAIN_OWN)
		return is_free(w->library, wanted) ? write_domain(w, wanted, name, why) : 0;
	snprintf(number, sizeof(number), "#%u", wanted);
	name = *name ? name : number;
	row.hash = domain_name_id(name);
	known = known_find(&w->library->domains, row.hash.id, 0);
	*ret_number = row.number = known ? known->number : choose_number(w->library, wanted);
	if (known)
		return known->hash.verify == row.hash.verify ? 0 : OTHER;
	err = write_domain(w, row.number, name, why);
	return err ?: library_add_row(&w->library->domains, &row, why);
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

int index_writer__put_origin(struct index_writer *w, struct known_row *origin, struct reason *why)
{
	struct library *library = w->library;
	const struct known_row *known = known_find(&library->origins, origin->hash.id, origin->domain);
	int err;

	origin->number = known ? known->number : library->origin_nr;
	if (known)
		return 0;
	if (library->origin_nr >= UINT32_MAX - 1)
		return reason_set(why, -EOVERFLOW, "%s: it is full: 2^32 origins", w->catalogue->path);
	err = write_origin(w, origin, why) ?: library_add_row(&library->origins, origin, why);
	library->origin_nr += !err;
	return err;
}

static int library_add_origin(struct index_writer *w, struct found *found, const struct found_origin *origin,
			      struct reason *why)
{
	const struct found_traceback *traceback = &found->traceback[origin->traceback];
	struct known_row row = { .hash = traceback->hash, .domain = found->domain[origin->domain].number };
	int err = library_add_traceback(w, found, traceback, why) ?: index_writer__put_origin(w, &row, why);

	if (!err)
		found->rows.row[origin->row].origin = row.number;
	return err;
}

static int library_add_news(struct index_writer *w, struct found *found, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < found->domain_nr && !err; i++) {
		struct found_domain *domain = &found->domain[i];

		if (domain->is_news)
			err = index_writer__put_domain(w, domain->wanted, found->text + domain->name, &domain->number, why);
	}
	for (size_t i = 0; i < found->origin_nr && !err; i++)
		err = library_add_origin(w, found, &found->origin[i], why);
	return err;
}

/*
 * Adds what is new in the rows to library and catalogue, and sets the rows' origins. If an id belongs to something
 * else, it sets found->problem.
 */
static int index_writer_add_news(struct index_writer *w, struct found *found, const char *path, struct reason *why)
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

/* ---- statements and transactions ---- */

#define QUESTION_MARK(name) ", ?"

static const char *const statements[STATEMENT_NR] = {
	[INSERT_FILE] = "INSERT INTO file (path, size, mtime_ns, inode, problem, line)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[UPDATE_FILE] = "UPDATE file SET size = ?2, mtime_ns = ?3, inode = ?4, problem = ?5, line = ?6"
			" WHERE number = ?7 AND (size, mtime_ns, inode, problem, line) IS NOT (?2, ?3, ?4, ?5, ?6)",
	[DELETE_FILE] = "DELETE FROM file WHERE number = ?1"
			" AND NOT EXISTS (SELECT 1 FROM snapshot WHERE file = ?1)",
	[SELECT_LINE] = "SELECT problem, line FROM file WHERE number = ?1",
	[SELECT_SNAPSHOT] = "SELECT s.number, verify, file, path, f.size, mtime_ns, inode, problem <> 0 OR EXISTS"
			    " (SELECT 1 FROM snapshot AS later WHERE later.file = s.file AND later.number > s.number)"
			    " FROM snapshot AS s JOIN file AS f ON f.number = s.file WHERE snapshot_id = ?1",
	[DELETE_SNAPSHOT] = "DELETE FROM snapshot WHERE number = ?1",
	[DELETE_ROWS] = "DELETE FROM snapshot_rows WHERE snapshot = ?1",
	[DELETE_LABELS] = "DELETE FROM label WHERE snapshot = ?1",
	[DELETE_LOSSES] = "DELETE FROM loss WHERE snapshot = ?1",
	[INSERT_SNAPSHOT] =
		"INSERT INTO snapshot (snapshot_id, verify, file, process_id, time_ns, monotonic_ns, recording_ns,"
		" interval_ns, pid, start_ticks, exec_count, size, count, gap_size, gap_count, row_nr, traceback_limit, is_sampled,"
		" sample_bytes_most, is_part"
#define X(name) ", " #name
	FLEET_TEXTS(X)
#undef X
		") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?" FLEET_TEXTS(QUESTION_MARK) ")",
	[INSERT_ROWS] = "INSERT INTO snapshot_rows VALUES (?1, ?2)",
	[INSERT_LABEL] = "INSERT INTO label VALUES (?1, ?2, ?3)",
	[INSERT_LOSS] = "INSERT INTO loss VALUES (?1, ?2, ?3)",
	[INSERT_ORIGIN] = "INSERT INTO origin VALUES (?1, ?2, ?3)",
	[INSERT_TRACEBACK] = "INSERT INTO traceback VALUES (?1, ?2, ?3)",
	[INSERT_FRAME] = "INSERT INTO frame VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	[INSERT_DOMAIN] = "INSERT INTO domain VALUES (?1, ?2)",
};

int index_writer__new(const struct catalogue *catalogue, struct library *library, struct index_writer **ret,
		      struct reason *why)
{
	struct index_writer *w = calloc(1, sizeof(*w));
	int err = 0;

	if (!w)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	w->catalogue = catalogue;
	w->library = library;
	for (int i = 0; i < STATEMENT_NR && !err; i++)
		err = sql_prepare(catalogue, statements[i], &w->statement[i], why);
	if (err)
		index_writer__free(w);
	else
		*ret = w;
	return err;
}

void index_writer__free(struct index_writer *w)
{
	if (!w)
		return;
	for (int i = 0; i < STATEMENT_NR; i++)
		sqlite3_finalize(w->statement[i]);
	if (w->is_open)
		sql_run(w->catalogue, "ROLLBACK", NULL);
	fleet_rows_release(&w->room);
	free(w->frame_ids);
	free(w);
}

int index_writer__commit(struct index_writer *w, struct reason *why)
{
	int err = w->is_open ? sql_run(w->catalogue, "COMMIT", why) : 0;

	if (!err)
		w->is_open = false;
	return err;
}

static int begin_transaction(struct index_writer *w, struct reason *why)
{
	int err = w->is_open ? 0 : sql_run(w->catalogue, "BEGIN IMMEDIATE", why);

	if (!err)
		w->is_open = true;
	return err;
}

int index_writer__read_problem(struct index_writer *w, int64_t file, enum index_problem *ret_problem,
		       struct reason *ret_line, struct reason *why)
{
	sqlite3_stmt *select = w->statement[SELECT_LINE];
	int err;

	sqlite3_bind_int64(select, 1, file);
	err = sql_step(w->catalogue, select, why);
	if (err > 0) {
		int problem = sqlite3_column_int(select, 0);

		*ret_problem = problem > 0 && problem < INDEX_UNREADABLE ? problem : INDEX_DAMAGED;
		reason_set(ret_line, 0, "%s", sql_text(select, 1));
	}
	sqlite3_reset(select);
	return err < 0 ? err : 0;
}

/* ---- a file's row ------------------------------------------------------------------------------------ */

static int write_file_row(struct index_writer *w, const struct indexed_file *file, const char *path,
			  const struct found *found, int64_t *ret_number, struct reason *why)
{
	sqlite3_stmt *write = w->statement[file->number ? UPDATE_FILE : INSERT_FILE];
	int err;

	sqlite3_bind_int64(write, 2, file->size);
	sqlite3_bind_int64(write, 3, file->mtime_ns);
	sqlite3_bind_int64(write, 4, file->inode);
	sqlite3_bind_int(write, 5, found->problem);
	if (file->number)
		sqlite3_bind_int64(write, 7, file->number);
	err = sql_bind_text(w->catalogue, write, 1, path, why) ?:
	      sql_bind_text(w->catalogue, write, 6, found->problem ? found->why.text : "", why) ?:
	      sql_finish(w->catalogue, write, why);
	*ret_number = file->number ?: sqlite3_last_insert_rowid(w->catalogue->db);
	return err;
}

/* ---- a snapshot that the catalogue has already -------------------------------------------------------------- */

/* The catalogue's snapshot with the id of the new one; number 0: the catalogue has no such snapshot. */
struct present {
	int64_t number, file;
	uint64_t verify;
	struct reason path;
	bool is_gone;	 /* its file no longer exists */
	size_t gone_path; /* if is_gone: the file's path in found->text */
	bool is_another; /* by the catalogue, its file holds another snapshot now, or none */
	bool is_changed; /* its file differs from what the catalogue has of it, and was not read since */
};

/* The path of a file that is gone is kept in found->text. */
static int check_present_file(struct present *present, sqlite3_stmt *select, struct found *found)
{
	const char *path = sql_text(select, 3);
	struct stat st;

	present->is_another = sqlite3_column_int(select, 7);
	if (lstat(path, &st)) {
		present->is_gone = errno == ENOENT || errno == ENOTDIR;
	} else {
		present->is_gone = !S_ISREG(st.st_mode);
		present->is_changed = st.st_size != sqlite3_column_int64(select, 4) ||
				      file_mtime_ns(&st) != sqlite3_column_int64(select, 5) ||
				      (int64_t)st.st_ino != sqlite3_column_int64(select, 6);
	}
	return present->is_gone ? found_copy_any_text(found, path, &present->gone_path) : 0;
}

/*
 * Whether the file becomes the snapshot's file. A duplicate of an earlier run does not take over from a changed file:
 * changed files were read before it.
 */
static bool takes_over(const struct present *present, const struct indexed_file *file)
{
	return present->is_gone || present->is_another || (present->is_changed && !file->was_duplicate);
}

static int find_present(struct index_writer *w, struct found *found, struct present *present,
			struct reason *why)
{
	sqlite3_stmt *select = w->statement[SELECT_SNAPSHOT];
	int err;

	sqlite3_bind_int64(select, 1, found->snapshot.id);
	err = sql_step(w->catalogue, select, why);
	if (err > 0) {
		present->number = sqlite3_column_int64(select, 0);
		present->verify = sqlite3_column_int64(select, 1);
		present->file = sqlite3_column_int64(select, 2);
		reason_set(&present->path, 0, "%s", sql_text(select, 3));
		err = check_present_file(present, select, found);
	}
	sqlite3_reset(select);
	return err < 0 ? err : 0;
}

static void report_present(struct found *found, const struct present *present, const char *path)
{
	bool is_other = present->verify != found->snapshot.verify;

	found->problem = is_other ? INDEX_DAMAGED : INDEX_DUPLICATE;
	reason_set(&found->why, 0, is_other ? "%.200s: it has the id of another snapshot, %.200s" :
		   "%.200s: of the same process and time as %.200s", path, present->path.text);
}

static int remove_present(struct index_writer *w, int64_t number, struct reason *why)
{
	static const enum statement removes[] = {
		DELETE_SNAPSHOT, DELETE_ROWS, DELETE_LABELS, DELETE_LOSSES,
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(removes) && !err; i++) {
		sqlite3_bind_int64(w->statement[removes[i]], 1, number);
		err = sql_finish(w->catalogue, w->statement[removes[i]], why);
	}
	return err;
}

/* ---- a snapshot ------------------------------------------------------------------------------------------ */

static int insert_snapshot(struct index_writer *w, const struct found *found, int64_t file,
			   struct reason *why)
{
	sqlite3_stmt *insert = w->statement[INSERT_SNAPSHOT];
	const int64_t number[] = {
		found->snapshot.id, found->snapshot.verify, file, found->process_id, found->time_ns, found->monotonic_ns,
		found->recording_ns, found->interval_ns, found->pid, found->start_ticks, found->exec_count, found->total.size, found->total.count,
		found->gap_blocks.size, found->gap_blocks.count, found->row_nr,
		found->traceback_limit, found->is_sampled + found->is_open, found->sample_bytes_most, found->is_part,
	};
	int at = 1, err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(number); i++)
		sqlite3_bind_int64(insert, at++, number[i]);
	for (int i = 0; i < FLEET_TEXT_NR && !err; i++)
		err = sql_bind_text(w->catalogue, insert, at++, found->text + found->fact[i], why);
	return err ?: sql_finish(w->catalogue, insert, why);
}

static int insert_rows(struct index_writer *w, const struct found *found, int64_t snapshot, struct reason *why)
{
	sqlite3_stmt *insert = w->statement[INSERT_ROWS];

	sqlite3_bind_int64(insert, 1, snapshot);
	return sql_bind_blob(w->catalogue, insert, 2, found->blob, found->blob_len, why) ?:
	       sql_finish(w->catalogue, insert, why);
}

static int insert_pairs(struct index_writer *w, const struct found *found, int64_t snapshot, struct reason *why)
{
	sqlite3_stmt *label = w->statement[INSERT_LABEL], *loss = w->statement[INSERT_LOSS];
	int err = 0;

	for (size_t i = 0; i < found->label_nr && !err; i++) {
		sqlite3_bind_int64(label, 1, snapshot);
		err = sql_bind_text(w->catalogue, label, 2, found->text + found->label[i].name, why) ?:
		      sql_bind_text(w->catalogue, label, 3, found->text + found->label[i].text, why) ?:
		      sql_finish(w->catalogue, label, why);
	}
	for (size_t i = 0; i < found->loss_nr && !err; i++) {
		sqlite3_bind_int64(loss, 1, snapshot);
		sqlite3_bind_int64(loss, 3, found->loss[i].value);
		err = sql_bind_text(w->catalogue, loss, 2, found->text + found->loss[i].name, why) ?:
		      sql_finish(w->catalogue, loss, why);
	}
	return err;
}

static int write_snapshot(struct index_writer *w, const struct found *found, int64_t file, struct reason *why)
{
	int err = insert_snapshot(w, found, file, why);
	int64_t snapshot = sqlite3_last_insert_rowid(w->catalogue->db);

	return err ?: insert_rows(w, found, snapshot, why) ?: insert_pairs(w, found, snapshot, why);
}

#define RECORD_HEAD 64 /* what SQLite stores in the row besides the blob, rounded up */

/* SQLite stores at most a gigabyte in one row of a table. Ten million rows of a snapshot take less. */
static void check_blob(const struct index_writer *w, struct found *found, const char *path)
{
	size_t max = sqlite3_limit(w->catalogue->db, SQLITE_LIMIT_LENGTH, -1) - RECORD_HEAD;

	if (found->blob_len <= max)
		return;
	found->problem = INDEX_DAMAGED;
	reason_set(&found->why, 0, "%.400s: its rows are %zu bytes, which is more than a catalogue can have", path,
		   found->blob_len);
}

/* Adds what is new to the catalogue, and then encodes the rows that waited for it. */
static int prepare_rows(struct index_writer *w, struct found *found, const char *path, struct reason *why)
{
	int err = index_writer_add_news(w, found, path, why);

	if (err || found->problem)
		return err;
	if (!found->blob)
		err = found_encode_rows(found, &w->room);
	if (err)
		return reason_set(why, err, "%s: %s", path, strerror(-err));
	check_blob(w, found, path);
	return 0;
}

/* Deletes the former path if it has no snapshot any more, so that the next run does not count it as gone. */
static int move_from(struct index_writer *w, const struct present *present, struct found *found,
		     struct reason *why)
{
	int err;

	found->is_moved = true;
	if (!present->is_gone)
		return 0;
	sqlite3_bind_int64(w->statement[DELETE_FILE], 1, present->file);
	err = sql_finish(w->catalogue, w->statement[DELETE_FILE], why);
	if (!err && sqlite3_changes(w->catalogue->db))
		found->moved_from = present->gone_path;
	return err;
}

int index_writer__add(struct index_writer *w, const struct indexed_file *file, const char *path,
		      struct found *found, struct reason *why)
{
	struct present present = {};
	int64_t number;
	int err = 0;

	if (found->is_gone || found->problem == INDEX_UNREADABLE)
		return 0; /* the next run tries again: the result may change although the file has not */
	err = begin_transaction(w, why);
	if (!err && !found->problem)
		err = find_present(w, found, &present, why);
	if (present.number && (present.verify != found->snapshot.verify ||
			       (present.file != file->number && !takes_over(&present, file))))
		report_present(found, &present, path);
	if (!err && !found->problem)
		err = prepare_rows(w, found, path, why);
	err = err ?: write_file_row(w, file, path, found, &number, why);
	if (err || found->problem)
		return err;
	if (present.number)
		err = remove_present(w, present.number, why);
	err = err ?: write_snapshot(w, found, number, why);
	if (!err && present.number && present.file != number)
		err = move_from(w, &present, found, why);
	return err;
}
