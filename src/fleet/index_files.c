// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists the snapshot files below the directories, and compares them with the catalogue. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/array.h"
#include "base/reason.h"
#include "fleet/index_private.h"

/* ---- walking ----------------------------------------------------------------------------------------- */

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

/* ---- in order ------------------------------------------------------------------------------------------ */

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
	if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && is_snapshot_name(name_in_path(path))))
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

void index_files_drop_gone(struct indexed_files *files, const char *path)
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
int index_files_match(struct indexed_files *files, const struct catalogue *catalogue, struct reason *why)
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
