// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/array.h"
#include "base/parallel.h"
#include "base/reason.h"
#include "base/units.h"
#include "fleet/index_private.h"

/* ---- what the catalogue knows already ---- */

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

/* ---- listing the snapshot files below the directories ------------------------------------------------ */

static int add_indexed_file(struct indexed_files *files, const char *path, struct indexed_file file)
{
	size_t bytes = strlen(path) + 1;
	int err = array_reserve(&files->text, &files->text_alloc, files->text_nr + bytes);

	if (err)
		return err;
	file.path = files->text_nr;
	memcpy(files->text + files->text_nr, path, bytes);
	files->text_nr += bytes;
	return array_push(files, file, file);
}

static int add_out_of_reach(struct indexed_files *files, const char *path, int err)
{
	return add_indexed_file(files, path, (struct indexed_file){ .state = FILE_OUT_OF_REACH, .size = -err });
}

static struct indexed_file make_indexed_file(const struct stat *st)
{
	return (struct indexed_file){ .size = st->st_size, .mtime_ns = file_mtime_ns(st), .inode = st->st_ino };
}

/* Whether snapshots may be behind the link. */
static bool is_link_to_snapshots(const struct archive_entry *entry)
{
	struct stat st;

	return is_snapshot_name(entry->name) || (!fstatat(entry->dir_fd, entry->name, &st, 0) && S_ISDIR(st.st_mode));
}

static int visit_indexed(void *files_, const struct archive_entry *entry)
{
	struct indexed_files *files = files_;
	struct stat st;
	int err;

	switch (entry->kind) {
	case WALK_FOLDER:
	case WALK_LEFT:
		return 0;
	case WALK_UNREADABLE:
		return add_out_of_reach(files, entry->path, entry->err);
	case WALK_FILE:
		if (!is_snapshot_name(entry->name))
			break;
		err = archive_entry_stat(entry, &st);
		if (err)
			return is_gone_error(err) ? 0 : add_out_of_reach(files, entry->path, err);
		return add_indexed_file(files, entry->path, make_indexed_file(&st));
	case WALK_LINK:
		files->links += is_link_to_snapshots(entry);
		break;
	case WALK_OTHER:
		break;
	}
	files->others++;
	return 0;
}

/* Reads the directory, or adds the file. */
static int list_path(struct indexed_files *files, const char *path, struct reason *why)
{
	struct stat st;
	int err = stat(path, &st) ? -errno : 0;

	if (!err)
		err = S_ISDIR(st.st_mode) ? archive_walk(path, visit_indexed, files) :
					    add_indexed_file(files, path, make_indexed_file(&st));
	return err ? reason_set(why, err, "%s: %s", path, strerror(-err)) : 0;
}

/* ---- the order of the files ---------------------------------------------------------------------------- */

static int compare_paths(const void *left, const void *right, void *text)
{
	return strcmp((const char *)text + ((const struct indexed_file *)left)->path,
		      (const char *)text + ((const struct indexed_file *)right)->path);
}

/* Sorts the paths and drops repeated ones: one given directory may contain another. */
static void sort_paths(struct indexed_files *files)
{
	size_t nr = 0;

	if (!files->file_nr)
		return;
	qsort_r(files->file, files->file_nr, sizeof(*files->file), compare_paths, files->text);
	for (size_t i = 0; i < files->file_nr; i++)
		if (!i || strcmp(file_path(files, i), file_path(files, nr - 1)))
			files->file[nr++] = files->file[i];
	files->file_nr = nr;
}

static int compare_dirs(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The beginning of a path. */
struct part {
	const char *path;
	size_t len;
};

static int compare_part(const void *part_, const void *dir_)
{
	const struct part *part = part_;
	const char *dir = *(char *const *)dir_;

	return strncmp(part->path, dir, part->len) ?: -(dir[part->len] != '\0');
}

/* Whether one of the given directories contains the path. */
static bool is_below_any(const struct indexed_files *files, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		const struct part part = { path, slash == path ? 1 : slash - path };

		if (path[part.len] && bsearch(&part, files->dir, files->dir_nr, sizeof(*files->dir),
					      compare_part))
			return true;
	}
	return false;
}

