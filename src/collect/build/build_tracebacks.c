// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/build_tracebacks.h"

#include "base/parallel.h"
#include "collect/build/sample_weight.h"
#include "snapshot.h"

#define AT_ONCE 256 /* traces: so many stay in the CPU's cache */
#define TWO_LEAST 10000 /* traces: fewer are done before a second thread has started */

/* One of two parts, which take every other chunk each. */
struct part {
	const struct traces *traces;
	unsigned int nr;
	struct traces_sum sum;
	int err;
};

static uint32_t traceback_of(struct part *part, uint64_t id, uint64_t birth_ns)
{
	const struct traces *traces = part->traces;
	const struct known_traceback *known = tracebacks_find_born(traces->tracebacks, id, birth_ns);
	size_t index;

	if (!known) {
		part->sum.tracebacks_missing += id != 0;
		return 0;
	}
	index = known - traces->tracebacks->traceback;
	if (traces->traceback_id[index])
		return traces->traceback_id[index];
	__atomic_store_n(&traces->is_wanted[index], true, __ATOMIC_RELAXED);
	part->sum.is_incomplete = true;
	return 0;
}

static double weight_in_chunk(const struct part *part, const struct block_chunk *chunk, size_t at)
{
	const struct drained_block *block = &chunk->block[at];

	return chunk->weight && chunk->weight[at] ?
		       weight_of_told_block(block->size, chunk->weight[at]) :
		       weight_of_block(block->size, block->layer, part->traces->sample_bytes[block->rate]);
}

static int set_some(struct part *part, uint64_t first, const struct block_chunk *chunk, size_t from, size_t nr)
{
	const struct drained_block *block = chunk->block + from;
	struct snap_trace trace[AT_ONCE];

	for (size_t i = 0; i < nr; i++) {
		trace[i] = (struct snap_trace){
			.size = block[i].size,
			.birth_ns = block[i].birth_ns,
			.address = block[i].address,
			.traceback = traceback_of(part, block[i].traceback, block[i].birth_ns),
			.domain = block[i].domain,
			.thread = block[i].thread,
			.weight = weight_in_chunk(part, chunk, from + i),
		};
		part->sum.bytes += block[i].size;
		part->sum.weight += trace[i].weight;
		part->sum.weighted_bytes += trace[i].weight * block[i].size;
	}
	return snapshot_builder__set_traces(part->traces->builder, first, trace, nr);
}

static int set_chunk(struct part *part, uint64_t first, const struct block_chunk *chunk)
{
	int err = 0;

	for (size_t i = 0; i < chunk->nr && !err; i += AT_ONCE)
		err = set_some(part, first + i, chunk, i, chunk->nr - i < AT_ONCE ? chunk->nr - i : AT_ONCE);
	return err;
}

static void set_part(void *part_)
{
	struct part *part = part_;
	const struct block_chunk *chunk = part->traces->blocks->chunk;
	uint64_t first = part->traces->first;

	for (unsigned int i = 0; chunk && !part->err; i++, chunk = chunk->next) {
		if (i % 2 == part->nr)
			part->err = set_chunk(part, first, chunk);
		first += chunk->nr;
	}
}

int build_set_traces(const struct traces *traces, struct traces_sum *ret)
{
	struct part part[2] = { { .traces = traces }, { .traces = traces, .nr = 1 } };

	if (traces->blocks->nr >= TWO_LEAST) {
		run_both(set_part, &part[0], &part[1]);
	} else {
		set_part(&part[0]);
		set_part(&part[1]);
	}
	*ret = (struct traces_sum){
		.weight = part[0].sum.weight + part[1].sum.weight,
		.weighted_bytes = part[0].sum.weighted_bytes + part[1].sum.weighted_bytes,
		.bytes = part[0].sum.bytes + part[1].sum.bytes,
		.tracebacks_missing = part[0].sum.tracebacks_missing + part[1].sum.tracebacks_missing,
		.is_incomplete = part[0].sum.is_incomplete || part[1].sum.is_incomplete,
	};
	return part[0].err ?: part[1].err;
}
