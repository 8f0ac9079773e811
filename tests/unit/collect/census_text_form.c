// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A census as JSON and back, and what is none. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "census/census_json.h"

/* Every number is another one. */
static void make_census(struct census *ret)
{
	struct census_arena *arena = calloc(1, sizeof(*arena));
	uint64_t next = 1;

	cr_assert(arena);
	*arena = (struct census_arena){ .is_main = true, .heap_nr = 1, .address = next++, .system_bytes = next++,
					.overhead_bytes = next++, .unwalked_bytes = next++, .resident_bytes = next++,
					.absent_bytes = next++, .trimmable_bytes = next++ };
	for (enum census_state s = 0; s < CENSUS_STATE_NR; s++)
		arena->state[s] = (struct census_count){ next, next * 32 };
	for (size_t i = 0; i < CENSUS_CLASS_NR; i += 7)
		arena->class[i] = (struct census_class){ { next, 32 * next }, { next + 1, 5 }, { next + 2, 6 } };
	*ret = (struct census){ .pid = 4711, .name = "made \"so\"", .time_ns = 12, .read_ns = 13, .resident_bytes = 14,
				.has_mmapped = true, .arena = arena, .arena_nr = 1, .arena_alloc = 1 };
	ret->mmapped.told = (struct census_count){ 2, 8192 };
	ret->mmapped.found = (struct census_count){ 1, 4096 };
	ret->mmapped.class[70] = ret->mmapped.found;
	ret->loss[CENSUS_LOSS_MMAPPED_UNSEEN] = 1;
}

static char *text_of(const struct census *census)
{
	json_t *json = census_to_json(census);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	cr_assert(text);
	return text;
}

Test(census_text_form, comes_back)
{
	struct census census, back;
	struct reason why = {};
	char *one, *two;

	make_census(&census);
	one = text_of(&census);
	cr_assert_eq(census_from_text(one, strlen(one), &back, &why), 0, "%s", why.text);
	two = text_of(&back);
	cr_expect_str_eq(one, two);
	cr_expect_eq(memcmp(census.arena, back.arena, sizeof(*back.arena)), 0);
	cr_expect_eq(memcmp(&census.mmapped, &back.mmapped, sizeof(back.mmapped)), 0);
	cr_expect_eq(memcmp(census.loss, back.loss, sizeof(back.loss)), 0);
	free(one);
	free(two);
	census_release(&census);
	census_release(&back);
}

/* Another word in the text of a census, or a cut. */
Test(census_text_form, that_is_wrong_is_refused)
{
	static const char *const harms[][2] = {
		{ "census/1", "census/9" }, { "\"pid\":4711", "\"pid\":-1" }, { "\"pid\":4711", "\"pid\":\"x\"" },
		{ "\"arenas\":[", "\"arenas\":[7," }, { "\"tcache\":{", "\"tcaches\":{" }, { "\"heaps\":1", "\"heaps\":1.5" },
		{ "\"bytes\":8192", "\"bytes\":9000000000000000000" }, { "\"classes\":[", "\"classes\":[{}," },
		{ "\"states\":", "\"state\":" }, { "\"mmapped_unseen\":1", "\"mmapped_unseen\":{}" },
	};
	struct census census, back;
	char *text;

	make_census(&census);
	text = text_of(&census);
	for (size_t i = 0; i < ARRAY_SIZE(harms); i++) {
		const char *at = strstr(text, harms[i][0]);
		struct reason why = {};
		char harmed[65536];

		cr_assert(at, "%s", harms[i][0]);
		snprintf(harmed, sizeof(harmed), "%.*s%s%s", (int)(at - text), text, harms[i][1], at + strlen(harms[i][0]));
		cr_expect_eq(census_from_text(harmed, strlen(harmed), &back, &why), -EINVAL, "%s", harms[i][1]);
		cr_expect(*why.text && !back.arena, "%s", harms[i][1]);
	}
	for (size_t len = 0; len < strlen(text); len += 97)
		cr_expect_eq(census_from_text(text, len, &back, NULL), -EINVAL);
	free(text);
	census_release(&census);
}

Test(census_text_form, has_a_class_for_each_size)
{
	cr_expect_eq(census_class_of(0), 0);
	cr_expect_eq(census_class_of(32), 0);
	cr_expect_eq(census_class_of(33), 1);
	cr_expect_eq(census_class_of(1040), 63);
	cr_expect_eq(census_class_of(1041), 64);
	cr_expect_eq(census_class_of(2048), 64);
	cr_expect_eq(census_class_of(2049), 65);
	cr_expect_eq(census_class_of(UINT64_MAX), CENSUS_CLASS_NR - 1);
	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		cr_expect_eq(census_class_of(census_class_most(i)), i, "class %zu", i);
}
