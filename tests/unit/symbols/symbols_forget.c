// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Objects whose names are forgotten. The source notes which object it was asked about. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "symbols/symbols.h"

struct source {
	struct symbol_source source;
	unsigned int asked_nr, forgotten_nr;
	uint32_t forgotten;
};

static int look_up(void *self, const struct source_object *object, const uint64_t *return_offset, size_t nr,
		   take_frames_fn take, void *taker, struct reason *)
{
	struct source *source = self;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		char function[64];
		const struct symbol frame = { .function = function };

		source->asked_nr++;
		snprintf(function, sizeof(function), "%s+%d", object->path, (int)return_offset[i]);
		err = take(taker, i, &frame, 1);
	}
	return err;
}

static void forget(void *self, uint32_t id)
{
	struct source *source = self;

	source->forgotten = id;
	source->forgotten_nr++;
}

static struct symbols *begin(struct source *source)
{
	*source = (struct source){ .source = { look_up, forget, source } };
	return symbols__new(&source->source);
}

static uint32_t add(struct symbols *symbols, const char *path)
{
	uint32_t object;

	cr_assert_eq(symbols__object(symbols, path, "key", 0, &object), 0);
	return object;
}

static void expect_name(struct symbols *symbols, uint32_t object, uint64_t offset, const char *name)
{
	struct symbol frame[SYMBOL_INLINE_MAX];

	cr_assert_eq(symbols__lookup(symbols, object, offset, frame), 1);
	cr_expect_str_eq(frame[0].function, name);
}

Test(symbols_forget, keeps_the_names_of_other_objects)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	uint32_t a = add(symbols, "a"), b = add(symbols, "b"), c;

	expect_name(symbols, a, 1, "a+1");
	expect_name(symbols, b, 1, "b+1");
	symbols__forget(symbols, (const bool[]){ false, true });
	cr_expect_eq(source.forgotten_nr, 1);
	cr_expect_eq(source.forgotten, a);
	cr_expect_eq(symbols__find(symbols, "a", "key"), SYMBOLS_NONE);
	cr_expect_eq(symbols__find(symbols, "b", "key"), b);
	expect_name(symbols, b, 1, "b+1");
	cr_expect_eq(source.asked_nr, 2, "it was known");
	c = add(symbols, "c");
	cr_expect_eq(c, a, "the index is free");
	expect_name(symbols, c, 1, "c+1");
	cr_expect_eq(symbols__object_nr(symbols), 2);
	symbols__free(symbols);
}

Test(symbols_forget, changes_nothing_when_nothing_is_forgotten)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	uint32_t a = add(symbols, "a");

	expect_name(symbols, a, 1, "a+1");
	symbols__forget(symbols, (const bool[]){ true });
	cr_expect_eq(source.forgotten_nr, 0);
	expect_name(symbols, a, 1, "a+1");
	cr_expect_eq(source.asked_nr, 1);
	symbols__free(symbols);
}

Test(symbols_forget, stays_bounded_over_many_objects)
{
	struct source source;
	struct symbols *symbols = begin(&source);
	char path[32], name[64];

	for (int i = 0; i < 1000; i++) {
		uint32_t object;

		snprintf(path, sizeof(path), "file%d", i);
		object = add(symbols, path);
		cr_assert_lt(object, 2, "indices are used again");
		for (int offset = 1; offset < 20; offset++) {
			snprintf(name, sizeof(name), "%s+%d", path, offset);
			expect_name(symbols, object, offset, name);
		}
		symbols__forget(symbols, (const bool[]){ i % 2 == 0, i % 2 == 1 });
	}
	symbols__free(symbols);
}
