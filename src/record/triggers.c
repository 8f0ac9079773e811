// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/triggers.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "base/reason.h"
#include "collect.h"

#define PERCENT_MOST 100000

const char *trigger_name(enum trigger trigger)
{
	static const char *const name[] = {
#define X(NAME, name) #name,
		TRIGGERS(X)
#undef X
	};

	return name[trigger];
}

bool triggers__are_set(const struct trigger_options *options)
{
	return options->growth_bytes || options->growth_percent || options->peak_percent ||
	       options->on_oom;
}

/* A sum that does not fit becomes the largest number, which no process reaches. */
static uint64_t add_bytes_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Adds a percentage, rounded up, and at least TRIGGER_STEP_LEAST. */
static uint64_t more_by(uint64_t bytes, uint64_t percent)
{
	uint64_t step = bytes / 100 * percent + (bytes % 100 * percent + 99) / 100;

	return add_bytes_saturating(bytes, step > TRIGGER_STEP_LEAST ? step : TRIGGER_STEP_LEAST);
}

static uint64_t growth_at(const struct trigger_options *options, const struct process_view *view)
{
	if (options->growth_bytes)
		return add_bytes_saturating(view->last_bytes, options->growth_bytes);
	return options->growth_percent ? more_by(view->last_bytes, options->growth_percent) : UINT64_MAX;
}

static uint64_t peak_at(const struct trigger_options *options, const struct process_view *view)
{
	return options->peak_percent ? more_by(view->most_bytes, options->peak_percent) : UINT64_MAX;
}

/* A process that has ended gets a last snapshot anyway. */
enum trigger triggers__decide(const struct trigger_options *options, const struct process_view *view)
{
	uint64_t bytes = view->memory.current_bytes;

	if (view->has_ended || view->is_vforked)
		return TRIGGER_NONE;
	if (options->on_oom && view->is_near_oom)
		return TRIGGER_OOM;
	if (bytes >= peak_at(options, view))
		return TRIGGER_PEAK;
	return bytes >= growth_at(options, view) ? TRIGGER_GROWTH : TRIGGER_NONE;
}

uint64_t triggers__threshold(const struct trigger_options *options, const struct process_view *view)
{
	uint64_t growth = growth_at(options, view), peak = peak_at(options, view);
	uint64_t least = growth < peak ? growth : peak;

	return least == UINT64_MAX ? 0 : least;
}

/* ---- options ------------------------------------------------------------------------------ */

static int parse_percent(const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	char number[16];

	if (len < 2 || len > sizeof(number) || text[len - 1] != '%')
		return -EINVAL;
	memcpy(number, text, len - 1);
	number[len - 1] = '\0';
	return parse_count(number, 1, PERCENT_MOST, ret);
}

int parse_growth_trigger(const char *text, void *field, struct reason *why)
{
	struct trigger_options *options = field;
	uint64_t percent = 0, bytes = 0;

	if (parse_percent(text, &percent) && (parse_size(text, &bytes) || !bytes))
		return reason_set(why, -EINVAL,
				  "'%.100s' is neither a share such as 20%% nor a size such as 100M", text);
	options->growth_percent = percent;
	options->growth_bytes = bytes;
	return 0;
}

int parse_peak_trigger(const char *text, void *field, struct reason *why)
{
	uint64_t percent;

	if (parse_percent(text, &percent))
		return reason_set(why, -EINVAL, "'%.100s' is no share such as 5%%", text);
	*(uint64_t *)field = percent;
	return 0;
}
