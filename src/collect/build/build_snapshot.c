// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/build_snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/bpf.h"
#include "collect/build/build_metadata.h"
#include "elf/probe_info.h"
#include "symbolize/frames.h"
#include "snapshot.h"
#include "symbols/symbols.h"
#include "base/parallel.h"
#include "collect/build/sample_weight.h"

/*
 * Everything that one snapshot is made with. Ids are the builder's ids; arrays are indexed like the target's
 * tables.
 */
/* Converts the blocks of one image to the traces of a snapshot, with two threads: there may be ten million blocks. */

struct traces {
	const struct image_blocks *blocks;
	const struct tracebacks *tracebacks;
	struct snapshot_builder *builder;
	uint64_t first; /* index of the first trace in the builder; there are as many as blocks */
	const uint32_t *traceback_id; /* the builder's id of tracebacks->traceback[i]; 0: not added yet */
	const uint64_t *sample_bytes; /* mean distance of samples by rate; 0: every block was recorded */
	bool *is_wanted; /* set for tracebacks that are needed but not added yet */
};

struct traces_sum {
	uint64_t bytes;
	double weight, weighted_bytes; /* estimated from the samples' weights */
	uint64_t tracebacks_missing; /* the target does not know the traceback */
	bool is_incomplete; /* some tracebacks are wanted: call again after they have been added */
};

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

static int build_set_traces(const struct traces *traces, struct traces_sum *ret)
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

/* ---- a snapshot ---- */

struct assembly {
	struct target *target;
	struct symbols *symbols;
	struct snapshot_builder *builder;
	uint32_t *object_id;	   /* of objects.object[i], if the process uses it */
	uint32_t *object_symbols;  /* index for symbols__lookup(), or NAMES_NONE */
	bool no_names;		   /* no names are wanted */
	bool is_sampled;	   /* a trace has a weight */
	uint32_t *traceback_id;	   /* of target->tracebacks.traceback[i]; 0: not added yet */
	struct frame_list frames;  /* of the current traceback */
	uint64_t bytes, blocks; /* live at the cut; estimates when blocks are sampled */
	uint64_t trace_nr;
	uint64_t tracebacks_missing;
	const struct block_source *const *sources;
	uint64_t tracebacks_limited, tracebacks_broken, tracebacks_skipping, tracebacks_guessed;
	uint64_t tracebacks_unsure, frames_unmapped;
	uint64_t tracebacks_ended[SNAP_END_NR];
};

static const struct object *object_at(const struct assembly *assembly, uint32_t i)
{
	return assembly->target->mappings.objects->object[i];
}

static int add_object_row(struct assembly *assembly, size_t i)
{
	const struct object *object = object_at(assembly, i);
	struct snap_object row = {};
	char text[64];
	int err = snapshot_builder__string(assembly->builder, object->path, &row.path);

	if (!err && object->probe_info)
		err = snapshot_builder__string(assembly->builder, object->probe_info->build_id,
					       &row.build_id);
	err = err ?: snapshot_builder__object(assembly->builder, &row, &assembly->object_id[i]);
	if (err || !object->probe_info || object->has_wrong_names || assembly->no_names)
		return err;
	err = symbols__object(assembly->symbols, object->path, object_names_key(object, text),
			      object->fd, &assembly->object_symbols[i]);
	if (!err)
		symbols__set_file(assembly->symbols, assembly->object_symbols[i],
				  objects_check(assembly->target->mappings.objects, i) ? object->fd : -1);
	return err;
}

static int add_objects(struct assembly *assembly)
{
	const struct mappings *mappings = &assembly->target->mappings;
	size_t nr = mappings->objects->object_nr;
	int err = 0;

	assembly->object_id = calloc(nr + 1, sizeof(*assembly->object_id));
	assembly->object_symbols = calloc(nr + 1, sizeof(*assembly->object_symbols));
	if (!assembly->object_id || !assembly->object_symbols)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		assembly->object_symbols[i] = NAMES_NONE;
	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		err = add_object_row(assembly, mappings->used[i]);
	return err;
}

