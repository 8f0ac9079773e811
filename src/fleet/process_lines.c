// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/process_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/content_id.h"

#define CALLERS_KEPT 5 /* of a line: those that are shown */

/* Sets *ret to NULL if the catalogue does not have the line: the file is no longer what was indexed. */
static int find_line_group(const struct line_groups *groups, struct digest *digest, uint32_t traceback,
			   const struct known_row **ret)
{
	struct hash_id id;
	int err = digest_traceback_id(digest, traceback, &id);

	*ret = err ? NULL : known_find(&groups->group, id.id, 0);
	return err;
}

static int keep_line(struct process_line *ret, const struct leaks *leaks, const struct leak_line *line)
{
	int err;

	ret->verdict.verdict = line->verdict;
	ret->verdict.window = leaks->window;
	ret->verdict.summed = line->is_summed ? line->site_nr : 0;
	if (line->verdict.kind > LEAK_GROWS)
		return 0;
	ret->hints = leak_line_runtimes(leaks, line) | leak_recording_hints(leaks->last);
	err = leak_place_read(leaks, line, CALLERS_KEPT, &ret->verdict.place);
	return err ?: leak_place_own_names(&ret->verdict.place);
}

/* Lines of a bundle come one after another. -ESTALE: one of them is not in the catalogue. */
static int keep_bundle(struct process_lines *lines, const struct leaks *leaks, const struct leak_bundle *bundle,
		       const struct line_groups *groups, struct digest *digest)
{
	struct process_line *first = &lines->line[lines->line_nr];
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < bundle->nr; i++) {
		const struct leak_line *line = &leaks->line[bundle->first + i];
		struct process_line *kept = &lines->line[lines->line_nr++];
		const struct known_row *group;
		int err = find_line_group(groups, digest, leak_line_caller(leaks, line)->traceback, &group);

		if (err || !group)
			return err ?: -ESTALE;
		kept->group = group->number;
		kept->verdict.common = bundle->caller;
		least = kept->group < least ? kept->group : least;
		err = keep_line(kept, leaks, line);
		if (err)
			return err;
	}
	for (size_t i = 0; i < bundle->nr; i++)
		first[i].together = least;
	return 0;
}

static void forget_lines(struct process_lines *lines)
{
	for (size_t i = 0; i < lines->line_nr; i++)
		leak_place_release(&lines->line[i].verdict.place);
	free(lines->line);
	lines->line = NULL;
	lines->line_nr = 0;
}

static int keep_lines(struct process_lines *lines, const struct leaks *leaks, const struct fleet_snapshot *snapshot,
		      const struct line_groups *groups)
{
	struct digest digest = {};
	int err = digest_begin(&digest, leaks->last);

	lines->line = calloc(leaks->line_nr ?: 1, sizeof(*lines->line));
	err = err ?: (lines->line ? 0 : -ENOMEM);
	for (size_t i = 0; i < leaks->bundle_nr && !err; i++)
		err = keep_bundle(lines, leaks, &leaks->bundle[i], groups, &digest);
	digest_release(&digest);
	for (size_t i = 0; i < lines->line_nr; i++)
		lines->line[i].verdict.snapshot = snapshot;
	if (err != -ESTALE)
		return err;
	lines->unjudged = FLEET_UNJUDGED_CHANGED;
	reason_set(&lines->why, 0, "%s: other names than when it was indexed", snapshot->path);
	forget_lines(lines);
	return 0;
}

static int keep_untraced(struct untraced_growth *ret, const struct leaks *leaks)
{
	*ret = leaks_find_untraced(leaks);
	if (!ret->name)
		return 0;
	ret->name = strdup(ret->name);
	return ret->name ? 0 : -ENOMEM;
}

static int keep_blind(struct leak_blind *ret, const struct leaks *leaks)
{
	*ret = leaks_find_blind(leaks);
	if (!ret->unseen_heap)
		return 0;
	ret->unseen_heap = strdup(ret->unseen_heap);
	return ret->unseen_heap ? 0 : -ENOMEM;
}

int process_lines_find(const struct process_leaks_question *question, const struct line_groups *groups,
		       struct process_lines *ret)
{
	struct process_leaks process;
	int err = process_leaks_find(question, &process);

	*ret = (struct process_lines){
		.unjudged = process.unjudged, .gone_nr = process.gone_nr, .why = process.why,
	};
	if (!err && process.unjudged == FLEET_UNJUDGED_UNTRACED)
		err = keep_untraced(&ret->untraced, process.leaks);
	if (!err && process.leaks)
		err = keep_blind(&ret->blind, process.leaks);
	if (!err && process.leaks)
		err = keep_lines(ret, process.leaks, question->snapshot[question->snapshot_nr - 1], groups);
	process_leaks_release(&process);
	return err;
}

void process_lines_release(struct process_lines *lines)
{
	forget_lines(lines);
	free((char *)lines->untraced.name);
	free((char *)lines->blind.unseen_heap);
	lines->untraced.name = lines->blind.unseen_heap = NULL;
}