/*
 * A directory inside another given one is not walked again: files that are no snapshots would count twice. The
 * directories are in byte order.
 */
static bool is_covered(const struct indexed_files *files, size_t at)
{
	return (at && !strcmp(files->dir[at - 1], files->dir[at])) || is_below_any(files, files->dir[at]);
}

/* Refuses a file of another name: indexing its directory would not find it. */
static int check_index_path(const char *path, const char *given, struct reason *why)
{
	struct stat st;

	if (stat(path, &st))
		return reason_set(why, -errno, "%s: %s", given, strerror(errno));
	if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && is_snapshot_name(path_name(path))))
		return 0;
	return reason_set(why, -ENOTDIR, "%s: neither a directory nor a file called .snap", given);
}

static int resolve_index_path(const char *given, char **ret, struct reason *why)
{
	char *path = realpath(given, NULL);
	int err = path ? check_index_path(path, given, why) :
			 reason_set(why, -errno, "%s: %s", given, strerror(errno));

	if (err)
		free(path);
	else
		*ret = path;
	return err;
}

static int resolve_index_paths(struct indexed_files *files, const char *const *dir, size_t dir_nr, struct reason *why)
{
	int err = 0;

	files->dir = calloc(dir_nr ?: 1, sizeof(*files->dir));
	if (!files->dir)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	for (; files->dir_nr < dir_nr && !err; files->dir_nr += !err)
		err = resolve_index_path(dir[files->dir_nr], &files->dir[files->dir_nr], why);
	return err;
}

int fleet_index_check(const char *const *dir, size_t dir_nr, struct reason *why)
{
	struct indexed_files files = {};
	int err = resolve_index_paths(&files, dir, dir_nr, why);

	index_files_release(&files);
	return err;
}

int index_files_list(struct indexed_files *files, const char *const *dir, size_t dir_nr, struct reason *why)
{
	int err = resolve_index_paths(files, dir, dir_nr, why);

	if (err)
		return err;
	qsort(files->dir, dir_nr, sizeof(*files->dir), compare_dirs);
	for (size_t i = 0; i < dir_nr && !err; i++)
		if (!is_covered(files, i))
			err = list_path(files, files->dir[i], why);
	if (!err)
		sort_paths(files);
	return err;
}

void index_files_release(struct indexed_files *files)
{
	for (size_t i = 0; i < files->dir_nr; i++)
		free(files->dir[i]);
	free(files->dir);
	free(files->file);
	free(files->text);
	*files = (struct indexed_files){};
}

/* ---- comparison with the catalogue ------------------------------------------------------------------- */

static void compare_to_known(struct indexed_file *file, sqlite3_stmt *row)
{
	file->number = sqlite3_column_int64(row, 1);
	if (file->state != FILE_NEW || file->size != sqlite3_column_int64(row, 2) ||
	    file->mtime_ns != sqlite3_column_int64(row, 3) ||
	    file->inode != sqlite3_column_int64(row, 4))
		return;
	file->was_duplicate = sqlite3_column_int(row, 5) == INDEX_DUPLICATE;
	if (!file->was_duplicate)
		file->state = sqlite3_column_int(row, 5) ? FILE_BAD : FILE_KNOWN;
}

static void count_gone_file(struct indexed_files *files, const char *path)
{
	files->gone += is_below_any(files, path);
}

static void index_files_drop_gone(struct indexed_files *files, const char *path)
{
	files->gone -= is_below_any(files, path);
}

/*
 * Returns a file's class in the reading order. Changed files come before new ones: a new file with a changed file's
 * snapshot would otherwise count as that snapshot, moved. Duplicates of an earlier run come last: they may replace
 * either.
 */
