// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A pass over the accounting of all processes: reads the maps and resolves the tracebacks. */
#include "collect/session/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/build/resolve_tracebacks.h"
#include "collect/build/traceback_versions.h"
#include "collect/files/unused_files.h"
#include "collect/files/written_files.h"
#include "collect/recording/map_shares.h"
#include "snapshot.h"
#include "symbols/symbols.h"

/* Sweeps the notes of dropped blocks, only if there were any and an image may have ended since the last sweep. */
static int sweep_dropped(const struct allocsnap_bpf *bpf, struct pass *pass, const struct ended *ended)
{
	uint64_t state = ended->next + ((uint64_t)ended->image_nr << 48);
	int err;

	if (!bpf->bss->any_dropped || state == pass->swept_state)
		return 0;
	err = drain_sweep_dropped(bpf_map__fd(bpf->maps.dropped_blocks), &pass->free_filter, ended);
	if (!err)
		pass->swept_state = state;
	return err;
}

/* Deletes the blocks of images that are gone: their processes have called exec or are no longer traced. */
static int sweep_ended_images(struct allocsnap_bpf *bpf, struct pass *pass, const struct targets *targets,
			      uint64_t next_image)
{
	size_t nr = 2 * targets->target_nr;
	uint64_t *image = calloc(nr + 1, sizeof(*image));
	const struct ended ended = { image, nr, next_image };
	int err;

	if (!image)
		return -ENOMEM;
	targets_images(targets->target, targets->target_nr, image);
	err = drain_sweep(&pass->drain, bpf, &pass->nursery, &pass->free_filter, &ended) ?:
										       sweep_dropped(bpf, pass, &ended);
	free(image);
	return err;
}

/*
 * Whether the mappings may be of another image than the drained blocks. A target that came after the drain has no
 * drained blocks.
 */
static bool has_execed(const struct target *target)
{
	if (!target->drained.account.image)
		return false;
	return target->now.account.exec_cnt != target->drained.account.exec_cnt ||
	       target->life.exec_event_cnt > target->drained.account.exec_cnt;
}

/*
 * In system-wide mode some process always calls exec meanwhile. The drain is not repeated then: that process
 * lacks tracebacks, which is counted.
 */
static bool any_has_execed(const struct targets *targets, bool system_wide)
{
	for (size_t i = 0; i < targets->target_nr && !system_wide; i++)
		if (has_execed(targets->target[i]))
			return true;
	return false;
}

/* ---- the target of a traceback ---- */

static uint64_t hash_image(uint64_t image)
{
	return hash_bytes(&image, sizeof(image), 0);
}

/* Before its first drain, a target has the image of its accounting. */
static uint64_t drained_image(const struct target *target)
{
	return target->drained.account.image ?: target->now.account.image;
}

static bool is_of_image(uint32_t i, const void *image, const void *targets_)
{
	const struct targets *targets = targets_;

	return drained_image(targets->target[i]) == *(const uint64_t *)image;
}

/* 0 or -ENOMEM. */
static int sort_images(const struct targets *targets, struct idmap *images)
{
	int err = 0;

	for (size_t i = 0; i < targets->target_nr && !err; i++)
		err = idmap_add(images, hash_image(drained_image(targets->target[i])), i);
	return err;
}

/* NULL: the image is gone. */
static struct target *target_of(const struct targets *targets, const struct idmap *images, uint64_t image)
{
	uint32_t i = idmap_find(images, hash_image(image), is_of_image, &image, targets);

	return i == IDMAP_NONE ? NULL : targets->target[i];
}

static const struct image_blocks *blocks_of(const struct drain *drain, uint64_t image)
{
	return drained_blocks_of(&drain->blocks, image);
}

/* Runs before new tracebacks are resolved, so that there is room for them. */
static int forget_all(const struct drain *drain, const struct targets *targets, const struct idmap *images)
{
	int err = 0;

	for (size_t i = 0; i < targets->target_nr; i++)
		if (!has_execed(targets->target[i]))
			resolve_begin(&targets->target[i]->tracebacks);
	for (size_t i = 0; i < drain->tracebacks.nr; i++) {
		struct target *target = target_of(targets, images, drain_traceback(drain, i)->image);

		if (target && !has_execed(target))
			resolve_held(&target->tracebacks, drain_traceback_id(drain, i));
	}
	for (size_t i = 0; i < targets->target_nr && !err; i++)
		if (!has_execed(targets->target[i]))
			err = forget_retired(&targets->target[i]->tracebacks,
					     blocks_of(drain, targets->target[i]->drained.account.image),
					     retired_most(targets->target_nr));
	return err;
}

/*
 * Runs before anything is taken out of the map: a traceback that is taken out counts as retired from then on. The
 * names of another image would be wrong. So blocks of a target that has called exec have no traceback, which is
 * counted.
 */