/* Adds a frame that stands for missing frames. */
static int add_stand_in(struct assembly *assembly, const char *what)
{
	struct snap_frame frame = { .flags = SNAP_FRAME_SKIPPED };
	uint32_t id;
	int err = snapshot_builder__string(assembly->builder, "<unknown>", &frame.filename) ?:
			  snapshot_builder__string(assembly->builder, what, &frame.function);
	err = err ?: snapshot_builder__frame(assembly->builder, &frame, &id);
	return err ?: array_push(&assembly->frames, frame, id);
}

/* Whether the place's object can be asked for names, and its index in assembly->symbols. */
static bool has_names(const struct assembly *assembly, const struct code_place *place,
		      uint32_t *ret_object)
{
	if (place->object >= OBJECT_OF_SOURCE)
		return false;
	*ret_object = assembly->object_symbols[place->object];
	return *ret_object != NAMES_NONE;
}

/* A frame that a source makes. It may not know it: then another frame stands for it. */
static int add_source_frame(struct assembly *assembly, uint64_t word)
{
	for (const struct block_source *const *source = assembly->sources; *source; source++) {
		uint32_t id;
		int err;

		if (!(*source)->frame)
			continue;
		err = (*source)->frame(assembly->target, assembly->builder, word, &id);
		if (err == -EAGAIN)
			continue;
		return err == -ENOENT ? add_stand_in(assembly, (*source)->unknown_frame) :
					err ?: array_push(&assembly->frames, frame, id);
	}
	return add_stand_in(assembly, "[unknown code]");
}

static int add_place_frames(struct assembly *assembly, const struct code_place *place)
{
	bool in_object = place->object != OBJECT_NONE;
	struct frame_place where = {
		.names = NAMES_NONE,
		.offset = place->offset,
		.flags = (place->is_guessed ? SNAP_FRAME_GUESSED : 0) |
			 (place->is_exact ? SNAP_FRAME_EXACT : 0) |
			 (place->is_logical ? SNAP_FRAME_LOGICAL : 0),
		.path = "[anonymous code]",
	};

	if (place->object == OBJECT_SKIPPED)
		return add_stand_in(assembly, "[callers without frame pointer]");
	if (place->object == OBJECT_GONE)
		return add_stand_in(assembly, "[code that was replaced]");
	if (place->object == OBJECT_OF_SOURCE)
		return add_source_frame(assembly, place->offset);
	has_names(assembly, place, &where.names);
	if (!in_object)
		where.function = made_code_name(&assembly->target->made_code, frame_return_offset(place->offset, place->is_exact));
	if (in_object) {
		where.object = assembly->object_id[place->object];
		where.path = object_at(assembly, place->object)->path;
	}
	return frames_add_place(&assembly->frames, assembly->builder, assembly->symbols, &where);
}

static bool find_place_names(const void *assembly_, size_t i, uint32_t *ret_names, uint64_t *ret_offset)
{
	const struct assembly *assembly = assembly_;
	const struct code_place *place = &assembly->target->tracebacks.place[i];

	*ret_offset = frame_return_offset(place->offset, place->is_exact);
	return has_names(assembly, place, ret_names);
}

/* Looks names up, then drops the names of a file that was written to meanwhile: they may belong to the new file. */
static int look_up_names(struct assembly *assembly)
{
	const struct mappings *mappings = &assembly->target->mappings;
	int err =
		frames_look_ahead(assembly->symbols, assembly->target->tracebacks.place_nr, find_place_names, assembly);

	for (size_t i = 0; i < mappings->used_nr; i++) {
		struct object *object = mappings->objects->object[mappings->used[i]];

		if (object->has_changed || objects_check(mappings->objects, mappings->used[i]))
			continue;
		object->has_wrong_names = true;
		assembly->object_symbols[mappings->used[i]] = NAMES_NONE;
	}
	return err;
}

