// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Go's runtime as a source of blocks: nothing is probed, the profile that it keeps itself is read (go/go_profile.h). It has
 * samples since the program's start, without addresses and births:
 *
 *	a live sample ──► a block of the bucket's size, whose weight says how many it stands for
 *	its birth     ──► not before: the last reading in which the bucket had fewer live samples
 *	its address   ──► of its bucket, beyond all addresses that a process has: no block is mistaken for another one
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect/build/build_metadata.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/go_join.h"
#include "collect/sources/go_source.h"
#include "collect/sources/go_switch.h"
#include "elf/runtime_detect.h"
#include "go/go_births.h"
#include "go/go_profile.h"
#include "process/pagemap.h"
#include "process/probe_info_store.h"
#include "shared/unwind_types.h"
#include "snapshot.h"
#include "symbols/go_program.h"

#define LOOK_NS SECOND_NS /* how often the profile is read */
#define LOOK_SHARE 100	  /* and all of them may take 1 / LOOK_SHARE of a core */
#define RATE_MOST (UINT64_C(1) << 40)

static void free_go_heap(struct target *target)
{
	struct go_heap *heap = target->go.heap;

	target->go = (struct target_go){};
	if (!heap)
		return;
	for (size_t i = 0; i < heap->bucket_nr; i++)
		go_births_release(&heap->bucket[i].births);
	free(heap->bucket);
	idmap_release(&heap->ids);
	idmap_release(&heap->stacks);
	go_profile_release(&heap->profile);
	if (heap->pagemap_fd >= 0)
		close(heap->pagemap_fd);
	go_switch_off(heap->switch_fd, heap->program.rate + heap->bias);
	free(heap);
}

/* ---- its memory ---- */

static int read_go_pages(void *target_, uint64_t address, uint64_t *entry, size_t nr)
{
	return read_page_words(((const struct target *)target_)->go.heap->pagemap_fd, address, entry, nr);
}

static struct go_memory go_memory_of(struct target *target)
{
	return (struct go_memory){ target__read_memory, read_go_pages, target };
}

/* ---- the program ---- */

static int find_go_program(const struct collector *collector, const struct target *target, uint32_t *ret_object, const struct go_program **ret)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct object *object = mappings_used(mappings, i);

		if (!object->probe_info || !(object->probe_info->heaps & TRAIT_BIT(GO)) || object->fd < 0 || object->has_changed ||
		    !mappings_have(mappings, mappings->used[i]) || !is_path_of_mapping(object->path, target->identity.exe ?: ""))
			continue;
		*ret_object = mappings->used[i];
		return stored_info_go(object->stored_info, collector->helpers.sandbox, object->fd, ret);
	}
	return -ENOENT;
}

static bool find_go_bias(const struct mappings *mappings, uint32_t object, const struct go_program *program, uint64_t *ret)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];
		uint64_t into = program->code_offset - mapping->offset;

		if (mapping->object != object || !mapping_is_there(mappings, mapping) || into >= mapping->end - mapping->start)
			continue;
		*ret = mapping->start + into - program->code.start;
		return true;
	}
	return false;
}

static void place_go(struct go_heap *heap)
{
	const struct go_program *program = &heap->program;

	heap->places.code = program->code.start + heap->bias;
	heap->places.code_end = program->code.end + heap->bias;
	for (size_t i = 0; i < ARRAY_SIZE(program->zeroed); i++) {
		heap->places.zeroed[i].start = program->zeroed[i].start + heap->bias;
		heap->places.zeroed[i].end = program->zeroed[i].end + heap->bias;
	}
}

static const char *go_version_text(const struct go_program *program)
{
	return *program->version ? program->version : "Go";
}

static void note_go(struct collector *collector, const struct target *target)
{
	const struct go_heap *heap = target->go.heap;

	if (collector->options.system_wide || target->probes.used->is_trial)
		return;
	if (!*heap->why_not && heap->switch_fd < 0)
		notes_add(&collector->notes, "process %d (%s) runs %s: its heap is read from the profile that Go keeps itself, as samples, "
			  "also from before; nothing is probed for it", target->identity.pid, target->identity.comm,
			  go_version_text(&heap->program));
}

/* Whether the loader has run: then its memory has what the file says. */
static bool is_loaded(struct target *target)
{
	const struct go_heap *heap = target->go.heap;
	uint64_t word;

	return !target__read_memory(target, heap->program.module + heap->bias, &word, sizeof(word)) &&
	       word == heap->program.table + heap->bias;
}

