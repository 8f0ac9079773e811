// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/leak_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/walk.h"
#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

struct leak_file {
	struct moment moment;
	char *path;
	char *process, *recording; /* what all snapshots of a process, of a recording have in common */
	uint64_t begin_ns;
	uint64_t clears; /* how often traces were cleared */
	bool is_part;
};

static void leak_file_release(struct leak_file *file)
{
	free(file->path);
	free(file->process);
	free(file->recording);
}

void leak_input_release(struct leak_input *input)
{
	for (size_t i = 0; i < input->file_nr; i++)
		leak_file_release(&input->file[i]);
	free(input->file);
	free(input->folder);
	free(input->now_ns);
	*input = (struct leak_input){};
}

/* ---- files and folders ---------------------------------------------------------------------- */

static int leak_input_add_file(struct leak_input *input, const char *path)
{
	struct leak_file file = { .path = strdup(path) };
	int err = file.path ? array_push(input, file, file) : -ENOMEM;

	if (err)
		leak_file_release(&file);
	return err ? log_failure("out of memory") : EXIT_DONE;
}

/* Adds the snapshots of one folder only. */
static int add_leak_folder(struct leak_input *input, const struct process_folder *folder)
{
	int status = EXIT_DONE;

	if (input->folder) {
		input->has_several |= strcmp(input->folder, folder->path) != 0;
		return EXIT_DONE;
	}
	input->folder = strdup(folder->path);
	if (!input->folder)
		return log_failure("out of memory");
	for (size_t i = 0; i < folder->file_nr && !status; i++)
		status = leak_input_add_file(input, folder->file[i].path);
	return status;
}

static int add_leak_path(struct leak_input *input, const char *path)
{
	struct process_folders folders = {};
	struct stat st;
	int status;

	if (stat(path, &st))
		return log_failure("%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return leak_input_add_file(input, path);
	status = process_folders_scan(&folders, path);
	if (!status && !folders.folder_nr)
		status = log_failure("%s: no snapshots in it", path);
	for (size_t i = 0; i < folders.folder_nr && !status; i++)
		status = add_leak_folder(input, &folders.folder[i]);
	process_folders_release(&folders);
	return status;
}

/* ---- which files ---------------------------------------------------------------------------- */

/* Keeps the files for which keep[] is set. */
static void keep_files(struct leak_input *input, const bool *keep)
{
	size_t nr = 0;

	for (size_t i = 0; i < input->file_nr; i++) {
		if (keep[i])
			input->file[nr++] = input->file[i];
		else
			leak_file_release(&input->file[i]);
	}
	input->file_nr = nr;
}

static int read_leak_facts(struct leak_file *file)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(file->path, &why);

	if (!snapshot)
		return log_failure("%s", why.text);
	file->process = snapshot_identity(snapshot, IDENTITY_PROCESS);
	file->recording = snapshot_identity(snapshot, IDENTITY_RECORDING);
	file->moment = snapshot_moment(snapshot);
	file->begin_ns = snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", UINT64_MAX);
	file->clears = snapshot__metadata_u64(snapshot, "clear_count", 0);
	file->is_part = snapshot__metadata(snapshot, "filters");
	snapshot__close(snapshot);
	return file->process && file->recording ? EXIT_DONE : log_failure("out of memory");
}

/* Also puts them in order, the oldest first. */
static int read_all_facts(struct leak_input *input)
{
	static const struct moment_order order = { .item_size = sizeof(struct leak_file) };
	struct progress progress = progress_begin("reading", "snapshots", input->file_nr);
	int status = EXIT_DONE;

	for (size_t i = 0; i < input->file_nr && !status; i++) {
		progress_show(&progress, i);
		status = read_leak_facts(&input->file[i]);
	}
	progress_end(&progress);
	if (moments_sort(input->file, input->file_nr, &order))
		status = log_failure("out of memory");
	return status;
}

/* Why the snapshots cannot be judged at all. */
static int refuse_leaks(const struct leak_choice *choice, const char *line)
{
	if (!choice->unjudged)
		return log_failure("%s", line);
	reason_set(choice->unjudged, 0, "%s", line);
	return EXIT_UNJUDGED;
}

static void log_left_out(size_t parts, size_t others)
{
	if (parts)
		log_info("%zu filtered snapshot%s left out", parts, parts == 1 ? " is" : "s are");
	if (others)
		log_info("%zu snapshot%s of earlier recordings %s left out", others, others == 1 ? "" : "s",
			 others == 1 ? "is" : "are");
}

static bool has_several_processes(const struct leak_input *input)
{
	for (size_t i = 1; i < input->file_nr; i++)
		if (strcmp(input->file[i].process, input->file[0].process))
			return true;
	return false;
}

