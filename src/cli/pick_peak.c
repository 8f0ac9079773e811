// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/pick_peak.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/find_snapshot.h"
#include "render/facts.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

struct candidate {
	char *path;
	char *process; /* more than its PID, which the kernel reuses */
	char *when;
	uint64_t bytes, peak_bytes;
};

struct candidates {
	struct candidate *candidate;
	size_t candidate_nr, candidate_alloc;
	int status;
};

static void candidate_release(struct candidate *candidate)
{
	free(candidate->path);
	free(candidate->process);
	free(candidate->when);
}

/* ---- one snapshot ------------------------------------------------------------------------- */

static const char *get_peak_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

/* ", taken 2026-11-21T03:15:00.123Z (peak)"; unknown parts are left out. */
static char *format_when(const struct snapshot *snapshot)
{
	const char *time = get_peak_metadata(snapshot, "wall_time"), *trigger = get_peak_metadata(snapshot, "trigger");
	char *text;

	return asprintf(&text, "%s%s%s%s%s", *time ? ", taken " : "", time, *trigger ? " (" : "",
			trigger, *trigger ? ")" : "") < 0 ? NULL : text;
}

static int add_candidate(struct candidates *all, const char *path, const struct snapshot *snapshot)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	struct candidate candidate = {
		.path = strdup(path),
		.process = snapshot_identity(snapshot, IDENTITY_IMAGE),
		.when = format_when(snapshot),
		.bytes = facts.current_bytes,
		.peak_bytes = facts.has_peak ? facts.peak_bytes : 0,
	};

	if (candidate.path && candidate.process && candidate.when &&
	    !array_push(all, candidate, candidate))
		return 0;
	candidate_release(&candidate);
	return -ENOMEM;
}

static void add_candidate_file(struct candidates *all, const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);

	if (!snapshot || add_candidate(all, path, snapshot))
		all->status = log_failure("%s", why.text);
	snapshot__close(snapshot);
}

/* ---- all snapshots ------------------------------------------------------------------------ */

static const struct candidate *find_largest(const struct candidates *all)
{
	const struct candidate *most = all->candidate;

	for (size_t i = 1; i < all->candidate_nr; i++)
		if (all->candidate[i].bytes > most->bytes)
			most = &all->candidate[i];
	return most;
}

/* The highest peak that any snapshot of this process has. */
static uint64_t find_process_peak(const struct candidates *all, const struct candidate *of)
{
	uint64_t peak = 0;

	for (size_t i = 0; i < all->candidate_nr; i++)
		if (all->candidate[i].peak_bytes > peak &&
		    !strcmp(all->candidate[i].process, of->process))
			peak = all->candidate[i].peak_bytes;
	return peak;
}

static void report_choice(const struct candidates *all, const struct candidate *most)
{
	char bytes[UNIT_TEXT_MAX], peak_text[UNIT_TEXT_MAX];
	uint64_t peak = find_process_peak(all, most);

	format_size(bytes, most->bytes, false);
	if (peak)
		log_info("%s%s: %s traced, %.1f %% of the peak, %s", most->path, most->when, bytes,
		    100.0 * most->bytes / peak, format_size(peak_text, peak, false));
	else
		log_info("%s%s: %s traced; the peak was not recorded", most->path, most->when, bytes);
}

static void candidates_release(struct candidates *all)
{
	for (size_t i = 0; i < all->candidate_nr; i++)
		candidate_release(&all->candidate[i]);
	free(all->candidate);
}

int at_peak_choose(const char *const *text, size_t text_nr, char **ret_path)
{
	struct candidates all = { .status = EXIT_DONE };
	struct snapshot_paths paths = {};
	struct progress progress;

	*ret_path = NULL;
	for (size_t i = 0; i < text_nr; i++)
		if (find_all_snapshots(text[i], &paths))
			all.status = EXIT_FAILED;
	progress = progress_begin("reading", "snapshots", paths.path_nr);
	for (size_t i = 0; i < paths.path_nr; i++) {
		progress_show(&progress, i);
		add_candidate_file(&all, paths.path[i]);
	}
	progress_end(&progress);
	if (all.candidate_nr) {
		const struct candidate *most = find_largest(&all);

		report_choice(&all, most);
		*ret_path = strdup(most->path);
	}
	candidates_release(&all);
	snapshot_paths_release(&paths);
	return all.status;
}
