// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Answers tracemalloc's questions about one process. */
#include "collect/session/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/build/traceback_versions.h"
#include "collect/recording/collector.h"
#include "process/pagemap.h"
#include "snapshot.h"

/* CPython's words, Lib/tracemalloc.py, take_snapshot(). */
int log_not_tracing(pid_t pid, struct reason *why)
{
	return reason_set(why, -ESRCH,
			  "the tracemalloc module must be tracing memory allocations to take a snapshot: process %d is not traced",
			  pid);
}

bool collector__is_tracing(const struct collector *collector, pid_t pid)
{
	return find_target(&collector->targets, pid);
}

uint32_t collector__get_traceback_limit(const struct collector *collector)
{
	return collector->options.traceback_limit;
}

/* Reads the accounting as it is now, or as it was last read if the slot is empty. */
static void read_counters(const struct accounts *accounts, const struct target *target, struct process *ret)
{
	*ret = accounts->process[target->slot];
	if (!ret->image)
		*ret = target->now.account;
	if (target->drained.is_of_source) /* at each pass */
		memcpy(ret->counter, target->drained.account.counter, sizeof(ret->counter));
}

/* Pages leave unseen: what was resident at the last snapshot, and before the first one all that came. */
static struct traced_memory pages_in_memory(const struct target *target, const struct process *now)
{
	uint64_t bytes = target->snapshots.assembled_bytes ?: now->pages_bytes;
	uint64_t pages = bytes / PAGE_BYTES;

	return (struct traced_memory){ .current_bytes = bytes, .current_blocks = pages, .peak_bytes = bytes, .peak_blocks = pages };
}

void read_traced_memory(const struct accounts *accounts, const struct target *target, struct traced_memory *ret)
{
	struct process now;

	read_counters(accounts, target, &now);
	if (target->pages.state) {
		*ret = pages_in_memory(target, &now);
		return;
	}
	*ret = (struct traced_memory){
		.current_bytes = now.counter[COUNTER_current_bytes],
		.current_blocks = now.counter[COUNTER_current_blocks],
		.peak_bytes = now.counter[COUNTER_peak_bytes],
		.peak_blocks = now.counter[COUNTER_peak_blocks],
	};
}

void collector__get_traced_memory(const struct collector *collector, pid_t pid,
				  struct traced_memory *ret)
{
	const struct target *target = find_target(&collector->targets, pid);

	*ret = (struct traced_memory){};
	if (target)
		read_traced_memory(&collector->targets.accounts, target, ret);
}

int collector__clear_traces(struct collector *collector, pid_t pid)
{
	struct target *target = find_target(&collector->targets, pid);

	return target ? clear_target_traces(collector, target) : -ESRCH;
}

int collector__clear_all_traces(struct collector *collector)
{
	struct targets *targets = &collector->targets;
	int err = clear_targets(collector->bpf, &targets->accounts, &collector->pass.cut.grace, targets->target,
				targets->target_nr);

	return err == -ESRCH ? 0 : err;
}

int collector__reset_peak(struct collector *collector, pid_t pid)
{
	const struct target *target = find_target(&collector->targets, pid);

	return target ? run_request_program(collector->bpf->progs.reset_peak, target->slot) : -ESRCH;
}

bool collector__ring_at(struct collector *collector, size_t i, uint64_t bytes)
{
	struct target *target = collector->targets.target[i];

	if (target->life.has_ended || target->now.account.ring_at_bytes == bytes)
		return false;
	target->now.account.ring_at_bytes = bytes;
	return accounts_ring_at(&collector->targets.accounts, target->slot, bytes);
}

/* ---- one block ---- */

static int copy_one(struct map_copy *copy, const void *key, size_t key_bytes, const void *value,
		    size_t value_bytes)
{
	int err = array_reserve_bytes(&copy->key, &copy->key_alloc, 1, key_bytes) ?:
			  array_reserve_bytes(&copy->value, &copy->value_alloc, 1, value_bytes);
	if (err)
		return err;
	memcpy(copy->key, key, key_bytes);
	memcpy(copy->value, value, value_bytes);
	copy->key_bytes = key_bytes;
	copy->value_bytes = value_bytes;
	copy->nr = 1;
	return 0;
}

/* Drains only that block and its traceback. If several blocks begin at the address, takes the smallest. */
static int find_block(struct allocsnap_bpf *bpf, struct pass *pass, const struct target *target, uint64_t address,
		      struct drain *ret)
{
	struct traceback traceback;
	struct block_key key;
	struct block block;
	int err = -ENOENT;

	for (uint32_t layer = 0; layer < LAYER_NR && err == -ENOENT; layer++) {
		key = block_key_of(address, target->now.account.image, layer);
		err = nursery_find(&pass->nursery, &key, &block) ?
			      0 :
			      bpf_map_lookup_elem(bpf_map__fd(bpf->maps.blocks), &key, &block);
	}
	err = err ?: drained_blocks_add(&ret->blocks, &key, &block);
	if (err || bpf_map_lookup_elem(bpf_map__fd(bpf->maps.tracebacks), &block.traceback,
				       &traceback))
		return err;
	return copy_one(&ret->tracebacks, &block.traceback, sizeof(block.traceback), &traceback,
			bpf_map__value_size(bpf->maps.tracebacks));
}

static int assemble_one(struct collector *collector, struct target *target,
			const struct drain *drain, struct snapshot **ret)
{
	const struct snapshot_context snapshot_context = snapshot_context_now(collector);
	struct snapshot_builder *builder;
	int err = 0;

	if (drain->tracebacks.nr)
		err = versions_resolve(&target->tracebacks, &target->mappings, drain_traceback_id(drain, 0),
				       drain_traceback(drain, 0));

	err = err ?: build_snapshot(target, &target->now.account, drain, &snapshot_context, collector->symbols,
			      &builder);
	return err ?: snapshot_builder__finish(builder, ret);
}

int collector__get_object_traceback(struct collector *collector, pid_t pid, uint64_t address,
				    struct snapshot **ret, struct reason *why)
{
	struct target *target;
	struct drain drain = {};
	int err;

	collector_refresh_all(collector);
	target = find_target(&collector->targets, pid);
	if (!target)
		return reason_set(why, -ESRCH, "process %d is not traced", pid);
	err = find_block(collector->bpf, &collector->pass, target, address, &drain);
	err = err ?: assemble_one(collector, target, &drain, ret);
	drain_release(&drain);
	if (err == -ENOENT)
		return reason_set(why, err, "no traced block of process %d begins at 0x%" PRIx64,
				  pid, address);
	return err ? reason_set(why, err, "cannot look for the block at 0x%" PRIx64 ": %s", address,
				strerror(-err)) : 0;
}

/* ---- memory of the maps ---- */

/* Reads the "memlock:" line of the descriptor: the current memory of the map since kernel 6.4, an estimate before. */
static uint64_t map_bytes(const struct bpf_map *map)
{
	char path[64], line[128];
	uint64_t bytes = 0;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", bpf_map__fd(map));
	info = fopen(path, "re");
	if (!info)
		return 0;
	while (fgets(line, sizeof(line), info))
		if (sscanf(line, "memlock: %" SCNu64, &bytes) == 1)
			break;
	fclose(info);
	return bytes;
}

uint64_t collector__get_tracemalloc_memory(const struct collector *collector)
{
	const struct bpf_map *map;
	uint64_t bytes = 0;

	bpf_object__for_each_map(map, collector->bpf->obj)
		bytes += map_bytes(map);
	return bytes;
}
