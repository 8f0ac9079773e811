/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_TOP_FIXTURE_H
#define TESTS_TOP_FIXTURE_H

/* Answers without snapshots, and keys as a text. */

#include "top/layout.h"
#include "top/model.h"

struct fixture_row {
	const char *name;
	int64_t bytes, blocks, growth;
	enum leak_kind kind; /* LEAK_KIND_NR: none */
	double leak_rate;
};

/* A model of a recording, with an answer of these rows; the window is a minute. */
struct top_model fixture_model(const struct fixture_row *row, size_t nr);
struct top_answer *fixture_answer(const struct fixture_row *row, size_t nr);

/* The names of the shown rows, "a b c"; static memory. */
const char *fixture_shown(const struct top_model *model);

/* Presses the characters. */
enum top_action fixture_press(struct top_model *model, const char *keys);

#endif
