// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/moment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"

#define MS_NS 1000000ULL
#define NR_MOST ((1u << 20) - 1)
#define BOOT_DIGITS 8

/* ---- names ----------------------------------------------------------------------------------- */

const char *moment_name(char text[MOMENT_NAME_MAX], const struct moment *moment)
{
	time_t seconds = moment->wall_ns / SECOND_NS;
	struct tm utc;
	int len;

	gmtime_r(&seconds, &utc);
	len = snprintf(text, MOMENT_NAME_MAX, "%04d%02d%02dT%02d%02d%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
		       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(moment->wall_ns / MS_NS % 1000));
	if (moment->boot)
		len += snprintf(text + len, MOMENT_NAME_MAX - len, ".%08" PRIx32 ".%" PRIu64, moment->boot,
				(uint64_t)(moment->monotonic_ns / MS_NS));
	if (moment->nr > 1)
		len += snprintf(text + len, MOMENT_NAME_MAX - len, "-%" PRIu32, moment->nr);
	snprintf(text + len, MOMENT_NAME_MAX - len, ".snap");
	return text;
}

/* These take a part of a name from *text. Folders have 100,000 names: sscanf() would take most of the time. */

static bool take_name_text(const char **text, const char *want)
{
	size_t len = strlen(want);

	if (strncmp(*text, want, len))
		return false;
	*text += len;
	return true;
}

static bool take_name_digits(const char **text, int digits, int *ret)
{
	int number = 0;

	for (int i = 0; i < digits; i++, (*text)++) {
		if (**text < '0' || **text > '9')
			return false;
		number = number * 10 + (**text - '0');
	}
	*ret = number;
	return true;
}

/* As it is printed: without a leading zero. */
static bool take_name_number(const char **text, uint64_t most, uint64_t *ret)
{
	uint64_t number = 0;

	if (**text == '0' && (*text)[1] >= '0' && (*text)[1] <= '9')
		return false;
	if (**text < '0' || **text > '9')
		return false;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		number = number * 10 + (**text - '0');
		if (number > most)
			return false;
	}
	*ret = number;
	return true;
}

/* timegm() accepts a 31st of February, and makes a third of March of it. */
static bool take_wall_time(const char **text, uint64_t *ret_ns)
{
	struct tm given = {}, utc;
	time_t seconds;
	int ms;

	if (!take_name_digits(text, 4, &given.tm_year) || !take_name_digits(text, 2, &given.tm_mon) ||
	    !take_name_digits(text, 2, &given.tm_mday) || !take_name_text(text, "T") ||
	    !take_name_digits(text, 2, &given.tm_hour) || !take_name_digits(text, 2, &given.tm_min) ||
	    !take_name_digits(text, 2, &given.tm_sec) || !take_name_text(text, ".") ||
	    !take_name_digits(text, 3, &ms) || !take_name_text(text, "Z"))
		return false;
	given.tm_year -= 1900;
	given.tm_mon -= 1;
	utc = given;
	seconds = timegm(&utc);
	if (utc.tm_mon != given.tm_mon || utc.tm_mday != given.tm_mday || utc.tm_hour != given.tm_hour ||
	    utc.tm_min != given.tm_min || utc.tm_sec != given.tm_sec)
		return false;
	if (seconds < 0 || (uint64_t)seconds >= UINT64_MAX / SECOND_NS)
		return false;
	*ret_ns = seconds * SECOND_NS + ms * MS_NS;
	return true;
}

static bool take_boot_time(const char **text, struct moment *moment)
{
	uint64_t ms;

	moment->boot = boot_parse(*text);
	if (!moment->boot)
		return false;
	*text += BOOT_DIGITS;
	if (!take_name_text(text, ".") || !take_name_number(text, UINT64_MAX / MS_NS / 10, &ms))
		return false;
	moment->monotonic_ns = ms * MS_NS;
	return true;
}

bool moment_parse(const char *name, struct moment *ret)
{
	struct moment moment = { .nr = 1 };
	uint64_t nr;

	if (!take_wall_time(&name, &moment.wall_ns))
		return false;
	if (strcmp(name, ".snap") && take_name_text(&name, ".") && !take_boot_time(&name, &moment))
		return false;
	if (take_name_text(&name, "-")) {
		if (!take_name_number(&name, NR_MOST, &nr) || nr < 2)
			return false;
		moment.nr = nr;
	}
	if (strcmp(name, ".snap"))
		return false;
	*ret = moment;
	return true;
}

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
