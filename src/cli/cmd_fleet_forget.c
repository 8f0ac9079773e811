// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet forget: removes snapshots from a catalogue. */
#include <inttypes.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/forget.h"

static void report_other_writer(void *what, const char *path)
{
	(void)what;
	log_info("%s: an index is writing; waiting", path);
}

/* The facts, which the cohort points into, stay when the reader is closed; a commit waits for readers. */
static int forget_cohort(struct fleet *fleet, const struct cohort *cohort)
{
	struct catalogue *catalogue = NULL;
	struct reason why = { "out of memory" };
	int err;

	fleet_let_go(fleet);
	err = catalogue__open_to_write(fleet->options->catalogue, report_other_writer, NULL, &catalogue, &why);
	if (!err)
		err = catalogue_forget(catalogue, cohort, &why);
	catalogue__close(catalogue);
	if (err)
		return log_failure("%s", why.text);
	printf("%zu snapshot%s forgotten, %" PRIu64 " row%s\n", cohort->snapshot_nr, cohort->snapshot_nr == 1 ? "" : "s",
	       cohort_row_nr(cohort), cohort_row_nr(cohort) == 1 ? "" : "s");
	return EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	const struct fleet_where where = { "where", &options->where };
	struct fleet fleet = { .options = options };
	struct cohort cohort = {};
	int status;

	(void)args;
	if (!options->where.item_nr)
		return log_refusal(&cmd_fleet_forget, "--where says which snapshots; 'time>=0' is all");
	status = fleet_open(&fleet);
	if (!status)
		status = fleet_choose(&cmd_fleet_forget, &fleet, &where, 1, COHORT_WITH_PARTS, &cohort);
	if (!status)
		status = forget_cohort(&fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}

const struct command cmd_fleet_forget = {
	.name = "fleet forget",
	.args = "--where SEL",
	.help = "remove snapshots from the catalogue",
	.detail = "Their files stay, and are not indexed again. The catalogue's file keeps its size: what is indexed later "
		  "takes the room.\n\n"
		  SELECTION_DETAIL,
	.example = "allocsnap fleet forget --where 'time<-30d'",
	.option = { { catalogue_rows, 0, "Which snapshots" }, { where_rows, 0, "Which snapshots" } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.run = run,
};
