// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/find_snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "base/array.h"
#include "base/log.h"
#include "base/units.h"

#define CANDIDATES_SHOWN 20

/* Which snapshot of a process: number `nr` from the oldest, or from the latest. */
struct which {
	bool is_given, is_from_latest;
	uint64_t nr; /* 0 is the oldest, or the latest */
};

/* A text, taken apart. */
struct place {
	char *name; /* a folder, PID, COMM or COMM.PID; "": the only process in DATA_DIR */
	struct which which;
	bool is_folder;
};

/* ---- texts -------------------------------------------------------------------------------- */

static bool parse_which(const char *text, struct which *ret)
{
	uint64_t nr = 1;

	if (!strcmp(text, "first")) {
		*ret = (struct which){ .is_given = true };
		return true;
	}
	if (strcmp(text, "latest") && (*text != '-' || parse_count(text + 1, 1, UINT32_MAX, &nr)))
		return false;
	*ret = (struct which){ .is_given = true, .is_from_latest = true, .nr = nr - 1 };
	return true;
}

/* Whether the text can only be meant as a path. */
static bool is_path_text(const char *text)
{
	return strchr(text, '/') || has_snapshot_suffix(text) || !strcmp(text, "-");
}

/* An executable file is no snapshot: where a program was built, its name means its process. */
static bool is_existing_file(const char *path)
{
	struct stat st;

	if (lstat(path, &st) || is_folder(path))
		return false;
	return !(S_ISREG(st.st_mode) && st.st_mode & 0111) || is_path_text(path);
}

bool is_input_path(const char *text)
{
	return is_folder(text) || is_existing_file(text);
}

bool is_which_snapshot(const char *text)
{
	struct which which;

	return parse_which(text, &which);
}

bool names_process(const char *text)
{
	const char *dot = strrchr(text, '.');
	bool is_folder_name = dot && dot[1] && !dot[1 + strspn(dot + 1, "0123456789")];

	return !strpbrk(text, "/@") && !is_folder_name && !has_snapshot_suffix(text) && !is_input_path(text);
}

static int split_place(const char *text, struct place *ret)
{
	const char *at = strrchr(text, '@');
	size_t len = strlen(text);

	*ret = (struct place){};
	if (!is_folder(text)) {
		if (parse_which(text, &ret->which))
			len = 0;
		else if (at && parse_which(at + 1, &ret->which))
			len = at - text;
	}
	ret->name = strndup(text, len);
	if (!ret->name)
		return log_failure("%s", strerror(ENOMEM));
	ret->is_folder = is_folder(ret->name);
	return EXIT_DONE;
}

/* ---- processes ---------------------------------------------------------------------------- */

static void list_candidates(const struct process_folders *folders)
{
	size_t nr = folders->folder_nr;

	for (size_t i = 0; i < nr && i < CANDIDATES_SHOWN; i++) {
		struct process_folder *folder = &folders->folder[i];
		const char *newest;

		process_folder_settle(folder);
		newest = path_name(folder->file[folder->file_nr - 1].path);
		log_info("  %s  %zu snapshot%s, latest %s", folder->path, folder->file_nr,
			 folder->file_nr == 1 ? "" : "s", newest);
	}
	if (nr > CANDIDATES_SHOWN)
		log_info("  … and %zu more", nr - CANDIDATES_SHOWN);
}

static int report_no_process(const struct place *place)
{
	if (place->is_folder)
		return log_failure("%s: no snapshots in it", place->name);
	if (!*place->name)
		return log_failure("%s: no snapshots in it", DATA_DIR);
	return log_failure("'%s' is no snapshot file or folder, and no PID or name of a process with snapshots in %s",
			   place->name, DATA_DIR);
}

/* Finds the folders that the place names. EXIT_DONE: there is at least one. *ret_failed: whether others may be missing. */
static int find_folders(const struct place *place, struct process_folders *ret, int *ret_failed)
{
	*ret_failed = EXIT_DONE;
	if (place->is_folder)
		*ret_failed = process_folders_scan(ret, place->name);
	else if (is_folder(DATA_DIR))
		*ret_failed = process_folders_scan(ret, DATA_DIR);
	if (!place->is_folder && *place->name)
		process_folders_retain(ret, place->name);
	if (ret->folder_nr)
		return EXIT_DONE;
	return *ret_failed ?: report_no_process(place);
}

static int refuse_several(const struct place *place, const struct process_folders *folders)
{
	if (place->is_folder || !*place->name)
		log_failure("%s has snapshots of %zu processes; choose one, newest first:",
			    *place->name ? place->name : DATA_DIR, folders->folder_nr);
	else
		log_failure("'%s' fits %zu processes; choose one by its folder or COMM.PID, newest first:",
			    place->name, folders->folder_nr);
	list_candidates(folders);
	return EXIT_FAILED;
}