/* A program that begins while it is recorded sets the variable itself later. */
static bool is_rate_its_own(const struct target *target)
{
	return !target->life.started_ns;
}

/* Explicit, as it changes the process. What stands in the way is said before anything has changed. */
static int switch_on_go(struct collector *collector, struct target *target, struct reason *why)
{
	struct go_heap *heap = target->go.heap;
	const struct process_identity *identity = &target->identity;
	const struct go_switch_place place = {
		.rate = heap->program.rate ? heap->program.rate + heap->bias : 0,
		.module = heap->program.module + heap->bias,
		.table = heap->program.table + heap->bias,
	};
	struct reason refused = {};
	int err;

	if (heap->program.has_profile || target->probes.used->is_trial || !is_rate_its_own(target))
		return 0;
	if (heap->is_out_of_reach)
		err = reason_set(&refused, -ENOTSUP, "%s", heap->why_not);
	else
		err = go_switch_on(identity->pid, &place, &heap->switch_fd, &refused);
	if (err)
		return reason_set(why, err, "process %d (%s): its heap profile is not switched on: %s", identity->pid, identity->comm,
				  refused.text);
	*heap->why_not = '\0';
	notes_add(&collector->notes, "process %d (%s): Go's heap profile is switched on until the recording ends: what it allocates from now on",
		  identity->pid, identity->comm);
	return 0;
}

static int open_go_heap(struct target *target, uint32_t object, const struct go_program *program)
{
	struct go_heap *heap = calloc(1, sizeof(*heap));
	char path[32];

	if (!heap)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", target->identity.pid);
	heap->program = *program;
	heap->switch_fd = -1;
	heap->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
	target->go.heap = heap;
	heap->is_out_of_reach = heap->pagemap_fd < 0 || !find_go_bias(&target->mappings, object, program, &heap->bias);
	if (heap->pagemap_fd < 0)
		snprintf(heap->why_not, sizeof(heap->why_not), "the memory of Go's runtime cannot be read: %s", strerror(errno));
	else if (heap->is_out_of_reach)
		snprintf(heap->why_not, sizeof(heap->why_not), "the code of Go's runtime is not mapped");
	else if (!program->has_profile)
		snprintf(heap->why_not, sizeof(heap->why_not), "%s, linked without its heap profile, as nothing in the program reads it: its "
			 "heap cannot be shown%s", go_version_text(program), program->rate ? "; --go-profile on begins the profile" : "");
	place_go(heap);
	return 0;
}

/* A recording that was killed has left it on. */
static void find_switched_on(struct collector *collector, struct target *target)
{
	struct go_heap *heap = target->go.heap;
	uint64_t rate;

	heap->was_on = !heap->program.has_profile && heap->program.rate && !heap->is_out_of_reach && is_rate_its_own(target) && is_loaded(target) &&
		       !target__read_memory(target, heap->program.rate + heap->bias, &rate, sizeof(rate)) && rate == GO_SWITCHED_RATE;
	if (!heap->was_on)
		return;
	*heap->why_not = '\0';
	if (!collector->options.go_profile && !target->probes.used->is_trial)
		notes_add(&collector->notes, "process %d (%s): Go's heap profile is on, although its program was linked without it: a recording that was "
			  "killed has left it so; --go-profile on switches it off at its end", target->identity.pid, target->identity.comm);
}

static int attach_go(struct collector *collector, struct target *target, struct reason *why)
{
	const struct go_program *program;
	uint32_t object;
	int err;

	/* Until its exec a forked process has the memory of its parent, or a copy. */
	if (!(collector->options.domains & COLLECTOR_GO) || target->go.heap || target->now.account.is_forked || target->now.account.memory_of)
		return 0;
	err = find_go_program(collector, target, &object, &program);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = open_go_heap(target, object, program);
	if (!err)
		find_switched_on(collector, target);
	if (!err && collector->options.go_profile)
		err = switch_on_go(collector, target, why);
	if (err)
		return err;
	target->go.is_used = !*target->go.heap->why_not;
	note_go(collector, target);
	return 0;
}

bool has_go_profile(const struct collector *collector, const struct target *target)
{
	const struct go_program *program;
	uint32_t object;

	return !find_go_program(collector, target, &object, &program) && program->has_profile;
}

/* ---- births ---- */

static bool is_of_bucket(uint32_t number, const void *address, const void *heap)
{
	return ((const struct go_heap *)heap)->bucket[number].address == *(const uint64_t *)address;
}

