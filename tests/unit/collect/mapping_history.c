// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The history has what was mapped at any time, though events may arrive after a later reading. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/mapping_history.h"
#include "mappings_fixture.h"

#define PAGE 0x1000UL
#define BASE 0x10000UL

static void expect_at(uint64_t time_ns, uint64_t address, uint64_t offset)
{
	bool is_unsure;
	const struct mapping *mapping = history_find(&fixture->mappings, address, time_ns, &is_unsure);

	cr_expect_not(is_unsure);
	cr_assert(mapping, "nothing was at 0x%llx at %llu", (unsigned long long)address,
		  (unsigned long long)time_ns);
	cr_expect_eq(address - mapping->start + mapping->offset, offset, "at %llu it was offset 0x%llx",
		     (unsigned long long)time_ns, (unsigned long long)(address - mapping->start + mapping->offset));
}

static void expect_unsure_at(uint64_t time_ns, uint64_t address)
{
	bool is_unsure;

	cr_expect_null(history_find(&fixture->mappings, address, time_ns, &is_unsure));
	cr_expect(is_unsure, "at %llu", (unsigned long long)time_ns);
}

TestSuite(mapping_history, .init = new_fixture, .fini = free_fixture);

Test(mapping_history, has_what_was_replaced)
{
	add_mapping_at(10, 0x1000, 0x9000, 0x10000);
	add_mapping_at(20, 0x3000, 0x5000, 0x50000);
	add_mapping_at(30, 0x3000, 0x4000, 0x80000);
	expect_at(19, 0x3000, 0x12000);
	expect_at(20, 0x3000, 0x50000);
	expect_at(30, 0x3000, 0x80000);
	expect_at(30, 0x4000, 0x51000);
	expect_at(10, 0x5000, 0x14000);
	expect_unsure_at(HISTORY_ANY, 0x3000);
	expect_at(HISTORY_ANY, 0x5000, 0x14000);
}

/* The text shows only what came last. */
Test(mapping_history, has_what_came_and_went_before_a_reading)
{
	add_mapping_at(fixture->time_ns = 10, 0x3000, 0x4000, 0x3000);
	read_maps("3000-4000 r-xp 00009000 00:00 0 [vdso]\n");
	expect_unsure_at(15, 0x3000);
	expect_at(20, 0x3000, 0x9000);
	add_mapping_at(12, 0x3000, 0x4000, 0x7000);
	add_mapping_at(14, 0x3000, 0x4000, 0x9000);
	expect_at(11, 0x3000, 0x3000);
	expect_at(12, 0x3000, 0x7000);
	expect_at(14, 0x3000, 0x9000);
}

/* An event was lost. Nobody knows when the new code came. */
Test(mapping_history, is_unsure_of_a_change_that_no_event_told)
{
	add_mapping_at(5, 0x3000, 0x4000, 0x3000);
	fixture->time_ns = 10;
	read_maps("3000-4000 r-xp 00009000 00:00 0 [vdso]\n");
	read_maps("3000-4000 r-xp 00009000 00:00 0 [vdso]\n");
	expect_at(9, 0x3000, 0x3000);
	expect_unsure_at(10, 0x3000);
	expect_unsure_at(19, 0x3000);
	expect_at(20, 0x3000, 0x9000);
}

Test(mapping_history, is_unsure_of_a_time_before_it_was_too_long)
{
	for (uint64_t i = 1; i <= MAPPINGS_PAST_MAX + 2; i++)
		add_mapping_at(i, 0x3000, 0x4000, i * PAGE);
	expect_unsure_at(1, 0x3000);
	expect_unsure_at(MAPPINGS_PAST_MAX / 2, 0x3000);
	expect_at(MAPPINGS_PAST_MAX / 2 + 1, 0x3000, (MAPPINGS_PAST_MAX / 2 + 1) * PAGE);
	expect_at(HISTORY_NOW, 0x3000, (MAPPINGS_PAST_MAX + 2) * PAGE);
	cr_expect_eq(fixture->mappings.forgotten_nr, MAPPINGS_PAST_MAX / 2);
}

