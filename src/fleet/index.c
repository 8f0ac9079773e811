// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/index.h"

#include <errno.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/index_private.h"

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