/* The number that a bucket keeps. IDMAP_NONE: it has none yet. */
uint32_t number_of_bucket(const struct go_heap *heap, uint64_t address)
{
	return idmap_find(&heap->ids, hash_bytes(&address, sizeof(address), 0), is_of_bucket, &address, heap);
}

static bool is_of_stack(uint32_t number, const void *stack, const void *heap)
{
	return ((const struct go_heap *)heap)->bucket[number].stack == *(const uint64_t *)stack;
}

/* A list with ever new buckets is no profile: it may grow as far as one that is read at once. */
static int number_bucket(struct go_heap *heap, const struct go_bucket *found, uint32_t *ret)
{
	struct numbered_bucket bucket = {
		.address = found->address,
		.stack = hash_bytes(heap->profile.pc + found->first, found->nframe * sizeof(*heap->profile.pc), 0),
	};
	int err;

	*ret = number_of_bucket(heap, found->address);
	if (*ret != IDMAP_NONE)
		return 0;
	if (heap->bucket_nr == GO_BUCKETS_MAX)
		return -E2BIG;
	bucket.first = idmap_find(&heap->stacks, bucket.stack, is_of_stack, &bucket.stack, heap);
	*ret = heap->bucket_nr;
	if (bucket.first == IDMAP_NONE) {
		bucket.first = *ret;
		err = array_push(heap, bucket, bucket) ?: idmap_add(&heap->stacks, bucket.stack, *ret);
	} else {
		err = array_push(heap, bucket, bucket);
	}
	return err ?: idmap_add(&heap->ids, hash_bytes(&found->address, sizeof(found->address), 0), *ret);
}

/* CLOCK_MONOTONIC when the process began. It may have had other programs before this one. */
static uint64_t process_began_ns(const struct target *target)
{
	uint64_t boot_ns = clock_now_ns(CLOCK_BOOTTIME), now_ns = monotonic_now_ns();
	uint64_t age_ns = boot_ns - target->identity.start_ticks * target__tick_ns();

	return age_ns < now_ns ? now_ns - age_ns : 1;
}

static uint64_t sum_published(const struct go_profile *profile)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < profile->bucket_nr; i++)
		sum += profile->bucket[i].active.allocations + profile->bucket[i].active.frees;
	return sum;
}

static void begin_publication(struct go_heap *heap, bool is_new)
{
	for (size_t i = 0; i < heap->bucket_nr; i++) {
		struct numbered_bucket *bucket = &heap->bucket[i];

		if (is_new) {
			bucket->kept_before = bucket->kept;
			bucket->allocations_before = bucket->published.allocations;
		}
		bucket->published = (struct go_counts){};
	}
}

/* Samples of the first reading are older than the recording, garbage or not. */
static void note_published(struct go_heap *heap, uint32_t number, const struct go_counts *active)
{
	struct numbered_bucket *bucket = &heap->bucket[number];
	struct go_counts *sum = &heap->bucket[bucket->first].published;

	bucket->kept = live_of(active);
	if (!heap->read_nr)
		bucket->kept_before = bucket->kept;
	sum->allocations += active->allocations;
	sum->frees += active->frees;
}

static int note_births(struct target *target, uint64_t since_ns)
{
	struct go_heap *heap = target->go.heap;
	uint64_t published = sum_published(&heap->profile);
	bool is_new = heap->read_nr && published != heap->published;
	int err = 0;

	begin_publication(heap, is_new);
	for (size_t i = 0; i < heap->profile.bucket_nr && !err; i++) {
		const struct go_bucket *bucket = &heap->profile.bucket[i];
		uint32_t number;

		err = number_bucket(heap, bucket, &number);
		err = err ?: go_births_note(&heap->bucket[number].births, live_of(&bucket->now), since_ns);
		if (!err)
			note_published(heap, number, &bucket->active);
	}
	heap->collection_nr += is_new;
	heap->published = published;
	return err;
}

/* ---- reading ---- */

/* So long its runtime may not have begun: MemProfileRate is still 0, and other words may look like the first sample. */
#define BEGUN_NS (10 * SECOND_NS)

static bool has_just_begun(const struct target *target)
{
	return monotonic_now_ns() - (target->life.execed_ns ?: process_began_ns(target)) < BEGUN_NS;
}

