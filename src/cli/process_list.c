// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/process_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/walk.h"
#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
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

/* Adds the snapshot's process if it is new. `from`: the first process of this folder in the list. NULL: no memory. */
static struct listed_process *get_listed(struct process_list *list, size_t from, const char *folder,
					 const struct snapshot *snapshot)
{
	struct listed_process process = { .identity = snapshot_identity(snapshot, IDENTITY_IMAGE) };

	for (size_t i = from; i < list->process_nr && process.identity; i++)
		if (!strcmp(list->process[i].identity, process.identity)) {
			free(process.identity);
			return &list->process[i];
		}
	process.host = strdup(listed_metadata(snapshot, "host"));
	process.comm = strdup(listed_metadata(snapshot, "comm"));
	process.folder = strdup(folder);
	process.pid = snapshot__metadata_u64(snapshot, "pid", 0);
	if (process.identity && process.host && process.comm && process.folder && !array_push(list, process, process))
		return &list->process[list->process_nr - 1];
	listed_process_release(&process);
	return NULL;
}

/* Whether its process allocated nothing that was seen, but may have before its functions were probed. */
static bool is_unseen(const struct snapshot *snapshot)
{
	return !snapshot__counter(snapshot, "allocations") && snapshot__counter(snapshot, "functions_late");
}

static int set_listed_snapshot(struct listed_snapshot *ret, const char *path, const struct listed_snapshot *listed)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	free(ret->path);
	*ret = *listed;
	ret->path = copy;
	return 0;
}

static int set_listed_end(struct listed_process *process, const struct snapshot *snapshot)
{
	char *end = strdup(listed_metadata(snapshot, "end"));

	if (!end)
		return -ENOMEM;
	free(process->end);
	process->end = end;
	process->sampler = snapshot_sampler_kind(snapshot);
	return 0;
}

/* Adds a snapshot. By its name it is later than those before; where the boot is known, the moments in them decide. */
static int note_listed_snapshot(struct listed_process *process, const char *path, const struct snapshot *snapshot)
{
	const struct snapshot_facts facts = snapshot_facts(snapshot);
	const struct listed_snapshot listed = { snapshot_moment(snapshot), .traced_bytes = facts.current_bytes };
	uint32_t boot = listed.moment.boot;
	bool is_first = !process->snapshot_nr++;
	struct stat st;
	int err = 0;

	if (is_first || (boot && moment_compare(&listed.moment, &process->first.moment, NULL) < 0))
		err = set_listed_snapshot(&process->first, path, &listed);
	if (is_first || !boot || moment_compare(&listed.moment, &process->last.moment, NULL) >= 0)
		err = err ?: set_listed_snapshot(&process->last, path, &listed) ?: set_listed_end(process, snapshot);
	process->disk_bytes += stat(path, &st) ? 0 : st.st_size;
	process->is_estimated |= facts.is_estimated;
	process->is_unseen = (process->is_unseen || is_first) && is_unseen(snapshot);
	if (process->peak_bytes < facts.peak_bytes)
		process->peak_bytes = facts.peak_bytes;
	return err;
}

static int list_file(struct process_list *list, size_t from, const char *folder, const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	struct listed_process *process;
	int err;

	if (!snapshot) {
		list->damaged_nr++;
		return log_failure("%s", why.text);
	}
	process = get_listed(list, from, folder, snapshot);
	err = process ? note_listed_snapshot(process, path, snapshot) : -ENOMEM;
	snapshot__close(snapshot);
	return err ? log_failure("%s", strerror(-err)) : EXIT_DONE;
}

/* ---- all snapshots ------------------------------------------------------------------------ */

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

int process_list_read(const char *path, struct process_list *ret)
{
	struct process_folders folders = {};
	struct stat st;
	int status;

	*ret = (struct process_list){};
	status = !stat(path, &st) && S_ISREG(st.st_mode) ? list_file(ret, 0, path, path) :
							   process_folders_scan(&folders, path);
	if (list_folders(ret, &folders))
		status = EXIT_FAILED;
	process_folders_release(&folders);
	if (snapshot_rows_sort(ret->process, ret->process_nr, sizeof(*ret->process), true))
		status = log_failure("%s", strerror(ENOMEM));
	return status;
}