/* Names of code made at run time. Nobody can look them up later, so it does this also if no names are wanted. */
static int look_up_made_code(struct assembly *assembly, uint64_t pass_ns)
{
	struct target *target = assembly->target;
	int err = 0;

	for (size_t i = 0; i < target->tracebacks.place_nr && !err; i++) {
		const struct code_place *place = &target->tracebacks.place[i];

		if (place->object == OBJECT_NONE)
			err = made_code_add(&target->made_code, frame_return_offset(place->offset, place->is_exact));
	}
	if (!target->life.has_ended)
		made_code_open(&target->made_code, &target->mappings, target->identity.pid);
	return err ?: made_code_look_up(&target->made_code, target->mappings.objects->sandbox, pass_ns);
}

static int look_up_frames(struct assembly *assembly, uint64_t pass_ns)
{
	int err = look_up_names(assembly) ?: look_up_made_code(assembly, pass_ns);

	for (const struct block_source *const *source = assembly->sources; *source && !err; source++)
		if ((*source)->look_up)
			err = (*source)->look_up(assembly->target);
	return err;
}

/* Adds a row. Inlined calls are frames too: they lengthen the traceback and its total alike. */
static int add_traceback_row(struct assembly *assembly, const struct known_traceback *known,
			     uint32_t *ret_id)
{
	int err = 0;

	assembly->frames.frame_nr = 0;
	for (uint32_t i = 0; i < known->nframe && !err; i++)
		err = add_place_frames(assembly, &assembly->target->tracebacks.place[known->first + i]);
	if (err)
		return err;
	assembly->tracebacks_limited += !!(known->flags & SNAP_TRACEBACK_LIMITED);
	assembly->tracebacks_broken += !!(known->flags & SNAP_TRACEBACK_BROKEN);
	assembly->tracebacks_skipping += known->has_skipped;
	assembly->tracebacks_guessed += known->has_guessed;
	assembly->tracebacks_unsure += known->has_unsure;
	assembly->frames_unmapped += known->unmapped_nr;
	assembly->tracebacks_ended[SNAP_TRACEBACK_END_OF(known->flags)]++;
	return snapshot_builder__traceback(assembly->builder, assembly->frames.frame,
					   assembly->frames.frame_nr,
					   known->total_nframe + assembly->frames.frame_nr -
						   known->nframe,
					   known->flags, ret_id);
}

static int add_known_traceback(struct assembly *assembly, size_t i)
{
	uint32_t *added = &assembly->traceback_id[i];

	return *added ? 0 : add_traceback_row(assembly, &assembly->target->tracebacks.traceback[i], added);
}

static int add_wanted(struct assembly *assembly, const bool *is_wanted)
{
	int err = 0;

	for (size_t i = 0; i < assembly->target->tracebacks.traceback_nr && !err; i++)
		if (is_wanted[i])
			err = add_known_traceback(assembly, i);
	return err;
}

/* Most tracebacks have been added with their churn. If some are missing, adds these and sets the traces again. */
static int add_traces_of(struct assembly *assembly, struct traces *traces)
{
	struct traces_sum sum;
	int err = snapshot_builder__add_traces(assembly->builder, traces->blocks->nr,
					       &traces->first) ?: build_set_traces(traces, &sum);

	if (!err && sum.is_incomplete)
		err = add_wanted(assembly, traces->is_wanted) ?: build_set_traces(traces, &sum);
	if (err)
		return err;
	assembly->trace_nr = traces->blocks->nr;
	assembly->bytes = assembly->is_sampled ? (uint64_t)llround(sum.weighted_bytes) : sum.bytes;
	assembly->blocks = assembly->is_sampled ? (uint64_t)llround(sum.weight) : assembly->trace_nr;
	assembly->tracebacks_missing += sum.tracebacks_missing;
	return 0;
}

static const uint64_t *sample_bytes(const struct snapshot_context *snapshot_context)
{
	return snapshot_context->bpf->rodata->settings.sample_bytes;
}

