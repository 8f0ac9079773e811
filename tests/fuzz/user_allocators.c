// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Descriptions of allocators for --probe, one a line: a refused line has a reason and leaves nothing
 * behind; an accepted line is whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "elf/allocators.h"
#include "elf/user_allocators.h"

static const int allowed[] = { -EINVAL, 0 };

static void check_function(const struct user_allocators *user_allocators, size_t i)
{
	const struct user_function *function = &user_allocators->function[i];
	const struct user_arguments *call = &function->call;
	bool takes = shape_takes(function->shape);

	MUST(function->allocator < user_allocators->allocator_nr && function->wanted < user_allocators->wanted.nr);
	MUST(!strcmp(user_allocators->wanted.function[function->wanted].name, function->symbol));
	MUST(*function->symbol && call->size <= 6 && call->count <= 6 && call->pointer <= 6);
	MUST(!shape_gives(function->shape) || !call->size != !call->bytes);
	MUST(!takes || call->pointer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct user_allocators user_allocators = {};
	char *text = strndup((const char *)data, size), *rest = text;

	while (rest) {
		size_t allocators = user_allocators.allocator_nr, functions = user_allocators.function_nr;
		struct reason why = { "" };
		int err = user_allocators_add(&user_allocators, strsep(&rest, "\n"), &why);

		if (err)
			check_refused(err, &why, allowed);
		MUST(user_allocators.allocator_nr == allocators + !err);
		MUST(!err || user_allocators.function_nr == functions);
	}
	for (size_t i = 0; i < user_allocators.function_nr; i++)
		check_function(&user_allocators, i);
	user_allocators_release(&user_allocators);
	free(text);
	return 0;
}
