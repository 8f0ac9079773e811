// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top/views.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "top/layout.h"
#include "top/viewer.h"

/* Returns 0 or a negative errno. */
static int write_screen(struct top_model *model, bool is_first)
{
	struct top_screen screen;
	int err = top_layout_draw(model, terminal_width(STDOUT_FILENO), 0, &screen);

	if (!err && !is_first && putchar('\n') == EOF)
		err = -errno ?: -EIO;
	for (size_t i = 0; i < screen.line_nr && !err; i++)
		if (puts(screen.line[i].text) == EOF)
			err = -errno ?: -EIO;
	if (!err && fflush(stdout))
		err = -errno;
	top_screen_release(&screen);
	return err;
}

/* Waits for the next answer; a list of processes is shown each interval. */
static bool wait_for_screen(struct viewer *viewer, uint64_t answer_nr)
{
	const struct viewer_options *options = viewer->options;
	uint64_t until_ns = viewer->model.now_ns + options->interval_ns;

	if (!options->live && !viewer->opened)
		return true;
	while (!viewer->stop && !viewer->has_failed && viewer->answer_nr == answer_nr) {
		bool was_over = viewer->model.is_over;

		viewer_step(viewer, -1, -1);
		if (!viewer->opened && viewer->model.now_ns >= until_ns)
			return true;
		if (was_over && !viewer->analyst.is_running && !viewer->added)
			return viewer->answer_nr != answer_nr;
	}
	return viewer->answer_nr != answer_nr;
}

static int report_write_failure(int err)
{
	if (err == -EPIPE)
		return EXIT_FAILED;
	return err ? log_failure("cannot write: %s", strerror(-err)) : EXIT_DONE;
}

int text_view_run(struct viewer *viewer)
{
	uint64_t count = viewer->options->live ? viewer->options->count : 1, answer_nr = 0;
	int err = 0;

	/* Allocations of the first moment tell nothing, and with a count of one no other text follows. */
	viewer->next_ask_ns = monotonic_now_ns() + viewer->options->interval_ns;
	for (uint64_t nr = 0; (!count || nr < count) && !err && !viewer->stop; nr++) {
		if (!wait_for_screen(viewer, answer_nr))
			break;
		answer_nr = viewer->answer_nr;
		err = write_screen(&viewer->model, !nr);
	}
	return viewer->has_failed ? EXIT_FAILED : report_write_failure(err);
}