static void replace_elsewhere(uint64_t time_ns)
{
	for (uint64_t i = 0; i <= MAPPINGS_PAST_MAX; i++)
		add_mapping_at(time_ns + i, 0x8000, 0x9000, i * PAGE);
}

/* Nothing is left of the code before, at its address or beside it. */
Test(mapping_history, is_unsure_of_code_whose_only_replacement_is_forgotten)
{
	struct history_times times = {};

	add_mapping_at(1, 0x1000, 0x2000, 0x1000);
	add_mapping_at(1, 0x3000, 0x4000, 0x3000);
	add_mapping_at(10, 0x3000, 0x4000, 0x9000);
	replace_elsewhere(11);
	expect_unsure_at(9, 0x3000);
	expect_unsure_at(HISTORY_ANY, 0x3000);
	expect_at(10, 0x3000, 0x9000);
	expect_at(HISTORY_NOW, 0x3000, 0x9000);
	cr_assert_eq(history_times(&fixture->mappings, 0x3000, 5, &times), 0);
	cr_assert_geq(times.time_nr, 1);
	cr_expect_eq(times.time[times.time_nr - 1], 10, "a traceback of before gets a new version");
	for (int i = 0; i < 3; i++)
		mappings_end_pass(&fixture->mappings);
	expect_at(9, 0x3000, 0x9000);
	cr_expect_not(history_has(&fixture->mappings, 0, UINT64_MAX), "a later pass has nothing of before");
	free(times.time);
}

/* Two pieces of the same code, of which the second came later, in place of code that is forgotten. */
Test(mapping_history, keeps_pieces_apart_when_what_they_replaced_is_forgotten)
{
	add_mapping_at(1, 0x3000, 0x4000, 0x3000);
	add_mapping_at(2, 0x4000, 0x5000, 0x9000);
	add_mapping_at(10, 0x4000, 0x5000, 0x4000);
	replace_elsewhere(11);
	add_mapping_at(5000, 0x3000, 0x5000, 0x3000);
	expect_unsure_at(5, 0x4000);
}

/* More unmapped code than is remembered: that there was some is remembered. */
Test(mapping_history, knows_that_other_code_was_there_when_there_was_too_much)
{
	struct history_times times = {};

	for (uint64_t i = 1; i <= 2 * MAPPINGS_UNMAPPED_MAX; i++)
		add_mapping_at(i, 2 * i * PAGE, (2 * i + 1) * PAGE, 0x1000);
	fixture->time_ns = 3 * MAPPINGS_UNMAPPED_MAX;
	read_maps("1000-2000 r-xp 00001000 00:00 0 [vdso]\n");
	cr_expect_leq(fixture->mappings.mapping_nr, MAPPINGS_UNMAPPED_MAX + 2);
	cr_expect_eq(fixture->mappings.forgotten_nr, MAPPINGS_UNMAPPED_MAX);
	add_mapping_at(90000, 2 * PAGE, 3 * PAGE, 0x9000);
	cr_assert_eq(history_times(&fixture->mappings, 2 * PAGE, 80000, &times), 0);
	cr_assert_eq(times.time_nr, 1);
	cr_expect_eq(times.time[0], 90000);
	expect_unsure_at(1000, 2 * PAGE);
	expect_at(90000, 2 * PAGE, 0x9000);
	free(times.time);
}

/* A traceback with the old code may still come from the kernel side at the next drain. */
Test(mapping_history, stays_for_another_pass)
{
	add_mapping_at(10, 0x3000, 0x4000, 0x3000);
	add_mapping_at(20, 0x3000, 0x4000, 0x9000);
	mappings_end_pass(&fixture->mappings);
	expect_at(10, 0x3000, 0x3000);
	mappings_end_pass(&fixture->mappings);
	cr_expect_eq(fixture->mappings.past_nr, 0);
}