/* Finds the one folder that the place names. */
static int find_one_folder(const struct place *place, struct process_folders *ret)
{
	int failed, status = find_folders(place, ret, &failed);

	if (!status && ret->folder_nr > 1)
		status = refuse_several(place, ret);
	return status ?: process_folder_settle(&ret->folder[0]);
}

/* ---- snapshots ---------------------------------------------------------------------------- */

static int choose_file(const struct process_folder *folder, const struct which *which, size_t *ret_at)
{
	if (which->nr >= folder->file_nr)
		return log_failure("%s has %zu snapshot%s only", folder->path, folder->file_nr,
				   folder->file_nr == 1 ? "" : "s");
	*ret_at = which->is_from_latest || !which->is_given ? folder->file_nr - 1 - which->nr : which->nr;
	return EXIT_DONE;
}

static void report_chosen(const struct process_folder *folder, size_t at)
{
	size_t nr = folder->file_nr;
	const char *path = folder->file[at].path;

	if (nr == 1)
		log_info("reading %s", path);
	else if (at == nr - 1)
		log_info("reading %s, the latest of %zu", path, nr);
	else if (!at)
		log_info("reading %s, the first of %zu", path, nr);
	else
		log_info("reading %s, number %zu of %zu", path, at + 1, nr);
}

void snapshot_paths_release(struct snapshot_paths *paths)
{
	for (size_t i = 0; i < paths->path_nr; i++)
		free(paths->path[i]);
	free(paths->path);
	*paths = (struct snapshot_paths){};
}

int snapshot_paths_add(struct snapshot_paths *paths, const char *path)
{
	char *copy = strdup(path);
	int err = copy ? array_push(paths, path, copy) : -ENOMEM;

	if (err)
		free(copy);
	return err;
}

static int add_found_path(struct snapshot_paths *paths, const char *path)
{
	return snapshot_paths_add(paths, path) ? log_failure("%s", strerror(ENOMEM)) : EXIT_DONE;
}

static int add_folder_paths(struct snapshot_paths *paths, const struct process_folder *folder)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < folder->file_nr && !status; i++)
		status = add_found_path(paths, folder->file[i].path);
	return status;
}

/* Whether opening the text as a path works, or fails with a message that says what is wrong. */
static bool is_plain_path(const char *text, const struct place *place)
{
	if (is_existing_file(text) || !strcmp(text, "-"))
		return true;
	return !place->is_folder && is_path_text(place->name);
}

/* ---- what commands ask -------------------------------------------------------------------- */

static int find_one(const struct place *place, struct process_folders *folders, struct snapshot_paths *paths)
{
	int status = find_one_folder(place, folders);
	size_t at = 0;

	status = status ?: choose_file(&folders->folder[0], &place->which, &at);
	if (status)
		return status;
	report_chosen(&folders->folder[0], at);
	return add_found_path(paths, folders->folder[0].file[at].path);
}

static int find_whole(const struct place *place, struct process_folders *folders, struct snapshot_paths *paths)
{
	return find_one_folder(place, folders) ?: add_folder_paths(paths, &folders->folder[0]);
}

static int find_all(const struct place *place, struct process_folders *folders, struct snapshot_paths *paths)
{
	int failed, status = find_folders(place, folders, &failed);

	for (size_t i = 0; i < folders->folder_nr && !status; i++)
		status = add_folder_paths(paths, &folders->folder[i]);
	return status ?: place->is_folder ? failed : EXIT_DONE;
}

typedef int (*find_fn)(const struct place *place, struct process_folders *folders, struct snapshot_paths *paths);

/* find: what a place without WHICH stands for. */
static int find_paths(const char *text, find_fn find, struct snapshot_paths *paths)
{
	struct process_folders folders = {};
	struct place place;
	int status = split_place(text, &place);
	bool is_plain = !status && is_plain_path(text, &place), is_one = is_plain || place.which.is_given;

	if (!status && !(is_one && find == find_whole))
		status = is_plain ? add_found_path(paths, text) : (is_one ? find_one : find)(&place, &folders, paths);
	process_folders_release(&folders);
	free(place.name);
	return status;
}

int find_snapshot(const char *text, char **ret_path)
{
	struct snapshot_paths paths = {};
	int status = find_paths(text, find_one, &paths);

	*ret_path = paths.path_nr ? paths.path[--paths.path_nr] : NULL;
	snapshot_paths_release(&paths);
	return status;
}

int find_process_snapshots(const char *text, struct snapshot_paths *ret)
{
	*ret = (struct snapshot_paths){};
	return find_paths(text, find_whole, ret);
}

int find_all_snapshots(const char *text, struct snapshot_paths *paths)
{
	return find_paths(text, find_all, paths);
}