static int reading_turn(const struct indexed_file *file)
{
	bool is_changed = file->number && file->state == FILE_NEW && !file->was_duplicate;

	return is_changed ? 0 : file->was_duplicate ? 2 : 1;
}

static int compare_turns(const void *left, const void *right, void *text)
{
	return reading_turn(left) - reading_turn(right) ?: compare_paths(left, right, text);
}

/* Compares the listed files with the catalogue's. Both are in the byte order of their paths. */
/* Sets the state and the number of each file that the catalogue has. */
static int index_files_match(struct indexed_files *files, const struct catalogue *catalogue, struct reason *why)
{
	sqlite3_stmt *row;
	size_t at = 0;
	int more, err = sql_prepare(catalogue, "SELECT path, number, size, mtime_ns, inode, problem"
				    " FROM file ORDER BY path", &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0) {
		const char *path = sql_text(row, 0);

		while (at < files->file_nr && strcmp(file_path(files, at), path) < 0)
			at++;
		if (at < files->file_nr && !strcmp(file_path(files, at), path))
			compare_to_known(&files->file[at], row);
		else
			count_gone_file(files, path);
	}
	sqlite3_finalize(row);
	if (files->file_nr)
		qsort_r(files->file, files->file_nr, sizeof(*files->file), compare_turns, files->text);
	return more;
}

/* ---- threads that read files ---- */

/*
 * A ring of places. Each new file in turn has the next place, and any free thread fills it. Threads pause while they
 * are a whole ring ahead of the consumer, or while the results take too much memory.
 */

#define PLACES 64
#define THREADS_MAX 64
/* limit of the results that wait; a file's unpacked size would not measure its result */
#define WAITING_BYTES_MAX (256 << 20)

struct place {
	struct found found;
	size_t bytes;
	bool is_filled;
	int err;
};

struct index_threads {
	const struct indexed_files *files;
	struct library *library;
	pthread_mutex_t lock;
	pthread_cond_t filled, taken;
	size_t at;	 /* in files: where the search for the next new file begins */
	size_t begun;	 /* new files whose reading has begun */
	size_t given;	 /* results that index_threads__next() gave; the last one is in use */
	size_t bytes;	 /* of all results that are filled or in use */
	bool must_end;
	struct place place[PLACES];
	pthread_t thread[THREADS_MAX];
	unsigned int thread_nr;
};

/* The consumer sleeps until several results are ready: waking it takes as long as a tenth of a file. */
static void wake_taker(struct index_threads *threads)
{
	if (threads->given && threads->place[(threads->given - 1) % PLACES].is_filled)
		pthread_cond_signal(&threads->filled);
}

/* The file that the consumer waits for may always begin, whatever memory is in use. */
static bool ring_has_room(const struct index_threads *threads)
{
	return threads->begun + 1 < threads->given + PLACES &&
	       (threads->bytes <= WAITING_BYTES_MAX || threads->begun <= threads->given);
}

/* Waits for room. Returns false if there are no more files. */
static bool consume_next_file(struct index_threads *threads, size_t *ret_file, struct place **ret_place)
{
	const struct indexed_files *files = threads->files;

	while (!threads->must_end && !ring_has_room(threads)) {
		wake_taker(threads);
		pthread_cond_wait(&threads->taken, &threads->lock);
	}
	while (threads->at < files->file_nr && files->file[threads->at].state != FILE_NEW)
		threads->at++;
	if (threads->must_end || threads->at == files->file_nr)
		return false;
	*ret_file = threads->at++;
	*ret_place = &threads->place[threads->begun++ % PLACES];
	return true;
}

