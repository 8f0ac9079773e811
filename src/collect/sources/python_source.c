// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect.h"
#include "collect/build/build_metadata.h"
#include "process/proc.h"
#include "collect/recording/collector.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/books_pass.h"
#include "collect/sources/python_source.h"
#include "collect/target/target.h"
#include "shared/bpf_types.h"
#include "shared/python_calls.h"
#include "snapshot.h"

/* ---- code objects that the kernel side reports ---- */

struct told_code {
	const struct collector *collector;
	struct target *target;
	const struct python_code_record *record;
};

static int read_told(void *told_, uint64_t address, void *to, size_t bytes)
{
	const struct told_code *told = told_;

	return target__read_memory(told->target, address, to, bytes);
}

/* Whether the address still belongs to the code object that the kernel side reported. */
static bool is_still_told(void *told_)
{
	const struct told_code *told = told_;
	const struct python_code_key key = { told->record->address, told->record->memory };
	struct python_code_known known;

	return !bpf_map_lookup_elem(bpf_map__fd(told->collector->bpf->maps.python_codes), &key, &known) &&
	       known.id == told->record->id;
}

#define CODES_BYTES_MOST (1ULL << 30)
#define CODES_BYTES_FEW (8ULL << 20)

/* The sum over all processes is limited; a process with few may always have more. */
static bool has_room_for_code(const struct collector *collector, const struct target *target)
{
	uint64_t bytes = 0;

	if (target->python.codes.bytes < CODES_BYTES_FEW)
		return true;
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		bytes += collector->targets.target[i]->python.codes.bytes;
	return bytes < CODES_BYTES_MOST;
}

int note_python_code(void *collector_, void *record_, size_t bytes)
{
	struct collector *collector = collector_;
	const struct python_code_record *record = record_;
	struct told_code told = { .collector = collector, .record = record };

	if (bytes < sizeof(*record))
		return 0;
	told.target = find_target(&collector->targets, record->pid);
	if (told.target && told.target->python.memory == record->memory && has_room_for_code(collector, told.target))
		python_codes_add(&told.target->python.codes, record, bytes, read_told, is_still_told, &told);
	return 0; /* a code object that is not known is counted where a frame needs it */
}

/* ---- the heap below ---- */

static struct process *view_account(const struct collector *collector, const struct target *target)
{
	return &collector->targets.accounts.process[target->slot % PROCESSES_MAX];
}

static bool is_heap_hidden(const struct collector *collector, const struct target *target)
{
	const struct process *account = view_account(collector, target);

	return __atomic_load_n(&account->python_memory, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&account->memory, __ATOMIC_ACQUIRE);
}

bool python_view_may_begin(const struct collector *collector, const struct target *target)
{
	const struct target_snapshots *snapshots = &target->snapshots;
	bool is_shown = snapshots->any_saved && snapshots->shown.exec_cnt == target->now.account.exec_cnt;

	return collector->sources->python_choice.beside_heap || !is_shown || !probes_see_heap(target->probes.used) ||
	       is_heap_hidden(collector, target);
}

/* The clearing begins a new image: the loader goes on with that. */
static int forget_heap(struct collector *collector, struct target *target)
{
	int err = clear_target_traces(collector, target);

	if (err)
		return err;
	gone_add(&collector->totals.gone, &target->now.account);
	target->now.account = *view_account(collector, target);
	return 0;
}

int python_view_begin(struct collector *collector, struct target *target)
{
	struct process *account = view_account(collector, target);
	bool was_hidden = is_heap_hidden(collector, target);

	if (!target__is_beside(target) || collector->sources->python_choice.beside_heap)
		return 0;
	__atomic_store_n(&account->python_memory, account->memory, __ATOMIC_SEQ_CST);
	return was_hidden || !account->is_open || !probes_see_heap(target->probes.used) ? 0 : forget_heap(collector, target);
}

/* ---- the time before ---- */

static uint64_t time_of_program(const struct target_life *life)
{
	return life->execed_ns > life->started_ns ? life->execed_ns : life->started_ns;
}

/* Its recording has begun already. In a pause the gap is longer anyway. */
static void note_late_view(struct target *target)
{
	struct pausing *pausing = &target->budget.own;
	uint64_t begin_ns = time_of_program(&target->life), now_ns = monotonic_now_ns();

	if (!target->life.started_ns || pausing->open_ns || begin_ns >= now_ns || pausing_make_room(pausing))
		return;
	pausing->open_ns = begin_ns;
	pausing_close_gap(pausing, now_ns);
}