/* Keeps only the recording with the newest snapshot. */
static int choose_recording(struct leak_input *input, const struct leak_choice *choice, bool *keep)
{
	const struct leak_file *newest = NULL;
	size_t others = 0, parts = 0;

	for (size_t i = 0; i < input->file_nr; i++) {
		const struct leak_file *file = &input->file[i];

		parts += file->is_part;
		if (!file->is_part)
			newest = file;
	}
	if (!newest)
		return refuse_leaks(choice, "the snapshots were filtered, and leaks need whole ones");
	for (size_t i = 0; i < input->file_nr; i++) {
		keep[i] = !input->file[i].is_part && !strcmp(input->file[i].recording, newest->recording);
		others += !keep[i] && !input->file[i].is_part;
	}
	input->left_out_nr = parts + others;
	if (!choice->unjudged)
		log_left_out(parts, others);
	return EXIT_DONE;
}

/* ---- the time from which on ----------------------------------------------------------------- */

/* Returns how many were chosen. */
static size_t choose_moments(struct leak_input *input, const struct leak_choice *choice, struct leak_moment *moment,
			     bool *keep)
{
	const struct leak_span span = { input->file[input->file_nr - 1].begin_ns, choice->last_ns };

	for (size_t i = 0; i < input->file_nr; i++)
		moment[i] = (struct leak_moment){ input->file[i].moment.monotonic_ns, input->file[i].clears };
	return leak_moments_choose(moment, input->file_nr, &span, keep, &input->recording.times);
}

static int choose_times(struct leak_input *input, const struct leak_choice *choice, bool *keep)
{
	struct leak_moment *moment = calloc(input->file_nr, sizeof(*moment));
	size_t nr = moment ? choose_moments(input, choice, moment, keep) : 0;

	free(moment);
	input->now_ns = calloc(input->file_nr, sizeof(*input->now_ns));
	if (!moment || !input->now_ns)
		return log_failure("out of memory");
	if (!nr)
		return refuse_leaks(choice, "the snapshots do not say when they were taken and when the recording began, "
				    "hence no leaks");
	keep_files(input, keep);
	for (size_t i = 0; i < nr; i++)
		input->now_ns[i] = input->file[i].moment.monotonic_ns;
	input->recording.times.now_ns = input->now_ns;
	input->recording.times.snapshot_nr = nr;
	input->progress = progress_begin("judging", "snapshots", nr);
	return EXIT_DONE;
}

static struct snapshot *open_chosen(void *input_, uint32_t at, struct reason *why)
{
	const struct leak_input *input = input_;

	progress_show(&input->progress, at + 1 == input->file_nr ? 0 : at); /* the last one comes first */
	return snapshot__open(input->file[at].path, why);
}

static int choose_files(struct leak_input *input, const struct leak_choice *choice, bool *keep)
{
	int status = read_all_facts(input);

	input->has_several = !status && has_several_processes(input);
	if (status || input->has_several)
		return status;
	status = choose_recording(input, choice, keep);
	if (status)
		return status;
	keep_files(input, keep);
	return choose_times(input, choice, keep);
}

int leak_input_choose(const char *const *path, size_t path_nr, const struct leak_choice *choice,
		      struct leak_input *ret)
{
	int status = EXIT_DONE;
	bool *keep;

	*ret = (struct leak_input){ .recording.open = open_chosen, .recording.what = ret };
	for (size_t i = 0; i < path_nr && !status; i++)
		status = add_leak_path(ret, path[i]);
	if (status || ret->has_several)
		return status;
	keep = calloc(ret->file_nr, sizeof(*keep));
	status = keep ? choose_files(ret, choice, keep) : log_failure("out of memory");
	free(keep);
	return status;
}

/* ---- the limit of a leak ---- */

/* "1M/h", "64K/min", "100/s"; "0" */
int leak_limit_parse(const char *text, void *field, struct reason *why)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "/s", 1 }, { "/min", 60 }, { "/m", 60 }, { "/h", 3600 }, { "/d", 86400 }, { "", 1 } };
	size_t len = strcspn(text, "/"), at = 0;
	char size[32] = "";
	uint64_t bytes;

	if (len < sizeof(size))
		memcpy(size, text, len);
	while (at + 1 < ARRAY_SIZE(units) && strcmp(text + len, units[at].name))
		at++;
	if (parse_size(size, &bytes) || strcmp(text + len, units[at].name) || (!*units[at].name && bytes))
		return reason_set(why, -EINVAL, "'%.100s' is not a rate such as 0, 64K/min, 1M/h or 10M/d", text);
	*(struct leak_limit *)field = (struct leak_limit){ true, bytes / units[at].seconds };
	return 0;
}

bool leak_limit_is_exceeded(const struct leak_limit *limit, double bytes_per_s)
{
	return limit->is_set && bytes_per_s > limit->bytes_per_s;
}
