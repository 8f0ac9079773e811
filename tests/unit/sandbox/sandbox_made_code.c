// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of code that was made at run time, as a reader that was taken over would say them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "sandbox_fixture.h"
#include "symbols/perf_map.h"

static struct perf_map_names made_lie;
static uint32_t made_name_lie;

static void tell_of_made_code(int fd)
{
	parser_say(fd, &(struct parser_said){
		.kind = MADE, .piece = { { &made_lie, sizeof(made_lie) }, { &made_name_lie, 4 * made_lie.nr }, { "ab", made_lie.text_bytes } },
		.piece_nr = 3,
	});
}

static int ask_made_code(uint32_t nr, uint32_t name, uint32_t text_bytes)
{
	const uint64_t address = 1;
	struct perf_map_names names;
	struct sandbox *sandbox;
	int err;

	made_lie = (struct perf_map_names){ .nr = nr, .text_bytes = text_bytes };
	made_name_lie = name;
	sandbox = parser_with(tell_of_made_code, 0);
	err = sandbox__made_code(sandbox, 0, &(struct perf_map_part){}, &address, 1, &names, NULL);
	if (!err) {
		free(names.name);
		free(names.text);
	}
	sandbox__close(sandbox);
	return err;
}

Test(sandbox_made_code, name_without_an_end_is_refused)
{
	cr_expect_eq(ask_made_code(1, 1, 3), 0);
	cr_expect_eq(ask_made_code(1, 1, 2), -EIO, "no NUL");
	cr_expect_eq(ask_made_code(1, 4, 3), -EIO, "behind the text");
	cr_expect_eq(ask_made_code(0, 0, 0), -EIO, "of another number of addresses");
}