/* Nothing keeps the file, but a known traceback with its code must not be taken for one of the new code. */
Test(mapping_history, knows_that_other_code_was_there_when_it_is_forgotten)
{
	struct history_times times = {};

	read_maps("1000-2000 r-xp 00001000 00:00 0 [vdso]\n3000-4000 r-xp 00003000 00:00 0 [vdso]\n");
	for (int i = 0; i < 3; i++) {
		read_maps("1000-2000 r-xp 00001000 00:00 0 [vdso]\n");
		mappings_end_pass(&fixture->mappings);
	}
	cr_expect_null(mappings_find(&fixture->mappings, 0x3000));
	add_mapping_at(90, 0x3000, 0x4000, 0x9000);
	cr_assert_eq(history_times(&fixture->mappings, 0x3000, 80, &times), 0);
	cr_assert_eq(times.time_nr, 1);
	cr_expect_eq(times.time[0], 90);
	cr_assert_eq(history_times(&fixture->mappings, 0x1000, 0, &times), 0);
	cr_expect_eq(times.time_nr, 1, "nothing has changed there");
	free(times.time);
}

/* ---- a process that knows each page at each time ---- */

#define PAGES 24
#define TIMES 400
#define READING_TAKES 6

struct model {
	uint64_t bias[TIMES][PAGES]; /* 0: nothing */
	bool is_there[PAGES];
	struct {
		uint64_t time_ns, start, end, offset;
	} event[TIMES];
	size_t event_nr, told_nr;
};

static void map_some(struct model *model, uint64_t now)
{
	unsigned int first = rand() % PAGES, nr = 1 + rand() % 5;
	uint64_t bias = (1 + rand() % 3) * 0x1000000, start = BASE + first * PAGE;

	nr = first + nr > PAGES ? PAGES - first : nr;
	for (unsigned int i = first; i < first + nr; i++) {
		model->bias[now][i] = bias;
		model->is_there[i] = true;
	}
	model->event[model->event_nr].time_ns = now;
	model->event[model->event_nr].start = start;
	model->event[model->event_nr].end = start + nr * PAGE;
	model->event[model->event_nr++].offset = start + bias;
}

static void unmap_some(struct model *model)
{
	for (unsigned int first = rand() % PAGES, i = first; i < PAGES && i < first + 6; i++)
		model->is_there[i] = false;
}

static void tell_until(struct model *model, uint64_t time_ns)
{
	if (time_ns <= fixture->mappings.told_ns)
		return;
	fixture->mappings.told_ns = time_ns;
	for (; model->told_nr < model->event_nr && model->event[model->told_nr].time_ns <= time_ns; model->told_nr++)
		add_mapping_at(model->event[model->told_nr].time_ns, model->event[model->told_nr].start,
			       model->event[model->told_nr].end, model->event[model->told_nr].offset);
}

/* The loader has handed out the events up to some time before. */
static void read_model(struct model *model, uint64_t now)
{
	char text[PAGES * 64] = "[stack]\n", *end = text;

	tell_until(model, now - rand() % READING_TAKES);
	for (unsigned int i = 0; i < PAGES; i++)
		if (model->is_there[i])
			end += sprintf(end, "%lx-%lx r-xp %lx 00:00 0 [vdso]\n", BASE + i * PAGE, BASE + (i + 1) * PAGE,
				       BASE + i * PAGE + model->bias[now][i]);
	fixture->mappings.read_ns = now;
	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, false), 0);
}

static void expect_history(const struct model *model, uint64_t now)
{
	for (uint64_t then = 1; then <= now; then++)
		for (unsigned int i = 0; i < PAGES; i++)
			if (model->bias[then][i])
				expect_at(then, BASE + i * PAGE + 8,
					  BASE + i * PAGE + 8 + model->bias[then][i]);
}

Test(mapping_history, matches_a_model_that_knows_each_time)
{
	for (unsigned int seed = 1; seed <= 40; seed++) {
		static struct model model;

		srand(seed);
		model = (struct model){};
		for (uint64_t now = READING_TAKES; now < TIMES; now++) {
			memcpy(model.bias[now], model.bias[now - 1], sizeof(model.bias[now]));
			if (rand() % 3 == 0)
				map_some(&model, now);
			else if (rand() % 3 == 0)
				unmap_some(&model);
			if (rand() % 10 == 0)
				read_model(&model, now);
			if (rand() % 40 == 0) {
				tell_until(&model, now);
				expect_history(&model, now);
			}
		}
		free_fixture();
		new_fixture();
	}
}
