// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine_random.h"

#include <string.h>

#include "base/array.h"

const char *const random_metadata[] = { "domain.0", "libc", "domain.5", "pool", NULL };

uint32_t random_below(uint64_t *random, uint32_t end)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 33) % end;
}

static struct data_frame make_frame(uint64_t *random)
{
	static const char *const files[] = { "a.c", "b.c", "lib/c.pyc", "\xc3\xa9.c" };
	static const char *const functions[] = { "malloc", "operator new(unsigned long)", "xmalloc",
						 "leak", "main", NULL };
	static const char *const objects[] = { "/bin/a", "/lib/b.so", NULL };
	struct data_frame frame = {
		.filename = files[random_below(random, ARRAY_SIZE(files))],
		.lineno = random_below(random, 4),
		.function = functions[random_below(random, ARRAY_SIZE(functions))],
		.object = objects[random_below(random, ARRAY_SIZE(objects))],
		.offset = random_below(random, 3) * 16,
	};

	return frame;
}

void random_origins(uint64_t *random, struct data_trace origin[ORIGIN_NR])
{
	static const uint32_t domains[] = { 0, 5, 7 };

	for (int i = 0; i < ORIGIN_NR; i++) {
		uint32_t nframe = random_below(random, DATA_FRAMES + 1);

		origin[i] = (struct data_trace){};
		for (uint32_t k = 0; k < nframe; k++)
			origin[i].frame[k] = make_frame(random);
		if (i % 3)
			memcpy(origin[i].frame, origin[i - 1].frame, sizeof(origin[i].frame));
		origin[i].domain = domains[i % 3];
	}
}

/* ---- questions --------------------------------------------------------------------------------- */

static const struct filter filters[][2] = {
	{ { .inclusive = true, .filename_pattern = "*.c" } },
	{ { .inclusive = true, .function_pattern = "l*", .all_frames = true },
	  { .has_lineno = true, .lineno = 2 } },
	{ { .inclusive = true, .has_domain = true, .domain = 5 },
	  { .object_pattern = "/lib/*", .all_frames = true } },
	{ { .has_domain = true, .domain_name = "pool" } },
	{ { .inclusive = true, .has_domain = true, .domain = 7, .filename_pattern = "a.c" },
	  { .inclusive = true, .filename_pattern = "lib/*.py" } },
};

struct engine_options random_options(uint64_t *random, enum key_type key_type)
{
	static const char *const skip[] = { "x*" };
	uint32_t filter = random_below(random, ARRAY_SIZE(filters) + 1);
	struct engine_options options = {
		.key_type = key_type,
		.cumulative = key_type_has_cumulative(key_type) && random_below(random, 2),
		.keep_wrappers = !random_below(random, 3),
		.skip = skip,
		.skip_nr = random_below(random, 2),
		.sort = random_below(random, SORT_ORDER_NR),
	};

	if (filter < ARRAY_SIZE(filters)) {
		options.select.filter = filters[filter];
		options.select.filter_nr = 1 + (filter != 0 && filter != 3);
	}
	return options;
}

/* ---- answers ----------------------------------------------------------------------------------- */

static bool same_interval(const struct interval *a, const struct interval *b)
{
	return a->low == b->low && a->high == b->high;
}

bool same_estimate(const struct estimate *a, const struct estimate *b)
{
	if (!a || !b)
		return a == b;
	return a->samples == b->samples && a->old_samples == b->old_samples &&
	       same_interval(&a->size, &b->size) && same_interval(&a->count, &b->count) &&
	       same_interval(&a->size_diff, &b->size_diff) &&
	       same_interval(&a->count_diff, &b->count_diff);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_frame(const struct frame_view *a, const struct frame_view *b)
{
	return same_text(a->filename, b->filename) && same_text(a->function, b->function) &&
	       same_text(a->object, b->object) && a->lineno == b->lineno && a->offset == b->offset;
}

bool same_cost(const struct cost *a, const struct cost *b)
{
	return a->size == b->size && a->count == b->count;
}

bool same_row(const struct statistic *a, const struct statistic *b)
{
	bool same = a->nframe == b->nframe && same_text(a->key, b->key) &&
		    same_cost(&a->cost, &b->cost) && same_cost(&a->diff, &b->diff) &&
		    same_estimate(a->estimate, b->estimate);

	for (uint32_t i = 0; same && i < a->nframe; i++)
		same = same_frame(&a->frame[i], &b->frame[i]);
	return same;
}
