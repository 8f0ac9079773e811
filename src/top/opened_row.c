// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tracebacks of an opened row. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "render.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"
#include "snapshot.h"
#include "top/answer.h"

#define TRACEBACKS_SHOWN 50

__attribute__((format(printf, 2, 3))) static int add_opened_line(struct top_answer *answer, const char *fmt, ...)
{
	va_list args;
	char *line;
	int err;

	va_start(args, fmt);
	if (vasprintf(&line, fmt, args) < 0)
		line = NULL;
	va_end(args);
	err = line ? array_push(answer, line, line) : -ENOMEM;
	if (err)
		free(line);
	return err;
}

static int add_traceback(struct top_answer *answer, const struct readable_names *names,
			 const struct statistic *statistic)
{
	char costs[COST_TEXT_MAX];
	int err = answer->line_nr ? add_opened_line(answer, "%s", "") : 0;

	cost_text(costs, &statistic->cost, NULL, statistic->estimate);
	err = err ?: add_opened_line(answer, "%s", costs);
	for (uint32_t i = statistic->nframe; i-- > 0 && !err;) {
		size_t tail_at;
		char *text = frame_text(names, &statistic->frame[i], &tail_at);

		err = text ? add_opened_line(answer, "    %s", text) : -ENOMEM;
		free(text);
	}
	return err;
}

/* Whether a traceback belongs to the row. Rows of classes were filtered for already. */
static bool is_of_row(const struct top_question *question, const struct statistic *statistic, bool *ret_no_memory)
{
	/* a row by line is of the most recent frame; the head of a traceback may be its oldest one */
	const struct frame_view *own = statistic->frame + (statistic->nframe ? statistic->nframe - 1 : 0);
	bool is_traceback = question->key_type == KEY_TRACEBACK, is_same;
	char *identity;

	if (question->key_type == KEY_DOMAIN || question->key_type == KEY_THREAD || question->key_type == KEY_PROCESS)
		return true;
	identity = top_identity(question->key_type, is_traceback ? statistic->frame : own,
				is_traceback ? statistic->nframe : !!statistic->nframe, NULL);
	is_same = identity && !strcmp(identity, question->open);
	*ret_no_memory |= !identity;
	free(identity);
	return is_same;
}

static int add_tracebacks(struct top_answer *answer, const struct top_question *question,
			  const struct statistics *statistics)
{
	const struct statistic **chosen = calloc(statistics->statistic_nr + 1, sizeof(*chosen));
	size_t nr = 0, more = 0;
	bool no_memory = !chosen;
	struct readable_names names = {};
	int err = 0;

	for (size_t i = 0; i < statistics->statistic_nr && !no_memory; i++) {
		if (!is_of_row(question, &statistics->statistic[i], &no_memory))
			continue;
		if (nr == TRACEBACKS_SHOWN)
			more++;
		else
			chosen[nr++] = &statistics->statistic[i];
	}
	for (size_t i = 0; i < nr && !err; i++)
		err = readable_names_add(&names, chosen[i], 1, KEY_TRACEBACK);
	for (size_t i = 0; i < nr && !err; i++)
		err = add_traceback(answer, &names, chosen[i]);
	if (more && !err)
		err = add_opened_line(answer, "%s", "") ?: add_opened_line(answer, "%zu more tracebacks", more);
	if (!nr && !err)
		err = add_opened_line(answer, "%s", "no live blocks now");
	readable_names_release(&names);
	free(chosen);
	return no_memory ? -ENOMEM : err;
}

/* Only the blocks of the row's domain or thread. *ret is NULL if all blocks may take part. */
static int filter_row(const struct top_question *question, const struct snapshot *newest, struct snapshot **ret,
		      struct reason *why)
{
	struct filter filter = { .inclusive = true, .has_domain = true };
	struct engine_options options = *question->engine;

	*ret = NULL;
	options.select = (struct selection){};
	if (question->key_type == KEY_DOMAIN) {
		filter.domain = strtoul(question->open, NULL, 10);
		options.select.filter = &filter;
		options.select.filter_nr = 1;
	} else if (question->key_type == KEY_THREAD) {
		options.select.thread = strtoul(question->open, NULL, 10);
	} else {
		return 0;
	}
	return snapshot_filter_traces(newest, &options, ret, why);
}

int top_answer_open(struct top_answer *answer, const struct top_question *question, const struct snapshot *newest,
		    struct reason *why)
{
	struct engine_options options = *question->engine;
	struct statistics *statistics = NULL;
	struct snapshot *part = NULL;
	int err;

	answer->opened = strdup(question->open);
	if (!answer->opened)
		return -ENOMEM;
	if (question->key_type == KEY_AGE || question->key_type == KEY_SIZE_CLASS)
		return add_opened_line(answer, "tracebacks belong to lines, functions, files, objects, threads and domains: g groups "
				"by these");
	if (question->key_type == KEY_THREAD && !strcmp(question->open, "0"))
		return add_opened_line(answer, "the thread is not known");
	options.key_type = KEY_TRACEBACK;
	err = filter_row(question, newest, &part, why);
	err = err ?: snapshot_statistics(part ?: newest, &options, &statistics, why);
	err = err ?: add_tracebacks(answer, question, statistics);
	statistics_free(statistics);
	snapshot__close(part);
	return err;
}
