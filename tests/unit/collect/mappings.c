// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mappings_fixture.h"

static void expect_at(struct fixture *fixture, uint64_t address, uint64_t offset)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	cr_assert(mapping, "nothing at 0x%llx", (unsigned long long)address);
	cr_expect_eq(address - mapping->start + mapping->offset, offset,
		     "0x%llx is not at offset 0x%llx", (unsigned long long)address,
		     (unsigned long long)offset);
}

static void expect_nothing_at(struct fixture *fixture, uint64_t address)
{
	cr_expect_null(mappings_find(&fixture->mappings, address));
}

Test(mappings, replace_older_mappings_at_the_same_addresses)
{
	struct fixture *fixture = new_fixture();

	add_mapping(fixture, 0x1000, 0x9000, 0x10000);
	add_mapping(fixture, 0x3000, 0x5000, 0x50000);
	expect_at(fixture, 0x1000, 0x10000);
	expect_at(fixture, 0x2fff, 0x11fff);
	expect_at(fixture, 0x3000, 0x50000);
	expect_at(fixture, 0x4fff, 0x51fff);
	expect_at(fixture, 0x5000, 0x14000);
	expect_at(fixture, 0x8fff, 0x17fff);
	expect_nothing_at(fixture, 0x9000);
	cr_expect_eq(fixture->mappings.replaced_nr, 1);
	free_fixture(fixture);
}

Test(mappings, replace_several_older_mappings_at_once)
{
	struct fixture *fixture = new_fixture();

	add_mapping(fixture, 0x1000, 0x3000, 0x10000);
	add_mapping(fixture, 0x3000, 0x4000, 0x20000);
	add_mapping(fixture, 0x6000, 0x8000, 0x30000);
	add_mapping(fixture, 0x2000, 0x7000, 0x80000);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(fixture, 0x1fff, 0x10fff);
	expect_at(fixture, 0x2000, 0x80000);
	expect_at(fixture, 0x6fff, 0x84fff);
	expect_at(fixture, 0x7000, 0x31000);
	cr_expect_eq(fixture->mappings.replaced_nr, 3);
	free_fixture(fixture);
}

Test(mappings, replace_nothing_when_they_are_added_again)
{
	struct fixture *fixture = new_fixture();

	add_mapping(fixture, 0x1000, 0x3000, 0x10000);
	add_mapping(fixture, 0x1000, 0x3000, 0x10000);
	add_mapping(fixture, 0x2000, 0x3000, 0x11000); /* a part of it */
	expect_at(fixture, 0x1000, 0x10000);
	expect_at(fixture, 0x2000, 0x11000);
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
	free_fixture(fixture);
}

Test(mappings, may_be_copied_independently)
{
	struct fixture *fixture = new_fixture();
	struct mappings copy = {};

	add_mapping(fixture, 0x1000, 0x3000, 0x10000);
	cr_assert_eq(mappings_copy(&copy, &fixture->mappings), 0);
	mappings_forget(&fixture->mappings);
	cr_expect_not_null(mappings_find(&copy, 0x1000));
	cr_expect_eq(copy.used_nr, 1);
	expect_nothing_at(fixture, 0x1000);
	mappings_release(&copy);
	free_fixture(fixture);
}

/* ---- mappings that are unmapped ---- */

#define LINE_1 "1000-2000 r-xp 00001000 00:00 0   [vdso]\n"
#define LINE_3 "3000-4000 r-xp 00003000 00:00 0   [vdso]\n"
#define OTHER_3 "3000-4000 r-xp 00009000 00:00 0   [vdso]\n"
#define DATA "5000-6000 rw-p 00001000 00:00 0   [vdso]\n"

static bool is_there(struct fixture *fixture, uint64_t address)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	return mapping && mapping_is_there(&fixture->mappings, mapping);
}

