// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Mappings are the same as in a model that knows each page. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "mappings_fixture.h"

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

static void add_piece(struct fixture *fixture, struct model *model)
{
	struct piece piece = any_piece(rand() % PAGES);
	uint64_t start = BASE + piece.first * PAGE;

	add_mapping(fixture, start, start + piece.nr * PAGE, start + piece.bias);
	model_map(model, &piece);
}

static void read_pieces(struct fixture *fixture, struct model *model)
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
		read_maps(fixture, text);
	else
		model->reading--;
}

static void forget_pieces(struct fixture *fixture, struct model *model)
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

static void expect_model(struct fixture *fixture, const struct model *model, unsigned int step)
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
	struct fixture *fixture = new_fixture();
	struct model model = {};

	srand(1);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int what = rand() % 8;

		if (what == 0)
			read_pieces(fixture, &model);
		else if (what == 1)
			forget_pieces(fixture, &model);
		else
			add_piece(fixture, &model);
		expect_model(fixture, &model, step);
	}
	free_fixture(fixture);
}