int python_view_placed(struct target *target, uint32_t object)
{
	struct probes *probes = &target->probes.beside;

	if (!target__is_beside(target) || !probes_have_site(probes, object))
		return 0;
	if (!probes->looked_nr && !target->python.has_heap) /* older pools are counted, and no block is missing */
		note_late_view(target);
	return probes_note_looked(probes, object);
}

void python_view_refuse(struct collector *collector, struct target *target)
{
	if (!target__is_beside(target) || !is_heap_hidden(collector, target))
		return;
	__atomic_store_n(&view_account(collector, target)->python_memory, 0, __ATOMIC_SEQ_CST);
	note_late_view(target);
}

void leave_python(struct collector *collector, struct target *target)
{
	if (!target__is_beside(target))
		return;
	if (target->life.has_ended)
		probes_detach(&target->probes.beside, &collector->shared.detacher); /* the last snapshot names them */
	else
		probes_end(&target->probes.beside, &collector->shared.detacher);
	forget_python(collector, target);
}

/* ---- the check ---- */

#define FIRST_TRIES 20

static bool python_is_checkable(const struct collector *collector, const struct target *target)
{
	const struct collector_options *options = &collector->options;

	bool has_all_sizes = !options->min_size &&
			     (!options->max_size || (options->python_pools && options->max_size >= COLLECTOR_PYTHON_SMALL_MAX));

	return target->python.is_used && !target->python.books && target->python.memory && !target->life.has_ended && !options->sample_bytes &&
	       has_all_sizes && !options->max_overhead;
}

/* Grows with each call that is seen. */
static uint64_t calls_seen(const struct collector *collector, const struct target *target)
{
	static const enum counter counters[] = {
		COUNTER_allocations, COUNTER_frees, COUNTER_unknown_frees, COUNTER_inherited_frees, COUNTER_nested_calls,
		COUNTER_dropped_frees,
	};
	const struct process *account = &collector->targets.accounts.process[target->slot % PROCESSES_MAX];
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		sum += __atomic_load_n(&account->counter[counters[i]], __ATOMIC_ACQUIRE);
	return sum;
}

/* Takes the blocks of the account out of the live ones; counts those that are not live, or not large enough. */
static void take_recorded(struct live_pools *live, const struct image_blocks *blocks, uint64_t *ret_gone)
{
	for (const struct block_chunk *chunk = blocks ? blocks->chunk : NULL; chunk; chunk = chunk->next)
		for (size_t i = 0; i < chunk->nr; i++) {
			const struct drained_block *block = &chunk->block[i];
			enum live_state state;

			if (block->domain != DOMAIN_PYTHON || block->size - 1 >= COLLECTOR_PYTHON_SMALL_MAX)
				continue;
			state = live_pools_take(live, block->address, block->size);
			*ret_gone += state == LIVE_NOT || state == LIVE_SMALLER;
		}
}

/*
 * Reads the lists, if nothing has moved since the calls were counted. A thread that runs may be between a probe and what
 * the probed code does then, so all must be asleep. 0, -ENOMEM, or another error: there is no result.
 */
static int read_live_now(struct collector *collector, struct target *target, struct live_pools *ret)
{
	struct python_checked *checked = &target->python.checked;
	bool is_still = calls_seen(collector, target) == checked->calls && proc_is_asleep(target->identity.pid);
	int err = is_still ? 0 : -EAGAIN;

	err = err ?: live_pools_read(&target->python.where, target__read_memory, target, ret);
	if (!err && calls_seen(collector, target) != checked->calls) {
		live_pools_release(ret);
		err = -EAGAIN;
	}
	if (!err && collector->options.python_pools)
		live_pools_unite(ret);
	return err;
}

void python_check_begin(struct collector *collector)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		target->python.checked.is_now = false;
		if (python_is_checkable(collector, target))
			target->python.checked.calls = calls_seen(collector, target);
	}
}

static int check_python_account(struct collector *collector, struct target *target)
{
	struct python_checked *checked = &target->python.checked;
	uint64_t image = target->drained.account.image, gone = 0;
	struct live_pools live;
	int err = read_live_now(collector, target, &live);

	if (err)
		return err == -ENOMEM ? err : 0;
	if (checked->image != image)
		checked->has_older = false; /* the account is others: of another program, or emptied */
	checked->image = image;
	take_recorded(&live, drained_blocks_of(&collector->pass.drain.blocks, image), &gone);
	checked->gone = gone;
	python_checked_note(checked, &live);
	checked->is_now = true;
	return 0;
}