static int resolve_all(struct pass *pass, const struct targets *targets, const struct idmap *images,
		       uint64_t next_image)
{
	const uint64_t *sample_bytes = pass->snapshot_context.bpf->rodata->settings.sample_bytes;
	const struct drain *drain = &pass->drain;
	int err = 0;

	pass->stale.id_nr = 0;
	for (size_t i = 0; i < drain->tracebacks.nr && !err; i++) {
		const struct traceback *traceback = drain_traceback(drain, i);
		struct target *target = target_of(targets, images, traceback->image);

		if (!target && traceback->image < next_image)
			err = array_push(&pass->stale, id, drain_traceback_id(drain, i));
		else if (target && !has_execed(target))
			err = resolve_drained(&target->tracebacks, &target->mappings, drain_traceback_id(drain, i),
					      traceback);
	}
	for (size_t i = 0; i < targets->target_nr && !err; i++)
		if (!has_execed(targets->target[i]))
			versions_credit(&targets->target[i]->tracebacks,
					blocks_of(drain, targets->target[i]->drained.account.image), sample_bytes,
					targets->target[i]->mappings.told_ns);
	return err;
}

struct retiring {
	struct allocsnap_bpf *bpf;
	struct targets *targets;
	const struct idmap *images;
};

static int retire_traceback(void *what, uint64_t id, const struct traceback *traceback)
{
	const struct retiring *retiring = what;
	struct target *target = target_of(retiring->targets, retiring->images, traceback->image);

	fair_note_removed(retiring->bpf, &retiring->targets->accounts, target ? target->slot : ACCOUNT_NONE, traceback->image,
		       1);
	return target ? resolve_retired(&target->tracebacks, &target->mappings, id, traceback) : 0;
}

static bool is_trim_due(const struct allocsnap_bpf *bpf, const struct pass *pass, const struct targets *targets)
{
	const struct bpf_map *map = bpf->maps.tracebacks;
	bool is = pass->drain.tracebacks.nr - pass->stale.id_nr >= bpf_map__max_entries(map) / 2;

	for (size_t i = 0; i < targets->target_nr && !is; i++)
		is = has_many_unused_tracebacks(&targets->target[i]->tracebacks,
				     blocks_of(&pass->drain, targets->target[i]->drained.account.image));
	return is;
}

/*
 * Takes tracebacks that hold no block out of the map, if half of the map is full, or if one process has so many
 * of them that they would fill its snapshots.
 */
static int trim_tracebacks(struct allocsnap_bpf *bpf, struct pass *pass, struct targets *targets,
			   const struct idmap *images)
{
	int tracebacks_fd = bpf_map__fd(bpf->maps.tracebacks);
	struct retiring retiring = { bpf, targets, images };

	return is_trim_due(bpf, pass, targets) ?
		       drain_trim_tracebacks(&pass->drain, tracebacks_fd, retire_traceback, &retiring) :
		       0;
}

/* Resolves the tracebacks of all targets. Deletes the tracebacks of gone images: no snapshot will need them. */
static int resolve_drained_tracebacks(struct allocsnap_bpf *bpf, struct pass *pass, struct targets *targets,
				      uint64_t next_image)
{
	int tracebacks_fd = bpf_map__fd(bpf->maps.tracebacks);
	struct idmap images = {};
	uint64_t forgotten_nr = 0;
	int err = sort_images(targets, &images) ?: forget_all(&pass->drain, targets, &images);
	err = err ?: resolve_all(pass, targets, &images, next_image);
	err = err ?: drain_forget_tracebacks(tracebacks_fd, pass->stale.id, pass->stale.id_nr, &forgotten_nr);
	fair_note_removed(bpf, &targets->accounts, ACCOUNT_NONE, 0, forgotten_nr);
	err = err ?: trim_tracebacks(bpf, pass, targets, &images);
	idmap_release(&images);
	return err;
}

/*
 * The counters of a process that has ended meanwhile are final. A child that is not known yet is handled at the
 * next drain: its blocks are not older than next_image.
 */
static void store_drained_account(struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++) {
		targets->target[i]->drained.account = targets->target[i]->now.account;
		targets->target[i]->drained.cost = targets->target[i]->now.cost;
		targets->target[i]->snapshots.is_unsaved = true;
		targets->target[i]->snapshots.is_final = targets->target[i]->life.has_ended;
	}
}

static void note_children(struct notes *notes, struct target *target)
{
	if (target->losses.are_children_told || !target->drained.account.loss[LOSS_children_unrecorded])
		return;
	target->losses.are_children_told = true;
	notes_add(notes,
		  "process %d (%s): children in its memory (vfork, CLONE_VM) allocate there, and are not recorded: --follow-forks records them",
		  target->identity.pid, target->identity.comm);
}

/* Once a recording. */
static void note_children_untold(struct collector *collector)
{
	if (collector->bpf->bss->sharers_untold != 1)
		return;
	collector->bpf->bss->sharers_untold = 2;
	notes_add(&collector->notes,
		  "children begin in the memory of a recorded process (vfork, CLONE_VM): this kernel does not show "
		  "whether they allocate there. They are not recorded: --follow-forks records them");
}

/*
 * The kernel skips a run of a tracing program if an earlier run of it was preempted on the same CPU
 * (kernel/trace/bpf_trace.c, __bpf_trace_run()). Returns how often it did.
 */
