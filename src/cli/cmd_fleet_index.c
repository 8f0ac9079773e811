// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/catalogue.h"
#include "fleet/index.h"

struct telling {
	bool is_terminal;
	bool is_line_open; /* progress stands on the last line of the terminal */
};

static void end_line(struct telling *telling)
{
	if (telling->is_line_open)
		fputs("\r\033[K", stderr);
	telling->is_line_open = false;
}

static void say_problem(void *what, enum index_problem problem, const char *path, const char *line)
{
	(void)problem;
	(void)path; /* the line begins with it */
	end_line(what);
	say("%s", line);
}

static void say_waiting(void *what, const char *path)
{
	(void)what;
	say("%s: another index is writing; waiting", path);
}

static void show_progress(void *what, uint64_t file_nr, uint64_t file_all)
{
	struct telling *telling = what;

	if (!telling->is_terminal)
		return;
	fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " files\033[K", file_nr, file_all);
	telling->is_line_open = true;
}

/* "12 new snapshots with 12000 rows; 3 known, 1 duplicate, 2 damaged"; what is 0 is left out behind the rows. */
static int print_sum(const struct index_sum *sum)
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
	return sum->problems[INDEX_DAMAGED] || sum->problems[INDEX_FOREIGN] ||
	       sum->problems[INDEX_UNREADABLE] ? EXIT_FAILED : EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	struct telling telling = { .is_terminal = isatty(STDERR_FILENO) };
	const struct index_events events = { say_problem, show_progress, &telling };
	struct reason why = { "out of memory" };
	struct catalogue *catalogue = NULL;
	struct index_sum sum = {};
	int err;

	/* Before a catalogue is made of nothing. */
	err = fleet_index_check(args->item, args->item_nr, &why);
	if (!err)
		err = catalogue__open_telling(options->catalogue, say_waiting, NULL, &catalogue, &why);
	if (!err)
		err = fleet_index(catalogue, args->item, args->item_nr, &events, &sum, &why);
	end_line(&telling);
	catalogue__close(catalogue);
	return err ? say_failure("%s", why.text) : print_sum(&sum);
}

const struct command cmd_fleet_index = {
	.name = "fleet index",
	.args = "DIR…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "bring the snapshots below DIR into the catalogue: what is new there",
	.detail = "A DIR may also be one file called .snap. Links below DIR are not followed.\n"
		  "It can be ended at any time and run again. What was brought in stays when its file is gone. Files that\n"
		  "are damaged, or called .snap and no snapshots, are told, and the others indexed; the exit status is 1 then.",
	.option = { { .row = catalogue_rows } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.run = run,
};
