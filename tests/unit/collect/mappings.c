// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mappings_fixture.h"

static void expect_at(uint64_t address, uint64_t offset)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	cr_assert(mapping, "nothing at 0x%llx", (unsigned long long)address);
	cr_expect_eq(address - mapping->start + mapping->offset, offset,
		     "0x%llx is not at offset 0x%llx", (unsigned long long)address,
		     (unsigned long long)offset);
}

static void expect_nothing_at(uint64_t address)
{
	cr_expect_null(mappings_find(&fixture->mappings, address));
}

TestSuite(mappings, .init = new_fixture, .fini = free_fixture);

Test(mappings, replace_older_mappings_at_the_same_addresses)
{
	add_mapping(0x1000, 0x9000, 0x10000);
	add_mapping(0x3000, 0x5000, 0x50000);
	expect_at(0x1000, 0x10000);
	expect_at(0x2fff, 0x11fff);
	expect_at(0x3000, 0x50000);
	expect_at(0x4fff, 0x51fff);
	expect_at(0x5000, 0x14000);
	expect_at(0x8fff, 0x17fff);
	expect_nothing_at(0x9000);
	cr_expect_eq(fixture->mappings.replaced_nr, 1);
}

Test(mappings, replace_several_older_mappings_at_once)
{
	add_mapping(0x1000, 0x3000, 0x10000);
	add_mapping(0x3000, 0x4000, 0x20000);
	add_mapping(0x6000, 0x8000, 0x30000);
	add_mapping(0x2000, 0x7000, 0x80000);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(0x1fff, 0x10fff);
	expect_at(0x2000, 0x80000);
	expect_at(0x6fff, 0x84fff);
	expect_at(0x7000, 0x31000);
	cr_expect_eq(fixture->mappings.replaced_nr, 3);
}

Test(mappings, replace_nothing_when_they_are_added_again)
{
	add_mapping(0x1000, 0x3000, 0x10000);
	add_mapping(0x1000, 0x3000, 0x10000);
	add_mapping(0x2000, 0x3000, 0x11000); /* a part of it */
	expect_at(0x1000, 0x10000);
	expect_at(0x2000, 0x11000);
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
}

Test(mappings, may_be_copied_independently)
{
	struct mappings copy = {};

	add_mapping(0x1000, 0x3000, 0x10000);
	cr_assert_eq(mappings_copy(&copy, &fixture->mappings), 0);
	mappings_forget(&fixture->mappings);
	cr_expect_not_null(mappings_find(&copy, 0x1000));
	cr_expect_eq(copy.used_nr, 1);
	expect_nothing_at(0x1000);
	cr_expect_eq(fixture->mappings.used_nr, 0);
	mappings_release(&copy);
}

/* ---- mappings that are unmapped ---- */

#define LINE_1 "1000-2000 r-xp 00001000 00:00 0   [vdso]\n"
#define LINE_3 "3000-4000 r-xp 00003000 00:00 0   [vdso]\n"
#define OTHER_3 "3000-4000 r-xp 00009000 00:00 0   [vdso]\n"
#define DATA "5000-6000 rw-p 00001000 00:00 0   [vdso]\n"

static bool is_there(uint64_t address)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	return mapping && mapping_is_there(&fixture->mappings, mapping);
}

Test(mappings, that_were_unmapped_stay_known_as_unmapped)
{
	read_maps(LINE_1 LINE_3 DATA);
	cr_expect(is_there(0x1000) && is_there(0x3000));
	expect_nothing_at(0x5000);
	read_maps(LINE_1);
	cr_expect(is_there(0x1000));
	cr_expect_not(is_there(0x3000));
	expect_at(0x3800, 0x3800);
	add_mapping(0x3000, 0x4000, 0x3000); /* again */
	cr_expect(is_there(0x3000));
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
}

Test(mappings, that_were_unmapped_before_the_last_pass_are_forgotten)
{
	read_maps(LINE_1 LINE_3);
	mappings_end_pass(&fixture->mappings);
	read_maps(LINE_1); /* the next drain resolves earlier tracebacks */
	mappings_end_pass(&fixture->mappings);
	expect_at(0x3000, 0x3000);
	mappings_end_pass(&fixture->mappings);
	expect_nothing_at(0x3000);
	mappings_end_pass(&fixture->mappings);
	cr_expect(is_there(0x1000), "it is mapped still");
	cr_expect_eq(fixture->mappings.forgotten_nr, 0, "nothing that was needed");
}

static uint64_t unmapped_address(unsigned int i)
{
	return 0x100000 + i * 0x2000;
}

/* Maps one after the other; each reading of the maps finds the earlier ones gone. */
static void map_and_unmap(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		add_mapping(unmapped_address(i), unmapped_address(i) + 0x1000, 0);
		if (i % 100 == 99)
			read_maps(LINE_1);
	}
	read_maps(LINE_1);
}

#define FORGOTTEN 250