static uint64_t missed_by(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);

	return bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes) ?
		       0 : info.recursion_misses;
}

struct snapshot_context snapshot_context_now(const struct collector *collector)
{
	return (struct snapshot_context){
		.wall_ns = clock_now_ns(CLOCK_REALTIME),
		.monotonic_ns = monotonic_now_ns(),
		.traceback_limit = collector->options.traceback_limit,
		.no_names = collector->options.no_names,
		.mappings_missed = mapping_events__missed(collector->events.mappings),
		.unwind_tables = &collector->unwind_tables,
		.bpf = collector->bpf,
		.sources = block_sources,
		.costs = &collector->limits->budgets.costs,
	};
}

static int read_maps(struct collector *collector)
{
	const struct allocsnap_bpf *bpf = collector->bpf;
	const struct bpf_program *const life[] = { bpf->progs.process_fork, bpf->progs.process_exec,
						   bpf->progs.process_exit };
	uint64_t missed = 0;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(life); i++)
		missed += missed_by(life[i]);

	collector->pass.snapshot_context = snapshot_context_now(collector);
	collector->pass.snapshot_context.max_overhead = collector->options.max_overhead;
	collector->pass.snapshot_context.has_churn = true;
	collector->pass.snapshot_context.process_events_missed = missed;
	sources_before_cut(collector);
	err = cut_read_blocks(&collector->pass.cut, bpf, &collector->pass.nursery, &collector->pass.drain) ?:
	      sources_after_read(collector);
	if (!err)
		unwind_tables_settle(&collector->unwind_tables); /* the read has waited for the programs */
	err = err ?: drain_read_tracebacks(&collector->pass.drain, bpf_map__fd(bpf->maps.tracebacks),
					   bpf_map__value_size(bpf->maps.tracebacks));
	return err ?: sources_add_tracebacks(collector);
}

/* Reads the RSS by kind of memory, and what samplers say. A process that has ended keeps its last values. */
static int read_rss(struct targets *targets, bool system_wide)
{
	int err = 0;

	for (size_t i = 0; i < targets->target_nr && err != -ENOMEM; i++) {
		struct target *target = targets->target[i];
		bool is_over;

		/* smaps of hundreds of processes take too long */
		target->resident.by_kind.gave_up |= system_wide;
		is_over = target->life.has_ended || target__is_over(target);
		err = is_over ? -ESRCH : rss_read(target->identity.pid, &target->resident.by_kind);
		if (!err)
			target->resident.bytes = rss_total(&target->resident.by_kind);
		if (!is_over)
			sources_look(target);
	}
	return err == -ENOMEM ? err : 0;
}

/* Reads the arguments of processes that still run the program that was drained, and names of pods that come late. 0 or -ENOMEM. */
static int read_arguments(struct targets *targets)
{
	int err = 0;

	for (size_t i = 0; i < targets->target_nr && !err; i++) {
		struct target *target = targets->target[i];
		bool is_same = target->now.account.exec_cnt == target->drained.account.exec_cnt;

		if (is_same && !target->life.has_ended && !target__is_over(target) && !target->now.account.memory_of)
			err = process_identity_read_args(&target->identity);
		pod_find_names(&target->identity.pod);
	}
	return err;
}

/* All tracebacks of the drain have been resolved. */
static void end_drain(struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++)
		mappings_end_pass(&targets->target[i]->mappings);
}

#define DRAIN_TRIES 3

/*
 * Reads the mappings before the blocks, so that names are of that time, and after, so that blocks that were
 * recorded meanwhile have names. If a process has called exec in between, everything is read again.
 */
int collector__drain(struct collector *collector, struct reason *why)
{
	uint64_t stale_blocks = health_stale_blocks(collector->bpf);
	uint64_t next_image = 0;
	int err = 0;

	pause_spenders(collector);
	check_files(collector);
	for (int i = 0; i < DRAIN_TRIES && !err; i++) {
		next_image = __atomic_load_n(&collector->bpf->data->next_image, __ATOMIC_ACQUIRE);
		collector_refresh_all(collector);
		store_drained_account(&collector->targets);
		for (size_t at = 0; at < collector->targets.target_nr; at++)
			note_children(&collector->notes, collector->targets.target[at]);
		err = read_maps(collector);
		collector_refresh_all(collector);
		collector_read_news(collector, true); /* an exec before its mappings were read */
		if (!any_has_execed(&collector->targets, collector->options.system_wide))
			break;
	}
	note_children_untold(collector);
	err = err ?: read_rss(&collector->targets, collector->options.system_wide) ?:
		     read_arguments(&collector->targets);
	err = err ?: resolve_drained_tracebacks(collector->bpf, &collector->pass, &collector->targets, next_image);
	err = err ?: sweep_ended_images(collector->bpf, &collector->pass, &collector->targets, next_image);
	if (!err) {
		health_swept(collector->bpf, stale_blocks);
		end_drain(&collector->targets);
		drop_unused(collector);
	}
	return err ? reason_set(why, err, "cannot read the maps: %s", strerror(-err)) : 0;
}
