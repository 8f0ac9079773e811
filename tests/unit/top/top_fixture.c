// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "top_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct top_answer *fixture_answer(const struct fixture_row *row, size_t nr)
{
	struct top_answer *answer = calloc(1, sizeof(*answer));

	answer->process = (struct top_process){
		.pid = 4711, .comm = "shop", .bytes = 2000000, .blocks = 300, .rss_bytes = 5000000, .peak_bytes = 2500000,
		.cost_ns = 2000000000, .cpu_ns = 10000000000, .recorded_ns = 92000000000, .cost_is_known = true,
	};
	answer->now_ns = 1000 * SECOND_NS;
	answer->window_ns = 60 * SECOND_NS;
	answer->row = calloc(nr + 1, sizeof(*answer->row));
	answer->row_nr = nr;
	for (size_t i = 0; i < nr; i++)
		answer->row[i] = (struct top_row){
			.name = strdup(row[i].name),
			.tail_at = strstr(row[i].name, " at ") ? (size_t)(strstr(row[i].name, " at ") - row[i].name) :
								   strlen(row[i].name),
			.identity = strdup(row[i].name),
			.cost = { row[i].bytes, row[i].blocks },
			.diff = { row[i].growth, 1 },
			.kind = row[i].kind,
			.leak_bytes_per_s = row[i].leak_rate,
		};
	return answer;
}

struct top_model fixture_model(const struct fixture_row *row, size_t nr)
{
	struct top_model model = { .is_live = true, .page = TOP_PAGE_ROWS, .now_ns = 1000 * SECOND_NS, .own_share = 0.01 };

	cr_assert_eq(top_model_set_answer(&model, fixture_answer(row, nr)), 0);
	return model;
}

const char *fixture_shown(const struct top_model *model)
{
	static char text[512];
	size_t len = 0;

	*text = '\0';
	for (size_t i = 0; i < model->shown_nr; i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", model->answer->row[model->shown[i]].name);
	return text;
}

enum top_action fixture_press(struct top_model *model, const char *keys)
{
	enum top_action action = TOP_ACTION_NONE;

	for (; *keys; keys++)
		action = top_model_press(model, *keys);
	return action;
}