/* Samples from before a program has set it to 0 are of Go's own rate, or of the last one that was read. */
static void read_rate(struct collector *collector, struct target *target)
{
	struct go_heap *heap = target->go.heap;
	bool was_off = heap->is_off;
	uint64_t rate;

	if (!heap->program.rate || target__read_memory(target, heap->program.rate + heap->bias, &rate, sizeof(rate)) || rate > RATE_MOST)
		return;
	if (!rate && !heap->profile.bucket_nr && has_just_begun(target))
		return;
	heap->is_off = !rate;
	heap->rate = rate ?: heap->rate;
	if (heap->is_off && !was_off)
		notes_add(&collector->notes, "process %d (%s): Go's heap profile is off: %s has set runtime.MemProfileRate to 0, and what it allocates from "
			  "then on is not seen", target->identity.pid, target->identity.comm,
			  heap->switch_fd < 0 ? "the program" : "the program, or another recording");
}

static void note_unread(struct collector *collector, const struct target *target, const struct reason *why)
{
	struct go_heap *heap = target->go.heap;

	snprintf(heap->why_not, sizeof(heap->why_not), "%.200s", why->text);
	if (!heap->is_noted)
		notes_add(&collector->notes, "process %d (%s): %s", target->identity.pid, target->identity.comm, why->text);
	heap->is_noted = true;
}

/* 0; -ENOENT: there is no sample yet; -ENOMEM; or another error, and what was read before stays. */
static int read_go_profile(struct collector *collector, struct target *target)
{
	struct go_heap *heap = target->go.heap;
	const struct go_memory memory = go_memory_of(target);
	uint64_t now_ns = monotonic_now_ns();
	struct reason why = {};
	int err = 0;

	if (!heap->mbuckets)
		err = is_loaded(target) ? go_profile_find(&memory, &heap->places, &heap->mbuckets) : -ENOENT;
	if (err == -E2BIG)
		err = reason_set(&why, -EPROTO, "its variables lead to too much memory, so its heap profile is not found");
	if (!err || (err == -ENOENT && is_loaded(target)))
		read_rate(collector, target);
	err = err ?: go_profile_read(&memory, &heap->places, heap->mbuckets, &heap->profile, &why);
	if (!err) {
		err = note_births(target, heap->read_ns ?: process_began_ns(target));
		heap->read_nr++;
		heap->read_ns = now_ns;
		*heap->why_not = '\0';
	} else if (err == -EPROTO && !target__is_ending(target)) {
		if (!heap->read_nr)
			heap->mbuckets = 0;
		if (heap->read_nr || !has_just_begun(target))
			note_unread(collector, target, &why);
	}
	heap->took_ns = monotonic_now_ns() - now_ns;
	heap->look_ns = monotonic_now_ns() + LOOK_NS;
	return err;
}

void go_look_at(struct collector *collector, struct target *target, struct go_look *ret)
{
	const struct go_heap *heap = target->go.heap;

	*ret = (struct go_look){ .is_there = heap };
	if (!heap)
		return;
	if (target->go.is_used)
		read_go_profile(collector, target);
	ret->version = go_version_text(&heap->program);
	ret->why_not = *heap->why_not ? heap->why_not : NULL;
	ret->rate = heap->rate;
	ret->bucket_nr = heap->profile.bucket_nr;
}

void go_look_end(struct target *target)
{
	free_go_heap(target);
}

static bool can_be_read(const struct target *target)
{
	return target->go.is_used && !target->life.has_ended;
}

/* Births are known to a second, where reading all processes takes little of that. */
static uint64_t poll_go(struct collector *collector)
{
	uint64_t least_ns = UINT64_MAX, now_ns = monotonic_now_ns();
	size_t nr = collector->targets.target_nr;
	uint64_t read_nr = array_count(nr, i, can_be_read(collector->targets.target[i]));

	for (size_t i = 0; i < nr; i++) {
		struct target *target = collector->targets.target[i];
		struct go_heap *heap = target->go.heap;
		uint64_t wait_ns;

		if (!can_be_read(target))
			continue;
		if (now_ns >= heap->look_ns) {
			read_go_profile(collector, target);
			wait_ns = LOOK_SHARE * read_nr * heap->took_ns;
			now_ns = monotonic_now_ns();
			heap->look_ns = now_ns + (wait_ns > LOOK_NS ? wait_ns : LOOK_NS);
		}
		wait_ns = heap->look_ns > now_ns ? heap->look_ns - now_ns : 1;
		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
	}
	return least_ns;
}

