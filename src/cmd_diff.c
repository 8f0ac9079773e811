// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "cmd_stats.h"
#include "render.h"
#include "snapshot.h"

/* ---- why two snapshots may not compare ---------------------------------------------------- */

struct pair {
	const struct snapshot *old, *new;
	enum key_type key_type;
};

/* Where one of the two does not know, nothing is said. */
static bool differs(const struct pair *pair, const char *key)
{
	const char *old = snapshot__metadata(pair->old, key);
	const char *new = snapshot__metadata(pair->new, key);

	return old && new && strcmp(old, new);
}

static bool warn_process(const struct pair *pair, struct reason *ret)
{
	if (!differs(pair, "host") && !differs(pair, "boot_id") && !differs(pair, "pid") &&
	    !differs(pair, "start_time_ticks"))
		return false;
	reason_set(ret, 0, "the snapshots are of different processes: pid %s and pid %s",
		   snapshot__metadata(pair->old, "pid") ?: "unknown",
		   snapshot__metadata(pair->new, "pid") ?: "unknown");
	return true;
}

static bool warn_binary(const struct pair *pair, struct reason *ret)
{
	if (!differs(pair, "exe"))
		return false;
	reason_set(ret, 0, "the snapshots are of different programs: %.200s and %.200s",
		   snapshot__metadata(pair->old, "exe"), snapshot__metadata(pair->new, "exe"));
	return true;
}

static bool warn_order(const struct pair *pair, struct reason *ret)
{
	uint64_t old = snapshot__metadata_u64(pair->old, "wall_ns", 0);
	uint64_t new = snapshot__metadata_u64(pair->new, "wall_ns", 0);

	if (!old || !new || old <= new)
		return false;
	reason_set(ret, 0, "the first snapshot is %.3f s younger than the second: growth shows as "
			   "shrinking", (old - new) / 1e9);
	return true;
}

static bool warn_limit(const struct pair *pair, struct reason *ret)
{
	if (pair->key_type != KEY_TRACEBACK || !differs(pair, "traceback_limit"))
		return false;
	reason_set(ret, 0, "the traceback limits differ, %s and %s: longer tracebacks do not match",
		   snapshot__metadata(pair->old, "traceback_limit"),
		   snapshot__metadata(pair->new, "traceback_limit"));
	return true;
}

static bool (*const checks[])(const struct pair *pair, struct reason *ret) = {
	warn_process, warn_binary, warn_order, warn_limit,
};

struct warnings {
	struct reason text[ARRAY_SIZE(checks)];
	const char *line[ARRAY_SIZE(checks)];
	size_t nr;
};

/* Also says them: JSON may go to a program, stderr to the person who started it. */
static void collect_warnings(struct warnings *warnings, const struct pair *pair)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct reason *text = &warnings->text[warnings->nr];

		if (!checks[i](pair, text))
			continue;
		warnings->line[warnings->nr++] = text->text;
		say("warning: %s", text->text);
	}
}

/* ---- the command -------------------------------------------------------------------------- */

static int print_diff(const struct stats_options *options, const struct snapshot *old,
		      const struct snapshot *new)
{
	struct engine_options engine = engine_options(options);
	const struct snapshot *both[] = { old, new };
	struct pair pair = { old, new, stats_key_type(options) };
	struct warnings warnings = {};
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	struct report report;
	int status;

	if (snapshot_compare(old, new, &engine, &statistics, &why))
		return say_failure("%s", why.text);
	collect_warnings(&warnings, &pair);
	report = (struct report){ .statistics = statistics, .snapshot = both, .snapshot_nr = 2,
				  .warning = warnings.line, .warning_nr = warnings.nr };
	status = print_report(options, &report);
	statistics_free(statistics);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct stats_options *options = command_options;
	int status = check_stats_options(&cmd_diff, options);
	struct snapshot *old, *new;

	if (status)
		return status;
	old = open_snapshot(args->item[0]);
	new = open_snapshot(args->item[1]);
	status = old && new ? print_diff(options, old, new) : EXIT_FAILED;
	snapshot__close(old);
	snapshot__close(new);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "OLD NEW",
	.arg_min = 2,
	.arg_max = 2,
	.help = "what grew and what shrank between two snapshots",
	.detail = "A line reads as in tracemalloc: size=NEW (NEW - OLD). The folded format gives\n"
		  "two numbers, OLD and NEW, as differential flame graphs take them.",
	.option = { { .row = stats_rows } },
	.defaults = &stats_defaults,
	.options_size = sizeof(struct stats_options),
	.run = run,
};