/* Whether the process itself gave a block its weight; *ret_is_mixed: and the heap has other blocks, too. */
static bool has_told_blocks(const struct image_blocks *blocks, bool *ret_is_mixed)
{
	bool has_told = false, has_others = false;

	for (const struct block_chunk *chunk = blocks ? blocks->chunk : NULL; chunk; chunk = chunk->next) {
		has_told |= chunk->weight != NULL;
		for (size_t i = 0; i < chunk->nr && !has_others; i++)
			has_others = chunk->block[i].layer == LAYER_HEAP && !(chunk->weight && chunk->weight[i]);
	}
	*ret_is_mixed = has_told && has_others;
	return has_told;
}

/* The drained accounting may be older than a block that a budget's rate has chosen, but not what was read later. */
static bool has_sampled_blocks(struct target *target, const struct snapshot_context *snapshot_context,
			       const struct image_blocks *blocks)
{
	bool is_sampled = has_told_blocks(blocks, &target->snapshots.is_mixed);

	for (const struct block_source *const *source = snapshot_context->sources; *source && !is_sampled; source++)
		is_sampled = (*source)->is_estimated &&
			     (*source)->is_estimated(target, &snapshot_context->bpf->rodata->settings);
	return is_sampled || sample_bytes(snapshot_context)[0] || target->now.account.sample_rates_used;
}

static int add_image_traces(struct assembly *assembly, const struct drain *drain,
			    const struct snapshot_context *snapshot_context, uint64_t image)
{
	struct traces traces = {
		.blocks = drained_blocks_of(&drain->blocks, image),
		.tracebacks = &assembly->target->tracebacks,
		.builder = assembly->builder,
		.traceback_id = assembly->traceback_id,
		.sample_bytes = sample_bytes(snapshot_context),
	};
	int err;

	if (!traces.blocks)
		return 0;
	traces.is_wanted = calloc(assembly->target->tracebacks.traceback_nr + 1, sizeof(*traces.is_wanted));
	err = traces.is_wanted ? add_traces_of(assembly, &traces) : -ENOMEM;
	free(traces.is_wanted);
	return err;
}

static int add_churn_row(struct assembly *assembly, uint32_t traceback_id, const struct churn *churn)
{
	const struct snap_churn row = {
		.allocations = churn->allocations,
		.allocated_bytes = churn->allocated_bytes,
		.temporary = churn->temporary,
		.temporary_bytes = churn->temporary_bytes,
	};

	return snapshot_builder__churn(assembly->builder, traceback_id, &row);
}

/* Adds the churn of the forgotten tracebacks as one traceback with one frame, which says so. */
static int add_forgotten_churn(struct assembly *assembly)
{
	uint32_t id;
	int err;

	if (!assembly->target->tracebacks.summed_nr)
		return 0;
	assembly->frames.frame_nr = 0;
	err = add_stand_in(assembly, "[other tracebacks, without blocks]");
	err = err ?: snapshot_builder__traceback(assembly->builder, assembly->frames.frame, 1, 0, 0, &id);
	return err ?: add_churn_row(assembly, id, &assembly->target->tracebacks.others);
}

/* Adds the churn of all tracebacks, also of those that hold no block now. */
static int add_churn(struct assembly *assembly)
{
	const struct target *target = assembly->target;
	int err = 0;

	for (size_t i = 0; i < target->tracebacks.traceback_nr && !err; i++) {
		const struct churn *churn = &target->tracebacks.traceback[i].churn;

		if (!churn->allocations)
			continue;
		err = add_known_traceback(assembly, i);
		err = err ?: add_churn_row(assembly, assembly->traceback_id[i], churn);
	}
	return err ?: add_forgotten_churn(assembly);
}

/*
 * Whether the collector (which looks for functions) or the symbolizer (which looks for names) could not read the
 * file.
 */
static bool is_unreadable(const struct assembly *assembly, uint32_t i)
{
	uint32_t object = assembly->object_symbols[i];

	return object_at(assembly, i)->unreadable ||
	       (object != NAMES_NONE && symbols__unreadable(assembly->symbols, object));
}

