// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists the snapshot files below the directories, and compares them with the catalogue. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/index_private.h"

#define SUFFIX ".snap"

static bool is_snapshot_name(const char *name)
{
	size_t len = strlen(name), suffix = strlen(SUFFIX);

	return len >= suffix && !strcmp(name + len - suffix, SUFFIX);
}

/* ---- walking ----------------------------------------------------------------------------------------- */

/* The path of the directory that is being read; the names of its entries are appended to it. */
struct walking {
	struct indexed_files *files;
	char *path;
	size_t path_nr, path_alloc;
};

static int push_name(struct walking *w, const char *name)
{
	size_t len = strlen(name);
	bool needs_slash = w->path_nr && w->path[w->path_nr - 1] != '/';
	int err = array_reserve(&w->path, &w->path_alloc, w->path_nr + len + 2);

	if (err)
		return err;
	if (needs_slash)
		w->path[w->path_nr++] = '/';
	memcpy(w->path + w->path_nr, name, len + 1);
	w->path_nr += len;
	return 0;
}

static void cut_path(struct walking *w, size_t len)
{
	w->path_nr = len;
	w->path[len] = '\0';
}

static int add_indexed_file(struct walking *w, const struct indexed_file *like)
{
	struct indexed_files *files = w->files;
	struct indexed_file file = *like;
	int err = array_reserve(&files->text, &files->text_alloc, files->text_nr + w->path_nr + 1);

	if (err)
		return err;
	file.path = files->text_nr;
	memcpy(files->text + files->text_nr, w->path, w->path_nr + 1);
	files->text_nr += w->path_nr + 1;
	return array_push(files, file, file);
}

/* Adds the directory at w->path as one that cannot be read, unless it has gone. */
static int add_closed(struct walking *w, int err)
{
	struct indexed_file file = { .state = FILE_OUT_OF_REACH, .size = -err };

	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP ? 0 : add_indexed_file(w, &file);
}

static int read_directory(struct walking *w, int fd);

static int enter_directory(struct walking *w, int parent, const char *name)
{
	int fd;

	/* Paths of files in it are too long to open, and each level of recursion takes stack. */
	if (w->path_nr >= PATH_MAX)
		return add_closed(w, -ENAMETOOLONG);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? add_closed(w, -errno) : read_directory(w, fd);
}

static struct indexed_file make_indexed_file(const struct stat *st)
{
	return (struct indexed_file){ .size = st->st_size, .mtime_ns = file_mtime_ns(st), .inode = st->st_ino };
}

static int list_entry(struct walking *w, int fd, const char *name, const struct stat *st)
{
	const struct indexed_file file = make_indexed_file(st);
	size_t len = w->path_nr;
	int err = push_name(w, name);

	if (err)
		return err;
	err = S_ISDIR(st->st_mode) ? enter_directory(w, fd, name) : add_indexed_file(w, &file);
	cut_path(w, len);
	return err;
}

/* Counts an entry that is not indexed. Links count separately if snapshots may be behind them. */
static void count_other_entry(struct indexed_files *files, int fd, const char *name, bool is_link)
{
	struct stat st;

	files->others++;
	files->links += is_link && (is_snapshot_name(name) || (!fstatat(fd, name, &st, 0) && S_ISDIR(st.st_mode)));
}

static int check_entry(struct walking *w, int fd, const struct dirent *entry)
{
	const char *name = entry->d_name;
	struct stat st;

	if (entry->d_type == DT_REG && !is_snapshot_name(name)) {
		w->files->others++;
		return 0;
	}
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOMEM ? -ENOMEM : 0; /* it has gone */
	if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && is_snapshot_name(name)))
		return list_entry(w, fd, name, &st);
	count_other_entry(w->files, fd, name, S_ISLNK(st.st_mode));
	return 0;
}

/* Takes ownership of fd. */
static int read_directory(struct walking *w, int fd)
{
	DIR *stream = fdopendir(fd);
	struct dirent *entry;
	int err = 0;

	if (!stream) {
		close(fd);
		return -ENOMEM;
	}
	while (!err && (errno = 0, entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			err = check_entry(w, fd, entry);
	if (!err && !entry && errno)
		err = add_closed(w, -errno);
	closedir(stream);
	return err;
}

/* Reads the directory, or adds the file, at w->path. */
static int walk_from(struct walking *w)
{
	struct indexed_file file;
	struct stat st;
	int fd;

	if (stat(w->path, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode)) {
		file = make_indexed_file(&st);
		return add_indexed_file(w, &file);
	}
	fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : read_directory(w, fd);
}

static int list_directory(struct indexed_files *files, const char *dir, struct reason *why)
{
	struct walking w = { .files = files };
	int err = push_name(&w, dir) ?: walk_from(&w);

	free(w.path);
	return err ? reason_set(why, err, "%s: %s", dir, strerror(-err)) : 0;
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
	if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && is_snapshot_name(path)))
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

int fleet_index_check(const char *const *dir, size_t dir_nr, struct reason *why)
{
	char *path = NULL;
	int err = 0;

	for (size_t i = 0; i < dir_nr && !err; i++) {
		err = resolve_index_path(dir[i], &path, why);
		if (!err)
			free(path);
	}
	return err;
}

int index_files_list(struct indexed_files *files, const char *const *dir, size_t dir_nr, struct reason *why)
{
	int err = 0;

	files->dir = calloc(dir_nr ?: 1, sizeof(*files->dir));
	if (!files->dir)
		return reason_set(why, -ENOMEM, "%s", strerror(ENOMEM));
	for (size_t i = 0; i < dir_nr; i++) {
		err = resolve_index_path(dir[i], &files->dir[i], why);
		if (err)
			return err;
		files->dir_nr++;
	}
	qsort(files->dir, dir_nr, sizeof(*files->dir), compare_dirs);
	for (size_t i = 0; i < dir_nr && !err; i++)
		if (!is_covered(files, i))
			err = list_directory(files, files->dir[i], why);
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
