// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/moment.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

#define BOOT_DIGITS 8

uint32_t boot_parse(const char *text)
{
	char digits[BOOT_DIGITS + 1] = "";

	if (!text || strspn(text, "0123456789abcdef") != BOOT_DIGITS)
		return 0;
	memcpy(digits, text, BOOT_DIGITS);
	return strtoul(digits, NULL, 16);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static struct boot_clock *find_boot_clock(const struct boot_clocks *clocks, uint32_t boot)
{
	uint32_t id = 0;

	if (!clocks->clock_nr)
		return NULL;
	if (clocks->clock[0].boot != boot)
		id = idmap_find_key(&clocks->ids, &boot, sizeof(boot), clocks->clock, sizeof(*clocks->clock));
	return id == IDMAP_NONE ? NULL : &clocks->clock[id];
}

/* From the monotonic clock to the wall clock. Files have any numbers, and an order must not wrap around. */
static __int128 distance_to_wall(const struct moment *moment)
{
	return (__int128)moment->wall_ns - moment->monotonic_ns;
}

int boot_clocks_add(struct boot_clocks *clocks, const struct moment *moment)
{
	struct boot_clock *clock = moment->boot ? find_boot_clock(clocks, moment->boot) : NULL;
	__int128 step;

	if (!moment->boot || !moment->wall_ns)
		return 0;
	if (!clock)
		return idmap_push(&clocks->ids, clocks, clock, moment->boot, ((struct boot_clock){ moment->boot, *moment }));
	if (moment_compare(moment, &clock->newest, NULL) <= 0)
		return 0;
	step = distance_to_wall(moment) - distance_to_wall(&clock->newest);
	clock->newest = *moment;
	return step >= (__int128)SECOND_NS || step <= -(__int128)SECOND_NS;
}

void boot_clocks_release(struct boot_clocks *clocks)
{
	free(clocks->clock);
	idmap_release(&clocks->ids);
	*clocks = (struct boot_clocks){};
}

static __int128 exact_time(const struct moment *moment, const struct boot_clocks *clocks)
{
	const struct boot_clock *clock = moment->boot && clocks ? find_boot_clock(clocks, moment->boot) : NULL;

	return clock ? moment->monotonic_ns + distance_to_wall(&clock->newest) : moment->wall_ns;
}

uint64_t moment_time_ns(const struct moment *moment, const struct boot_clocks *clocks)
{
	__int128 time_ns = exact_time(moment, clocks);

	return time_ns < 0 ? 0 : time_ns > UINT64_MAX ? UINT64_MAX : time_ns;
}

/* ---- the order ------------------------------------------------------------------------------- */

static int order_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int moment_compare(const struct moment *a, const struct moment *b, const struct boot_clocks *clocks)
{
	if (a->boot != b->boot || !a->boot) {
		__int128 a_ns = exact_time(a, clocks), b_ns = exact_time(b, clocks);

		if (a_ns != b_ns)
			return a_ns < b_ns ? -1 : 1;
	}
	return order_numbers(a->boot, b->boot) ?: order_numbers(a->monotonic_ns, b->monotonic_ns) ?:
	       order_numbers(a->wall_ns, b->wall_ns) ?: order_numbers(a->nr, b->nr);
}

struct sorting {
	const struct moment_order *order;
	struct boot_clocks clocks;
};

static int compare_rows_by_moment(const void *a, const void *b, void *sorting_)
{
	const struct sorting *sorting = sorting_;
	int order = moment_compare(a, b, &sorting->clocks);

	if (!order && sorting->order->compare_rest)
		return sorting->order->compare_rest(a, b);
	return sorting->order->newest_first ? -order : order;
}

int moments_sort(void *row, size_t nr, const struct moment_order *order)
{
	struct sorting sorting = { .order = order };
	int err = 0;

	for (size_t i = 0; i < nr && err >= 0; i++)
		err = boot_clocks_add(&sorting.clocks, (struct moment *)((char *)row + i * order->item_size));
	if (nr && err >= 0)
		qsort_r(row, nr, order->item_size, compare_rows_by_moment, &sorting);
	boot_clocks_release(&sorting.clocks);
	return err < 0 ? err : 0;
}