/* A jitdump is mapped like code, so that profilers find it, but no code runs there. */
static void count_file_losses(const struct assembly *assembly, uint32_t i, uint64_t *loss)
{
	const struct file_identity *dump = &assembly->target->made_code.dump;

	if (dump->inode && file_identity_is_same_inode(dump, &object_at(assembly, i)->identity))
		return;
	loss[LOSS_objects_unreadable] += is_unreadable(assembly, i);
	loss[LOSS_objects_changed] += object_at(assembly, i)->has_changed;
}

static void count_ends(const struct assembly *assembly, uint64_t *loss)
{
	static const int loss_of[SNAP_END_NR] = {
		[SNAP_END_NO_RULE] = LOSS_tracebacks_no_rule,
		[SNAP_END_UNSUPPORTED] = LOSS_tracebacks_unsupported,
		[SNAP_END_UNREADABLE] = LOSS_tracebacks_unreadable,
		[SNAP_END_BACKWARDS] = LOSS_tracebacks_backwards,
		[SNAP_END_NO_FP] = LOSS_tracebacks_no_fp,
		[SNAP_END_NO_TABLE] = LOSS_tracebacks_no_table,
		[SNAP_END_NO_CODE] = LOSS_tracebacks_no_code,
		[SNAP_END_BUSY] = LOSS_tracebacks_busy,
	};

	for (int end = SNAP_END_ROOT + 1; end < SNAP_END_NR; end++)
		loss[loss_of[end]] = assembly->tracebacks_ended[end];
	loss[LOSS_tracebacks_guessed] = assembly->tracebacks_guessed;
}

/* Makes the live counters agree with the snapshot's blocks. The other counters are of an instant close to it. */
static void count_live(const struct assembly *assembly, uint64_t *counter)
{
	counter[COUNTER_current_bytes] = assembly->bytes;
	counter[COUNTER_current_blocks] = assembly->blocks;
	counter[COUNTER_sampled_blocks] = assembly->trace_nr;
	if (counter[COUNTER_peak_bytes] < assembly->bytes)
		counter[COUNTER_peak_bytes] = assembly->bytes;
	if (counter[COUNTER_peak_blocks] < assembly->blocks)
		counter[COUNTER_peak_blocks] = assembly->blocks;
}

/* Counts the losses that the loader finds, earlier or just now; the kernel counts the others. */
static void count_loader_losses(const struct assembly *assembly, const struct snapshot_context *snapshot_context,
				uint64_t *loss)
{
	const struct target *target = assembly->target;
	const struct mappings *mappings = &target->mappings;
	const struct probes *probes = target->probes.used, *beside = &target->probes.beside;

	count_ends(assembly, loss);
	loss[LOSS_unwind_tables_missing] = unwind_tables_missing(snapshot_context->unwind_tables, mappings);
	loss[LOSS_tracebacks_limited] = assembly->tracebacks_limited;
	loss[LOSS_tracebacks_broken] = assembly->tracebacks_broken;
	loss[LOSS_tracebacks_skipping] = assembly->tracebacks_skipping;
	/* A single refresh without a main thread may be of a process that is just ending. */
	loss[LOSS_main_thread_ended] = target->losses.leaderless_nr > 1;
	loss[LOSS_mappings_skipped] = mappings->skipped_nr;
	loss[LOSS_mappings_forgotten] = mappings->forgotten_nr;
	loss[LOSS_tracebacks_missing] = assembly->tracebacks_missing;
	loss[LOSS_functions_unprobed] = probes_lost_in(probes->failed, probes->failed_nr, mappings) +
					probes_lost_in(beside->failed, beside->failed_nr, mappings);
	loss[LOSS_functions_dropped] = probes_lost_in(probes->dropped, probes->dropped_nr, mappings);
	loss[LOSS_processes_dropped] = target->losses.children_dropped_nr;
	loss[LOSS_snapshots_lost] = target->losses.snapshots_lost;
	loss[LOSS_tracebacks_summed] = target->tracebacks.summed_nr;
	loss[LOSS_functions_late] = target->late.nr;
	loss[LOSS_functions_copied] = target->losses.copied_nr;
	loss[LOSS_mappings_missed] = snapshot_context->mappings_missed - target->losses.missed_at_start;
	loss[LOSS_process_events_missed] = snapshot_context->process_events_missed;
	loss[LOSS_frames_unmapped] = assembly->frames_unmapped;
	loss[LOSS_tracebacks_unsure] = assembly->tracebacks_unsure;
	/* Two children that leave at once, on two CPUs, may both subtract: the number may fall below 0. */
	loss[LOSS_children_unrecorded] = (int64_t)target->drained.account.sharers > 0 ? target->drained.account.sharers : 0;
	for (size_t i = 0; i < mappings->used_nr; i++)
		count_file_losses(assembly, mappings->used[i], loss);
	loss[LOSS_objects_unreadable] += target->made_code.is_refused;
	for (const struct block_source *const *source = assembly->sources; *source; source++)
		if ((*source)->add_losses)
			(*source)->add_losses(target, loss);
}