int python_check(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (python_is_checkable(collector, collector->targets.target[i]))
			err = check_python_account(collector, collector->targets.target[i]);
	return err;
}

/* The account may have blocks by now: they are in `older`, too, until the next check. */
int python_check_first(struct collector *collector, struct target *target)
{
	struct python_checked *checked = &target->python.checked;
	struct live_pools live;
	int err = -EAGAIN;

	if (!python_is_checkable(collector, target))
		return 0;
	for (int try = 0; try < FIRST_TRIES && err == -EAGAIN; try++) {
		checked->calls = calls_seen(collector, target);
		err = read_live_now(collector, target, &live);
	}
	if (err)
		return err == -ENOMEM ? err : 0;
	checked->image = target->now.account.image;
	python_checked_note(checked, &live);
	return 0;
}

/* ---- snapshots ---- */

int look_up_python_lines(struct target *target)
{
	const struct tracebacks *tracebacks = &target->tracebacks;
	int err = 0;

	target->python.codes_missing = 0;
	for (size_t i = 0; i < tracebacks->place_nr && !err; i++) {
		uint64_t word = tracebacks->place[i].offset;

		if (tracebacks->place[i].object == OBJECT_OF_SOURCE)
			err = python_codes_want(&target->python.codes, PYTHON_FRAME_CODE(word),
						PYTHON_FRAME_INSTRUCTION(word));
	}
	return err ?: python_codes_look_up(&target->python.codes, target->mappings.objects->sandbox, target->python.lines);
}

int add_python_frame(struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id)
{
	struct snap_frame frame = {}; /* no object, and offset 0 */
	int32_t line;
	const struct python_code *code = python_codes_find(&target->python.codes, PYTHON_FRAME_CODE(word),
							   PYTHON_FRAME_INSTRUCTION(word), &line);
	int err;

	if (!code) {
		target->python.codes_missing += PYTHON_FRAME_CODE(word) != PYTHON_CODE_UNKNOWN;
		return -ENOENT;
	}
	frame.lineno = line;
	err = snapshot_builder__string(builder, code->filename, &frame.filename) ?:
	      snapshot_builder__string(builder, code->name, &frame.function);
	return err ?: snapshot_builder__frame_declared(builder, &frame, line ? code->first_line : 0, ret_id);
}

/*
 * Python's objects of before the recording, or their pools, if the allocator's lists were compared with the account at this
 * time.
 */
static int describe_older_python(struct snapshot_builder *builder, const struct python_checked *checked)
{
	const struct number number[] = {
		{ "python_older_count", checked->older_nr },
		{ "python_older_bytes", checked->older_bytes },
	};

	return checked->is_now ? describe_numbers(builder, number, ARRAY_SIZE(number)) : 0;
}

int describe_python(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	static const char *const frames[] = {
		[PYTHON_FRAMES_PYTHON] = "python", [PYTHON_FRAMES_MIXED] = "mixed", [PYTHON_FRAMES_NATIVE] = "native",
	};
	const struct target_python *python = &target->python;
	bool is_other = !python->is_used && target->mappings.objects->domains == COLLECTOR_PYTHON;
	const char *why_not = *python->why_not.text || !is_other ? python->why_not.text : "the process is no Python any more";
	int err = 0;

	if (*why_not)
		err = snapshot_builder__metadata(builder, "python_not_recorded", why_not);
	if (err || !python->is_used)
		return err;
	err = snapshot_builder__metadata(builder, "python_frames", frames[settings->python_frames]);
	if (!err && python->retags)
		err = snapshot_builder__metadata(builder, "python_retag", "1");
	if (!err && mappings_use(&target->mappings, python->object))
		err = snapshot_builder__metadata(builder, "python_file",
						 target->mappings.objects->object[python->object]->path);
	if (!err && settings->has_pools)
		err = snapshot_builder__metadata(builder, "sampler_kind", "pools");
	return err ?: describe_books(builder, python->books) ?: describe_unseen_start(builder, &python->unseen) ?:
	       describe_older_python(builder, &python->checked);
}

void add_python_losses(const struct target *target, uint64_t *loss)
{
	const struct target_python *python = &target->python;

	loss[LOSS_python_codes_missing] = python->codes_missing;
	loss[LOSS_python_places_unknown] = python->unknown_nr;
	loss[LOSS_python_blocks_unseen] = python->checked.unseen;
	loss[LOSS_python_blocks_gone] = python->checked.gone;
	loss[LOSS_python_creations_unknown] = python->creation_unknown_nr;
	add_python_books_losses(target, loss);
}
