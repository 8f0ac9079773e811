// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mappings_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox_fixture.h"

struct objects fixture_objects(void)
{
	return (struct objects){ .sandbox = parser_with(NULL, 0) };
}

void release_objects(struct objects *objects)
{
	sandbox__close(objects->sandbox);
	objects_release(objects);
}

struct fixture *fixture;

void new_fixture(void)
{
	fixture = calloc(1, sizeof(*fixture));
	fixture->objects = fixture_objects();
	fixture->mappings.objects = &fixture->objects;
}

void free_fixture(void)
{
	mappings_release(&fixture->mappings);
	release_objects(&fixture->objects);
	free(fixture);
}

void add_mapping(uint64_t start, uint64_t end, uint64_t offset)
{
	add_mapping_at(++fixture->time_ns, start, end, offset);
}

void add_mapping_at(uint64_t time_ns, uint64_t start, uint64_t end, uint64_t offset)
{
	const struct mapped_file file = { .pid = NO_PROCESS, .start = start, .end = end,
					  .path = "[vdso]" };

	cr_assert_eq(mappings_add(&fixture->mappings, &file, offset, time_ns), 0);
}

void read_maps(const char *lines)
{
	char *text = strdup(lines);

	fixture->mappings.told_ns = fixture->time_ns;
	fixture->mappings.read_ns = fixture->time_ns += 10;
	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, false), 0);
	free(text);
}