Test(mappings, forget_the_oldest_unmapped_mappings_first)
{
	map_and_unmap(MAPPINGS_UNMAPPED_MAX + FORGOTTEN);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_UNMAPPED_MAX + 2, "one range stands for the forgotten ones");
	cr_expect_eq(fixture->mappings.forgotten_nr, FORGOTTEN);
	cr_expect(is_there(0x1000));
	for (unsigned int i = 0; i < MAPPINGS_UNMAPPED_MAX + FORGOTTEN; i++)
		cr_expect_eq(!mappings_find(&fixture->mappings, unmapped_address(i)), i < FORGOTTEN, "%u", i);
}

Test(mappings, beyond_the_limit_of_a_pass_are_counted_as_skipped)
{
	for (unsigned int i = 0; i < MAPPINGS_ADDED_MAX + 5; i++)
		add_mapping(unmapped_address(i), unmapped_address(i) + 0x1000, 0);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_ADDED_MAX);
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
	read_maps(LINE_1);
	add_mapping(0x8000, 0x9000, 0);
	cr_expect(is_there(0x8000));
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
}

Test(mappings, after_the_end_of_a_truncated_maps_text_stay_mapped)
{
	char text[] = LINE_1;

	read_maps(LINE_1 LINE_3);
	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, true), 0);
	cr_expect(is_there(0x1000) && is_there(0x3000));
	cr_expect_eq(fixture->mappings.skipped_nr, 1);
}

/* The kernel goes on behind the last line's end; what has grown over that since comes with its begin. */
Test(mappings, on_overlapping_lines_are_cut)
{
	read_maps(LINE_1 "1000-3000 r-xp 00001000 00:00 0   [vdso]\n" LINE_1 LINE_3);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(0x1800, 0x1800);
	expect_at(0x2800, 0x2800);
	expect_at(0x3800, 0x3800);
}

/* ---- mappings model ---- */

/* Mappings are the same as in a model that knows each page. */

#define PAGES 64
#define PAGE 0x1000UL
#define BASE 0x10000UL

/* A page of code. Its bias, start - offset, distinguishes it from another mapping's page. */
struct model_page {
	bool is_known;
	uint64_t bias, seen;
};

struct model {
	struct model_page page[PAGES];
	uint64_t reading;
};

struct piece {
	unsigned int first, nr;
	uint64_t bias;
};

static struct piece any_piece(unsigned int first)
{
	struct piece piece = { .first = first, .bias = rand() % 3 * 0x100000 };

	piece.nr = 1 + rand() % 6;
	if (piece.first + piece.nr > PAGES)
		piece.nr = PAGES - piece.first;
	return piece;
}

static void model_map(struct model *model, const struct piece *piece)
{
	for (unsigned int i = piece->first; i < piece->first + piece->nr; i++)
		model->page[i] = (struct model_page){ true, piece->bias, model->reading };
}

static void add_piece(struct model *model)
{
	struct piece piece = any_piece(rand() % PAGES);
	uint64_t start = BASE + piece.first * PAGE;

	add_mapping(start, start + piece.nr * PAGE, start + piece.bias);
	model_map(model, &piece);
}

static void read_pieces(struct model *model)
{
	char text[PAGES * 64] = "", *end = text;

	model->reading++;
	for (unsigned int at = rand() % 8; at < PAGES; at += rand() % 8) {
		struct piece piece = any_piece(at);
		uint64_t start = BASE + piece.first * PAGE;

		end += sprintf(end, "%lx-%lx r-xp %lx 00:00 0 [vdso]\n", start, start + piece.nr * PAGE,
			       start + piece.bias);
		model_map(model, &piece);
		at += piece.nr;
	}
	if (*text)
		read_maps(text);
	else
		model->reading--;
}

static void forget_pieces(struct model *model)
{
	uint64_t reading = model->reading - (model->reading ? rand() % 2 : 0);

	mappings_forget_unmapped(&fixture->mappings, reading);
	for (unsigned int i = 0; i < PAGES; i++)
		model->page[i].is_known &= model->page[i].seen >= reading;
}

static void expect_sorted(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];

		cr_assert_lt(mapping->start, mapping->end);
		cr_assert(!i || mapping[-1].end <= mapping->start);
	}
}

static void expect_model(const struct model *model, unsigned int step)
{
	expect_sorted(&fixture->mappings);
	cr_assert_eq(fixture->mappings.reading, model->reading);
	for (unsigned int i = 0; i < PAGES; i++) {
		uint64_t address = BASE + i * PAGE + 0x800;
		const struct mapping *mapping = mappings_find(&fixture->mappings, address);
		const struct model_page *page = &model->page[i];

		cr_assert_eq(!mapping, !page->is_known, "step %u, page %u", step, i);
		if (!mapping)
			continue;
		cr_assert_eq(mapping->offset - mapping->start, page->bias, "step %u, page %u", step, i);
		cr_assert_eq(mapping->seen, page->seen, "step %u, page %u", step, i);
	}
}

Test(mappings, match_a_model_of_single_pages)
{
	struct model model = {};

	srand(1);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int what = rand() % 8;

		if (what == 0)
			read_pieces(&model);
		else if (what == 1)
			forget_pieces(&model);
		else
			add_piece(&model);
		expect_model(&model, step);
	}
}
