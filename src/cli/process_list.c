// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/process_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
#include "cli/process_folders.h"
#include "render/facts.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

static void listed_process_release(struct listed_process *process)
{
	free(process->identity);
	free(process->host);
	free(process->comm);
	free(process->folder);
	free(process->first.path);
	free(process->last.path);
	free(process->end);
}

void process_list_release(struct process_list *list)
{
	for (size_t i = 0; i < list->process_nr; i++)
		listed_process_release(&list->process[i]);
	free(list->process);
	*list = (struct process_list){};
}

/* ---- one snapshot ------------------------------------------------------------------------- */

static const char *listed_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

static int set_listed_snapshot(struct listed_snapshot *ret, const char *path, const struct snapshot *snapshot,
			       const struct snapshot_facts *facts)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	free(ret->path);
	*ret = (struct listed_snapshot){ snapshot_moment(snapshot), copy, facts->current_bytes };
	return 0;
}

static struct listed_process *find_listed(struct process_list *list, size_t from, const char *identity)
{
	for (size_t i = from; i < list->process_nr; i++)
		if (!strcmp(list->process[i].identity, identity))
			return &list->process[i];
	return NULL;
}

static int add_listed_process(struct process_list *list, const char *folder, const char *identity,
			      const struct snapshot *snapshot)
{
	struct listed_process process = {
		.identity = strdup(identity),
		.host = strdup(listed_metadata(snapshot, "host")),
		.comm = strdup(listed_metadata(snapshot, "comm")),
		.folder = strdup(folder),
		.pid = snapshot__metadata_u64(snapshot, "pid", 0),
	};

	if (process.identity && process.host && process.comm && process.folder && !array_push(list, process, process))
		return 0;
	listed_process_release(&process);
	return -ENOMEM;
}

/* Whether its process allocated nothing that was seen, but may have before its functions were probed. */
static bool is_unseen(const struct snapshot *snapshot)
{
	return !snapshot__counter(snapshot, "allocations") && snapshot__counter(snapshot, "functions_late");
}

/* Makes the snapshot the last one of its process. */
static int set_last_snapshot(struct listed_process *process, const char *path, const struct snapshot *snapshot,
			     const struct snapshot_facts *facts)
{
	char *end = strdup(listed_metadata(snapshot, "end"));

	if (!end || set_listed_snapshot(&process->last, path, snapshot, facts)) {
		free(end);
		return -ENOMEM;
	}
	free(process->end);
	process->end = end;
	process->sampler = snapshot_sampler_kind(snapshot);
	return 0;
}

/* Adds a snapshot. By its name it is later than those before; where the boot is known, the moments in them decide. */
static int note_listed_snapshot(struct listed_process *process, const char *path, const struct snapshot *snapshot)
{
	const struct snapshot_facts facts = snapshot_facts(snapshot);
	const struct moment moment = snapshot_moment(snapshot);
	bool is_first = !process->snapshot_nr++;
	struct stat st;
	int err = 0;

	if (is_first || (moment.boot && moment_compare(&moment, &process->first.moment, NULL) < 0))
		err = set_listed_snapshot(&process->first, path, snapshot, &facts);
	if (is_first || !moment.boot || moment_compare(&moment, &process->last.moment, NULL) >= 0)
		err = err ?: set_last_snapshot(process, path, snapshot, &facts);
	process->disk_bytes += stat(path, &st) ? 0 : st.st_size;
	process->is_estimated |= facts.is_estimated;
	process->is_unseen = (process->is_unseen || is_first) && is_unseen(snapshot);
	if (process->peak_bytes < facts.peak_bytes)
		process->peak_bytes = facts.peak_bytes;
	return err;
}

/* `from`: the first process of this folder in the list. */
static int list_file(struct process_list *list, size_t from, const char *folder, const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	char *identity = snapshot ? snapshot_identity(snapshot, IDENTITY_IMAGE) : NULL;
	int err = 0;

	if (!snapshot) {
		list->damaged_nr++;
		return log_failure("%s", why.text);
	}
	if (!identity)
		err = -ENOMEM;
	else if (!find_listed(list, from, identity))
		err = add_listed_process(list, folder, identity, snapshot);
	if (!err)
		err = note_listed_snapshot(find_listed(list, from, identity), path, snapshot);
	free(identity);
	snapshot__close(snapshot);
	return err ? log_failure("%s", strerror(-err)) : EXIT_DONE;
}

/* ---- all snapshots ------------------------------------------------------------------------ */

static int compare_last_paths(const void *a, const void *b)
{
	return strcmp(((const struct listed_process *)a)->last.path, ((const struct listed_process *)b)->last.path);
}

static int sort_listed(struct process_list *list)
{
	static const struct moment_order order = {
		.item_size = sizeof(struct listed_process),
		.newest_first = true,
		.compare_rest = compare_last_paths,
	};
	int err = moments_sort(list->process, list->process_nr, &order);

	return err ? log_failure("%s", strerror(-err)) : EXIT_DONE;
}

static int list_folder(struct process_list *list, const struct process_folder *folder,
		       const struct progress *progress, size_t before)
{
	size_t from = list->process_nr;
	int status = EXIT_DONE;

	for (size_t i = 0; i < folder->file_nr; i++) {
		progress_show(progress, before + i);
		if (list_file(list, from, folder->path, folder->file[i].path))
			status = EXIT_FAILED;
	}
	return status;
}

static int list_folders(struct process_list *list, const struct process_folders *folders)
{
	size_t file_nr = 0, before = 0;
	struct progress progress;
	int status = EXIT_DONE;

	for (size_t i = 0; i < folders->folder_nr; i++)
		file_nr += folders->folder[i].file_nr;
	progress = progress_begin("reading", "snapshots", file_nr);
	for (size_t i = 0; i < folders->folder_nr; i++) {
		if (list_folder(list, &folders->folder[i], &progress, before))
			status = EXIT_FAILED;
		before += folders->folder[i].file_nr;
	}
	progress_end(&progress);
	return status;
}

static bool is_regular_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

int process_list_read(const char *path, struct process_list *ret)
{
	struct process_folders folders = {};
	int status;

	*ret = (struct process_list){};
	status = is_regular_file(path) ? list_file(ret, 0, path, path) : process_folders_scan(&folders, path);
	if (list_folders(ret, &folders))
		status = EXIT_FAILED;
	process_folders_release(&folders);
	return sort_listed(ret) ?: status;
}