Test(mappings, that_were_unmapped_stay_known_as_unmapped)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3 DATA);
	cr_expect(is_there(fixture, 0x1000) && is_there(fixture, 0x3000));
	expect_nothing_at(fixture, 0x5000);
	read_maps(fixture, LINE_1);
	cr_expect(is_there(fixture, 0x1000));
	cr_expect_not(is_there(fixture, 0x3000));
	expect_at(fixture, 0x3800, 0x3800);
	add_mapping(fixture, 0x3000, 0x4000, 0x3000); /* again */
	cr_expect(is_there(fixture, 0x3000));
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
	free_fixture(fixture);
}

Test(mappings, that_were_unmapped_before_the_last_pass_are_forgotten)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3);
	mappings_end_pass(&fixture->mappings);
	read_maps(fixture, LINE_1); /* the next drain resolves earlier tracebacks */
	mappings_end_pass(&fixture->mappings);
	expect_at(fixture, 0x3000, 0x3000);
	mappings_end_pass(&fixture->mappings);
	expect_nothing_at(fixture, 0x3000);
	mappings_end_pass(&fixture->mappings);
	cr_expect(is_there(fixture, 0x1000), "it is mapped still");
	cr_expect_eq(fixture->mappings.forgotten_nr, 0, "nothing that was needed");
	free_fixture(fixture);
}

static uint64_t unmapped_address(unsigned int i)
{
	return 0x100000 + i * 0x2000;
}

/* Maps one after the other; each reading of the maps finds the earlier ones gone. */
static void map_and_unmap(struct fixture *fixture, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		add_mapping(fixture, unmapped_address(i), unmapped_address(i) + 0x1000, 0);
		if (i % 100 == 99)
			read_maps(fixture, LINE_1);
	}
	read_maps(fixture, LINE_1);
}

#define FORGOTTEN 250

Test(mappings, forget_the_oldest_unmapped_mappings_first)
{
	struct fixture *fixture = new_fixture();

	map_and_unmap(fixture, MAPPINGS_UNMAPPED_MAX + FORGOTTEN);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_UNMAPPED_MAX + 2, "one range stands for the forgotten ones");
	cr_expect_eq(fixture->mappings.forgotten_nr, FORGOTTEN);
	cr_expect(is_there(fixture, 0x1000));
	for (unsigned int i = 0; i < MAPPINGS_UNMAPPED_MAX + FORGOTTEN; i++)
		cr_expect_eq(!mappings_find(&fixture->mappings, unmapped_address(i)), i < FORGOTTEN, "%u", i);
	free_fixture(fixture);
}

Test(mappings, beyond_the_limit_of_a_pass_are_counted_as_skipped)
{
	struct fixture *fixture = new_fixture();

	for (unsigned int i = 0; i < MAPPINGS_ADDED_MAX + 5; i++)
		add_mapping(fixture, unmapped_address(i), unmapped_address(i) + 0x1000, 0);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_ADDED_MAX);
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
	read_maps(fixture, LINE_1);
	add_mapping(fixture, 0x8000, 0x9000, 0);
	cr_expect(is_there(fixture, 0x8000));
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
	free_fixture(fixture);
}

Test(mappings, after_the_end_of_a_truncated_maps_text_stay_mapped)
{
	struct fixture *fixture = new_fixture();
	char text[] = LINE_1;

	read_maps(fixture, LINE_1 LINE_3);
	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, true), 0);
	cr_expect(is_there(fixture, 0x1000) && is_there(fixture, 0x3000));
	cr_expect_eq(fixture->mappings.skipped_nr, 1);
	free_fixture(fixture);
}

/* The kernel goes on behind the last line's end; what has grown over that since comes with its begin. */
Test(mappings, on_overlapping_lines_are_cut)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 "1000-3000 r-xp 00001000 00:00 0   [vdso]\n" LINE_1 LINE_3);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(fixture, 0x1800, 0x1800);
	expect_at(fixture, 0x2800, 0x2800);
	expect_at(fixture, 0x3800, 0x3800);
	free_fixture(fixture);
}