static void *run_reader(void *threads_)
{
	struct index_threads *threads = threads_;
	struct index_reading reading = { .library = threads->library };
	struct place *place;
	size_t file;

	pthread_mutex_lock(&threads->lock);
	while (consume_next_file(threads, &file, &place)) {
		int err;

		pthread_mutex_unlock(&threads->lock);
		err = index_read(&reading, file_path(threads->files, file), &place->found);
		pthread_mutex_lock(&threads->lock);
		place->err = err;
		place->is_filled = true;
		place->bytes = found_memory_bytes(&place->found);
		threads->bytes += place->bytes;
		if (threads->begun >= threads->given + PLACES / 2)
			wake_taker(threads);
	}
	wake_taker(threads);
	pthread_mutex_unlock(&threads->lock);
	index_reading_release(&reading);
	return NULL;
}

int index_threads__new(const struct indexed_files *files, struct library *library,
		       struct index_threads **ret, struct reason *why)
{
	struct index_threads *threads = calloc(1, sizeof(*threads));
	int err = threads ? 0 : ENOMEM;

	if (threads) {
		threads->files = files;
		threads->library = library;
		pthread_mutex_init(&threads->lock, NULL);
		pthread_cond_init(&threads->filled, NULL);
		pthread_cond_init(&threads->taken, NULL);
	}
	for (unsigned int i = processor_nr(); i && !err && threads->thread_nr < THREADS_MAX; i--) {
		err = pthread_create(&threads->thread[threads->thread_nr], NULL, run_reader, threads);
		threads->thread_nr += !err;
	}
	if (!threads || !threads->thread_nr) {
		index_threads__free(threads);
		return reason_set(why, -err, "no threads: %s", strerror(err));
	}
	*ret = threads;
	return 0;
}

/* Clears the last result, which is no longer in use. The next result in its place reuses its memory. */
static void recycle_last_place(struct index_threads *threads)
{
	struct place *place = &threads->place[(threads->given - 1) % PLACES];

	found_clear(&place->found);
	threads->bytes -= place->bytes;
}

int index_threads__next(struct index_threads *threads, struct found **ret)
{
	struct place *place = &threads->place[threads->given % PLACES];
	int err;

	pthread_mutex_lock(&threads->lock);
	if (threads->given)
		recycle_last_place(threads);
	threads->given++;
	pthread_cond_broadcast(&threads->taken);
	while (!place->is_filled)
		pthread_cond_wait(&threads->filled, &threads->lock);
	place->is_filled = false;
	err = place->err;
	pthread_mutex_unlock(&threads->lock);
	*ret = &place->found;
	return err;
}

void index_threads__free(struct index_threads *threads)
{
	if (!threads)
		return;
	pthread_mutex_lock(&threads->lock);
	threads->must_end = true;
	pthread_cond_broadcast(&threads->taken);
	pthread_mutex_unlock(&threads->lock);
	for (unsigned int i = 0; i < threads->thread_nr; i++)
		pthread_join(threads->thread[i], NULL);
	for (size_t i = 0; i < PLACES; i++)
		found_release(&threads->place[i].found);
	pthread_cond_destroy(&threads->filled);
	pthread_cond_destroy(&threads->taken);
	pthread_mutex_destroy(&threads->lock);
	free(threads);
}

/* ---- the whole ---- */

#define FILES_A_COMMIT 512
#define BYTES_A_COMMIT (256 << 20) /* commit also after so many bytes: changes stay in memory until then */
#define PROGRESS_FILES 64

struct indexing {
	const struct catalogue *catalogue;
	const struct index_events *events;
	struct index_sum sum;
	struct indexed_files files;
	struct library library;
	struct index_threads *threads;
	struct index_writer *writer;
	unsigned int uncommitted;
	size_t uncommitted_bytes;
};

static void report_index_problem(struct indexing *x, enum index_problem problem, const char *path, const char *line)
{
	x->sum.problems[problem]++;
	if (x->events && x->events->problem)
		x->events->problem(x->events->what, problem, path, line);
}

static void report_progress(struct indexing *x, size_t at)
{
	if (x->events && x->events->progress && (at % PROGRESS_FILES == 0 || at == x->files.file_nr))
		x->events->progress(x->events->what, at, x->files.file_nr);
}

