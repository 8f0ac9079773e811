// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/map_shares.h"

#include <bpf/libbpf.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "collect/recording/collector.h"

#define LEAST_SHARE 64

uint64_t health_stale_blocks(const struct allocsnap_bpf *bpf)
{
	return __atomic_load_n(&bpf->bss->stale_blocks, __ATOMIC_RELAXED);
}

void health_swept(struct allocsnap_bpf *bpf, uint64_t stale_blocks)
{
	__atomic_fetch_sub(&bpf->bss->stale_blocks, stale_blocks, __ATOMIC_RELAXED);
}

uint64_t fair_most(uint64_t capacity, uint64_t held)
{
	uint64_t free = held < capacity ? capacity - held : 0;
	uint64_t most = SHARE_OF_FREE * free, alone = capacity - capacity / (SHARE_OF_FREE + 1);
	uint64_t least = capacity / LEAST_SHARE + 1;

	if (most > alone)
		most = alone;
	return most > least ? most : least;
}

/* Held by all processes together. */
struct held {
	uint64_t blocks, notes, tracebacks, codes, leaves;
};

static void set_most(struct allocsnap_bpf *bpf, const struct held *held)
{
	__atomic_store_n(&bpf->data->blocks_most, fair_most(blocks_capacity(bpf), held->blocks),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&bpf->data->notes_most,
			 fair_most(bpf_map__max_entries(bpf->maps.dropped_blocks), held->notes),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&bpf->data->tracebacks_most,
			 fair_most(bpf_map__max_entries(bpf->maps.tracebacks), held->tracebacks),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&bpf->data->python_codes_most,
			 fair_most(bpf_map__max_entries(bpf->maps.python_codes), held->codes), __ATOMIC_RELAXED);
	__atomic_store_n(&bpf->data->leaves_most, fair_most(bpf_map__max_entries(bpf->maps.page_leaves), held->leaves),
			 __ATOMIC_RELAXED);
}

void fair_begin(struct allocsnap_bpf *bpf)
{
	set_most(bpf, &(struct held){});
}

/*
 * In system-wide mode the blocks of an ended process are counted among the blocks of images that are gone
 * (health_stale_blocks()).
 */
static void add_held(const struct allocsnap_bpf *bpf, const struct collector_options *options,
		     const struct process *account, struct held *held)
{
	const struct settings *settings = &bpf->rodata->settings;
	bool is_sampled = settings->sample_bytes[SAMPLE_RATES - 1] || settings->has_pools ||
			  account->sampler_image == account->image;

	if (options->system_wide && account->exit_ns)
		return;
	held->blocks += account->counter[is_sampled ? COUNTER_sampled_blocks : COUNTER_current_blocks];
	held->notes += account->counter[COUNTER_dropped_blocks];
}

void fair_update(struct allocsnap_bpf *bpf, const struct targets *targets, const struct collector_options *options)
{
	struct held held = {
		.blocks = health_stale_blocks(bpf),
		.tracebacks = __atomic_load_n(&bpf->bss->tracebacks_held, __ATOMIC_RELAXED),
		.codes = __atomic_load_n(&bpf->bss->python_codes_held, __ATOMIC_RELAXED),
		.leaves = __atomic_load_n(&bpf->bss->leaves_held, __ATOMIC_RELAXED),
	};

	if (!options->follow_forks)
		return;
	for (uint32_t slot = 0; slot < PROCESSES_MAX; slot++)
		if (accounts_image(&targets->accounts, slot))
			add_held(bpf, options, account_of(targets, slot), &held);
	set_most(bpf, &held);
}

void fair_note_removed(struct allocsnap_bpf *bpf, struct accounts *accounts, uint32_t slot, uint64_t image, uint64_t nr)
{
	__atomic_fetch_sub(&bpf->bss->tracebacks_held, nr, __ATOMIC_RELAXED);
	if (slot != ACCOUNT_NONE && accounts_image(accounts, slot) == image)
		__atomic_fetch_sub(&accounts->process[slot].tracebacks, nr, __ATOMIC_RELAXED);
}

void fair_note_leaf_removed(struct allocsnap_bpf *bpf, const struct targets *targets, uint64_t image)
{
	struct target *const *owner = array_find(targets, target, i, targets->target[i]->now.account.image == image);
	uint32_t slot = owner ? (*owner)->slot : ACCOUNT_NONE;

	__atomic_fetch_sub(&bpf->bss->leaves_held, 1, __ATOMIC_RELAXED);
	if (slot != ACCOUNT_NONE && accounts_image(&targets->accounts, slot) == image)
		__atomic_fetch_sub(&targets->accounts.process[slot].leaves, 1, __ATOMIC_RELAXED);
}