static int add_process_losses(struct assembly *assembly, const struct process *account,
			      const struct snapshot_context *snapshot_context)
{
	uint64_t counter[COUNTER_NR], loss[LOSS_NR] = {};

	count_loader_losses(assembly, snapshot_context, loss);
	if (snapshot_context->has_churn)
		found_losses_add(&assembly->target->losses.found, account->exec_cnt, loss);
	for (int i = 0; i < LOSS_NR; i++)
		loss[i] += account->loss[i];
	memcpy(counter, account->counter, sizeof(counter));
	if (snapshot_context->has_churn)
		count_live(assembly, counter);
	return describe_counters(assembly->builder, counter, loss);
}

static int fill_snapshot(struct assembly *assembly, const struct process *account, const struct drain *drain,
			 const struct snapshot_context *snapshot_context)
{
	int err = describe_target(assembly->builder, assembly->target, account, snapshot_context) ?:
			  describe_gaps(assembly->builder, assembly->target, snapshot_context->monotonic_ns);
	err = err ?: add_objects(assembly) ?: look_up_frames(assembly, snapshot_context->monotonic_ns);
	err = err ?: describe_probes(assembly->builder, assembly->target, assembly->sources, assembly->object_id);
	assembly->traceback_id = calloc(assembly->target->tracebacks.traceback_nr + 1,
					sizeof(*assembly->traceback_id));
	if (!err && !assembly->traceback_id)
		err = -ENOMEM;
	if (!err && snapshot_context->has_churn)
		err = add_churn(assembly);
	err = err ?: add_image_traces(assembly, drain, snapshot_context, account->image);
	return err ?: add_process_losses(assembly, account, snapshot_context);
}

int build_snapshot(struct target *target, const struct process *account, const struct drain *drain,
	     const struct snapshot_context *snapshot_context, struct symbols *symbols,
	     struct snapshot_builder **ret)
{
	bool is_sampled = has_sampled_blocks(target, snapshot_context, drained_blocks_of(&drain->blocks, account->image));
	struct assembly assembly = {
		.target = target,
		.sources = snapshot_context->sources,
		.symbols = symbols,
		.no_names = snapshot_context->no_names,
		.is_sampled = is_sampled,
		.builder = snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_PROBE_DOMAIN |
						 (snapshot_context->no_names ? 0 : SNAP_WITH_FIRST_LINE) |
						 (snapshot_context->has_churn ? SNAP_WITH_CHURN : 0) |
						 (is_sampled ? SNAP_WITH_WEIGHT : 0)),
	};
	int err = assembly.builder ? fill_snapshot(&assembly, account, drain, snapshot_context) : -ENOMEM;

	target->snapshots.assembled_bytes = assembly.bytes;
	free(assembly.object_id);
	free(assembly.object_symbols);
	free(assembly.traceback_id);
	free(assembly.frames.frame);
	if (err)
		snapshot_builder__free(assembly.builder);
	else
		*ret = assembly.builder;
	return err;
}