static int index_new(struct indexing *x, size_t at, struct reason *why)
{
	const char *path = file_path(&x->files, at);
	struct found *found;
	int err = index_threads__next(x->threads, &found);

	if (err)
		return reason_set(why, err, "%s: %s", path, strerror(-err));
	err = index_writer__add(x->writer, &x->files.file[at], path, found, why);
	if (err)
		return err;
	if (found->problem) {
		report_index_problem(x, found->problem, path, found->why.text);
		x->sum.known += x->files.file[at].was_duplicate;
	} else if (found->is_moved) {
		x->sum.moved++;
		if (found->moved_from)
			index_files_drop_gone(&x->files, found->text + found->moved_from);
	} else if (!found->is_gone) {
		x->sum.snapshots++;
		x->sum.rows += found->row_nr;
	}
	x->uncommitted_bytes += found_catalogue_bytes(found);
	if (++x->uncommitted < FILES_A_COMMIT && x->uncommitted_bytes < BYTES_A_COMMIT)
		return 0;
	x->uncommitted = 0;
	x->uncommitted_bytes = 0;
	return index_writer__commit(x->writer, why);
}

static int report_known_problem(struct indexing *x, size_t at, struct reason *why)
{
	const char *path = file_path(&x->files, at);
	enum index_problem problem = INDEX_DAMAGED;
	struct reason line = { "" };
	int err = index_writer__read_problem(x->writer, x->files.file[at].number, &problem, &line, why);

	if (!*line.text) /* the catalogue has a bad file without a line, which we never write */
		reason_set(&line, 0, "%s: damaged", path);
	if (!err)
		report_index_problem(x, problem, path, line.text);
	x->sum.known++;
	return err;
}

static void report_out_of_reach(struct indexing *x, size_t at)
{
	const char *path = file_path(&x->files, at);
	struct reason line;

	reason_set(&line, 0, "%.400s: %s", path, strerror(x->files.file[at].size));
	report_index_problem(x, INDEX_UNREADABLE, path, line.text);
}

static int index_file(struct indexing *x, size_t at, struct reason *why)
{
	switch (x->files.file[at].state) {
	case FILE_NEW:
		return index_new(x, at, why);
	case FILE_BAD:
		return report_known_problem(x, at, why);
	case FILE_KNOWN:
		x->sum.known++;
		return 0;
	case FILE_OUT_OF_REACH:
		report_out_of_reach(x, at);
		return 0;
	}
	return 0;
}

static int index_all_files(struct indexing *x, struct reason *why)
{
	int err = index_writer__new(x->catalogue, &x->library, &x->writer, why) ?:
		  index_threads__new(&x->files, &x->library, &x->threads, why);

	for (size_t i = 0; i < x->files.file_nr && !err; i++) {
		report_progress(x, i);
		err = index_file(x, i, why);
	}
	if (!err) {
		report_progress(x, x->files.file_nr);
		err = index_writer__commit(x->writer, why);
	}
	index_threads__free(x->threads);
	index_writer__free(x->writer);
	return err;
}

static int list_and_index(struct indexing *x, const char *const *dir, size_t dir_nr, struct reason *why)
{
	int err = index_files_list(&x->files, dir, dir_nr, why) ?:
		  index_files_match(&x->files, x->catalogue, why);

	if (err)
		return err;
	err = library_load(&x->library, x->catalogue, why) ?: index_all_files(x, why);
	library_release(&x->library);
	x->sum.others = x->files.others;
	x->sum.links = x->files.links;
	x->sum.gone = x->files.gone;
	return err;
}

int fleet_index(struct catalogue *catalogue, const char *const *dir, size_t dir_nr,
		const struct index_events *events, struct index_sum *ret, struct reason *why)
{
	struct indexing x = { .catalogue = catalogue, .events = events };
	int err = list_and_index(&x, dir, dir_nr, why);

	index_files_release(&x.files);
	*ret = x.sum;
	return err;
}
