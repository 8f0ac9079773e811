// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/pack_report.h"

#include <errno.h>

#include "base/array.h"
#include "report/report_layout.h"
#include "report/write_data.h"

/* The page has 16 bytes for each traceback and snapshot. */
#define PAGE_CELLS_MAX (4 << 20)

/*
 * Merging what is hardly there comes before losing a filter, and losing filters before losing sites. The last step is
 * taken even if it does not fit: names may be of any length.
 */
static const struct layout_limits steps[] = {
	{ 0, REPORT_KEY_ALL },
	{ 1e-6, REPORT_KEY_ALL },
	{ 1e-5, REPORT_KEY_ALL },
	{ 1e-5, REPORT_KEY_ALL & ~REPORT_KEY_BIRTH },
	{ 1e-5, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-4, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-3, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-3, REPORT_KEY_DOMAIN | REPORT_KEY_PROCESS },
	{ 1e-3, REPORT_KEY_DOMAIN },
	{ 1e-2, REPORT_KEY_DOMAIN },
	{ 1e-2, REPORT_KEY_DOMAIN, 50000 },
	{ 1e-2, REPORT_KEY_DOMAIN, 20000 },
	{ 1e-2, REPORT_KEY_DOMAIN, 10000 },
	{ 1e-2, 0, 10000 },
	{ 1e-2, 0, 3000 },
	{ 1e-2, 0, 1000 },
	{ 1e-2, 0, 100 },
};

/* Packed nodes and rows take at least this: without writing them, it is known that so many do not fit. */
static size_t least_bytes(const struct report_layout *layout)
{
	return (uint64_t)layout->node_nr * 4 / 10 + layout->row_nr;
}

static bool is_layout_too_much(const struct report_layout *layout, const struct report_data *data, size_t bytes_max)
{
	return (uint64_t)layout->traceback_nr * data->column_nr > PAGE_CELLS_MAX || least_bytes(layout) > bytes_max;
}

/* -EFBIG: it does not fit, and another step is left. */
static int pack_step(struct report_data *data, const struct peak_shares *shares, size_t step, struct packed_report *ret)
{
	bool is_last = step + 1 == ARRAY_SIZE(steps);
	struct report_layout layout = {};
	int err = layout_make(&layout, data, shares, &steps[step]);

	if (!err && !is_last && is_layout_too_much(&layout, data, ret->bytes_max))
		err = -EFBIG;
	if (!err) {
		ret->json = packed_json__new();
		err = ret->json ? report_write_data(ret->json, data, &layout) : -ENOMEM;
	}
	err = err ?: packed_json__finish(ret->json, &ret->bytes, &ret->bytes_nr);
	ret->merged_nr = layout.merged_nr;
	ret->merged_of = layout.merged_of;
	ret->small_site_nr = layout.small_site_nr;
	ret->site_of = layout.site_of;
	layout_release(&layout);
	return err || is_last || ret->bytes_nr <= ret->bytes_max ? err : -EFBIG;
}

int pack_report(struct report_data *data, size_t bytes_max, struct packed_report *ret)
{
	struct peak_shares shares;
	int err = peak_shares_find(data, &shares) ?: -EFBIG;

	*ret = (struct packed_report){};
	for (size_t i = 0; i < ARRAY_SIZE(steps) && err == -EFBIG; i++) {
		packed_report_release(ret);
		ret->bytes_max = bytes_max;
		err = pack_step(data, &shares, i, ret);
	}
	peak_shares_release(&shares);
	return err;
}

void packed_report_release(struct packed_report *packed)
{
	packed_json__free(packed->json);
	*packed = (struct packed_report){};
}
