// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>

#include "base/progress.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/catalogue.h"
#include "fleet/index.h"

static void print_index_problem(void *what, enum index_problem problem, const char *path, const char *line)
{
	(void)what, (void)problem, (void)path; /* the line begins with the path */
	log_info("%s", line);
}

static void print_unless_duplicate(void *what, enum index_problem problem, const char *path, const char *line)
{
	if (problem != INDEX_DUPLICATE)
		print_index_problem(what, problem, path, line);
}

static void report_waiting(void *what, const char *path)
{
	(void)what;
	log_info("%s: another index is writing; waiting", path);
}

/* How many files there are is known after the first step. */
static void show_index_progress(void *progress_, uint64_t file_nr, uint64_t file_all)
{
	struct progress *progress = progress_;

	progress->all = file_all;
	progress_show(progress, file_nr);
}

/* Files that could not be read are left out of every answer. */
static bool is_all_indexed(const struct index_sum *sum)
{
	return !sum->problems[INDEX_DAMAGED] && !sum->problems[INDEX_FOREIGN] && !sum->problems[INDEX_UNREADABLE];
}

/* "12 new snapshots, 12000 rows; 3 known, 1 duplicate, 2 damaged"; zeros after the rows are left out. */
static int print_index_sum(const struct index_sum *sum)
{
	const struct {
		uint64_t nr;
		const char *name;
	} rest[] = {
		{ sum->known, "known" },
		{ sum->moved, "moved" },
		{ sum->problems[INDEX_DUPLICATE], "duplicate" },
		{ sum->problems[INDEX_DAMAGED], "damaged" },
		{ sum->problems[INDEX_FOREIGN], "foreign" },
		{ sum->problems[INDEX_UNREADABLE], "unreadable" },
		{ sum->gone, "gone" },
		{ sum->links, sum->links == 1 ? "link not followed" : "links not followed" },
	};
	const char *before = "; ";

	printf("%" PRIu64 " new snapshot%s, %" PRIu64 " row%s", sum->snapshots,
	       sum->snapshots == 1 ? "" : "s", sum->rows, sum->rows == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
		if (!rest[i].nr)
			continue;
		printf("%s%" PRIu64 " %s", before, rest[i].nr, rest[i].name);
		before = ", ";
	}
	putchar('\n');
	return is_all_indexed(sum) ? EXIT_DONE : EXIT_FAILED;
}

static int index_into(const char *catalogue_path, const char *const *dir, size_t dir_nr, bool tells_duplicates,
		      struct index_sum *ret)
{
	struct progress progress = progress_begin("indexing", "files", 0);
	const struct index_events events = {
		tells_duplicates ? print_index_problem : print_unless_duplicate, show_index_progress, &progress,
	};
	struct reason why = { "out of memory" };
	struct catalogue *catalogue = NULL;
	int err;

	/* This check comes first: it fails before an empty catalogue is created. */
	err = fleet_index_check(dir, dir_nr, &why);
	err = err ?: catalogue__open_to_write(catalogue_path, report_waiting, NULL, &catalogue, &why);
	err = err ?: fleet_index(catalogue, dir, dir_nr, &events, ret, &why);
	progress_end(&progress);
	catalogue__close(catalogue);
	return err ? log_failure("%s", why.text) : EXIT_DONE;
}

int index_folders(const char *catalogue_path, const char *const *dir, size_t dir_nr, bool *ret_is_whole)
{
	struct index_sum sum = {};
	int status = index_into(catalogue_path, dir, dir_nr, false, &sum);
	uint64_t nr = sum.problems[INDEX_DUPLICATE];

	if (nr)
		log_info("%" PRIu64 " snapshot%s there twice", nr, nr == 1 ? " is" : "s are");
	*ret_is_whole = is_all_indexed(&sum);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	struct index_sum sum = {};

	return index_into(options->catalogue, args->item, args->item_nr, true, &sum) ?: print_index_sum(&sum);
}

const struct command cmd_fleet_index = {
	.name = "fleet index",
	.args = "DIR…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "add new snapshots below DIR to the catalogue",
	.detail = "A DIR may also be one file named .snap. Links below DIR are not followed. The command can be "
		  "interrupted at any time and run again. Snapshots stay in the catalogue when their files are "
		  "gone. Files that are damaged, or named .snap but no snapshots, are reported; the others are "
		  "indexed, and the exit status is 1.",
	.example = "allocsnap fleet index /srv/snapshots",
	.option = { { .row = catalogue_rows } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.run = run,
};