/* ---- a pass ---- */

/* A process that has ended has what was read last. */
static int read_go_blocks(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++) {
		struct target *target = collector->targets.target[i];

		if (!target->go.is_used)
			continue;
		if (can_be_read(target) && read_go_profile(collector, target) == -ENOMEM)
			err = -ENOMEM;
		err = err ?: join_go_blocks(collector, target);
	}
	return err;
}

/* ---- the source ---- */

/* After python_source. A domain that was named stays alone. */
static int choose_go(struct collector *collector, struct reason *why)
{
	(void)why;
	if (collector->sources->python_choice.is_default && !collector->options.run_exact)
		collector->options.domains |= COLLECTOR_GO;
	return 0;
}

/* The heap of C code is recorded, if it was asked for. */
static int check_go(struct collector *collector, const struct target *target, struct reason *why)
{
	const char *why_not = target->go.heap ? target->go.heap->why_not : "it is no Go program";

	if (target->go.is_used || collector->options.system_wide)
		return 0;
	if (collector->options.domains == COLLECTOR_GO || collector->options.go_profile)
		return reason_set(why, -ENOENT, "process %d (%s): %s", target->identity.pid, target->identity.comm, why_not);
	if (target->go.heap)
		notes_add(&collector->notes, "process %d (%s): %s", target->identity.pid, target->identity.comm, why_not);
	return 0;
}

static void end_go(struct collector *collector, struct target *target)
{
	(void)collector;
	free_go_heap(target);
}

static bool go_is_used(const struct target *target)
{
	return target->go.is_used;
}

static bool has_go_view(const struct target *target)
{
	return target->go.heap || target->snapshots.any_saved;
}

static const char *why_go_is_unused(const struct target *target)
{
	return target->go.heap && !target->go.is_used ? target->go.heap->why_not : NULL;
}

static bool go_is_estimated(const struct target *target, const struct settings *settings)
{
	(void)settings;
	return target->go.is_used;
}

/* go_*: what the profile says beyond its samples. A rate that was not found is what Go begins with. */
static int describe_go(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	const struct go_heap *heap = target->go.heap;
	const struct number number[] = {
		{ "sample_bytes", heap ? heap->rate ?: RATE_ASSUMED : 0 },
		{ "go_bucket_count", heap ? heap->profile.bucket_nr : 0 },
		{ "go_walk_count", heap ? heap->profile.walk_nr : 0 },
		{ "go_collection_count", heap ? heap->collection_nr : 0 },
		{ "go_read_monotonic_ns", heap ? heap->read_ns : 0 },
	};
	int err = 0;

	(void)settings;
	if (heap && *heap->why_not)
		err = snapshot_builder__metadata(builder, "go_not_recorded", heap->why_not);
	if (err || !target->go.is_used)
		return err;
	err = snapshot_builder__domain_name(builder, DOMAIN_GO, "go") ?:
	      snapshot_builder__metadata(builder, "sampler_kind", "go") ?:
	      snapshot_builder__metadata(builder, "go_rate", heap->is_off ? "off" : heap->rate ? "read" : "assumed");
	if (!err && (heap->switch_fd >= 0 || heap->was_on))
		err = snapshot_builder__metadata(builder, "go_profile", heap->was_on ? "was switched on before the recording" : "switched on by the recording");
	if (!err && *heap->program.version)
		err = snapshot_builder__metadata(builder, "go_version", heap->program.version);
	return err ?: describe_numbers(builder, number, ARRAY_SIZE(number));
}

static void add_go_losses(const struct target *target, uint64_t *loss)
{
	loss[LOSS_blocks_dropped] += target->go.heap ? target->go.heap->dropped : 0;
}

const struct block_source go_source = {
	.domain = "go",
	.domain_bit = COLLECTOR_GO,
	.trait = TRAIT_BIT(GO),
	.unrecorded = "Go's heap ('--domain go', if its profile is linked in; else GODEBUG=gctrace=1)",
	.choose = choose_go,
	.attach = attach_go,
	.check = check_go,
	.forget_program = free_go_heap,
	.end = end_go,
	.keep_cost = poll_go,
	.after_read = read_go_blocks,
	.add_tracebacks = add_go_tracebacks,
	.is_used = go_is_used,
	.why_unused = why_go_is_unused,
	.has_view = has_go_view,
	.is_estimated = go_is_estimated,
	.names_rate = go_is_used,
	.describe = describe_go,
	.add_losses = add_go_losses,
};
