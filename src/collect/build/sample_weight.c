// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/sample_weight.h"

#include <math.h>

#include "shared/bpf_types.h"

double weight_of_block(uint64_t size, uint32_t layer, uint64_t sample_bytes)
{
	if (!sample_bytes || layer == LAYER_MAPPING)
		return 1;
	return 1 / -expm1(-(double)(size ?: 1) / sample_bytes);
}

double weight_of_told_block(uint64_t size, uint64_t bytes)
{
	return bytes > size ? bytes / (double)(size ?: 1) : 1;
}

#define BUDGET_RATE_FIRST 4096
#define BUDGET_RATE_FACTOR 4

void sample_rates_fill(uint64_t rate[], uint64_t sample_bytes, bool has_budget)
{
	uint64_t bytes = BUDGET_RATE_FIRST;

	rate[0] = sample_bytes;
	for (int i = 1; i < SAMPLE_RATES; i++, bytes *= BUDGET_RATE_FACTOR)
		rate[i] = has_budget && bytes > sample_bytes ? bytes : sample_bytes;
}

static uint32_t to_fixed_point(double value, unsigned int shift)
{
	return lrint(ldexp(value, shift));
}

void sample_tables_fill(struct sample_tables *tables)
{
	tables->log_ratio[0] = to_fixed_point(1, LOG_RATIO_SHIFT);
	for (int i = 1; i <= LOG_RATIO_STEPS + 1; i++) {
		double x = i / (2.0 * LOG_RATIO_STEPS);

		tables->log_ratio[i] = to_fixed_point(-log1p(-x) / x, LOG_RATIO_SHIFT);
	}
	tables->excess[0] = to_fixed_point(1, EXCESS_SHIFT);
	for (int i = 1; i <= EXCESS_STEPS + 1; i++) {
		double x = ldexp(i, -EXCESS_STEPS_SHIFT);

		tables->excess[i] = to_fixed_point(x / expm1(x), EXCESS_SHIFT);
	}
}

uint32_t coarsest_rate_of(uint64_t rates_used)
{
	uint32_t rate = SAMPLE_RATES - 1;

	while (rate && !(rates_used >> rate & 1))
		rate--;
	return rate;
}
