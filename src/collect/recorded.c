// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recorded.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/describe.h"
#include "collect/resolve.h"
#include "collect/store.h"
#include "snapshot.h"
#include "symbols/symbols.h"

size_t collector__target_nr(const struct collector *collector)
{
	return collector->target_nr;
}

static int read_books(const struct collector *collector, const struct target *target,
		      struct process *ret)
{
	uint32_t tgid = target->pid;

	return bpf_map_lookup_elem(processes_fd(collector), &tgid, ret);
}

int collector__view(const struct collector *collector, size_t i, struct target_view *ret)
{
	const struct target *target = collector->target[i];
	struct process books;
	int err = read_books(collector, target, &books);

	if (err)
		return err;
	*ret = (struct target_view){
		.pid = target->pid,
		.comm = target->comm,
		.has_ended = target->has_ended,
		.pidfd = target->pidfd,
		.current_bytes = books.counter[COUNTER_current_bytes],
		.current_blocks = books.counter[COUNTER_current_blocks],
		.allocations = books.counter[COUNTER_allocations],
	};
	for (int loss = 0; loss < LOSS_NR; loss++)
		ret->lost += books.loss[loss];
	return 0;
}

static int ask_kernel(const struct bpf_program *program, const struct target *target)
{
	struct process_request request = { .tgid = target->pid };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &request, .ctx_size_in = sizeof(request));
	int err = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	return err ?: (int)opts.retval;
}

int collector__clear_traces(struct collector *collector, size_t i)
{
	struct target *target = collector->target[i];
	int err = ask_kernel(collector->bpf->progs.clear_traces, target);

	if (!err)
		target__forget_traces(target);
	return err;
}

int collector__reset_peak(struct collector *collector, size_t i)
{
	return ask_kernel(collector->bpf->progs.reset_peak, collector->target[i]);
}

static void refresh(struct collector *collector, struct target *target)
{
	struct process books;

	if (!read_books(collector, target, &books) && books.exec_cnt != target->exec_cnt) {
		target->exec_cnt = books.exec_cnt;
		target__forget_image(target);
		if (books.thread_exec_cnt != target->thread_exec_cnt) {
			target->thread_exec_cnt = books.thread_exec_cnt;
			probes_close(&target->probes);
			target->object_probed_nr = 0;
		}
	}
	target->has_ended = target_has_ended(target);
	if (target->has_ended || target__refresh(target, NULL))
		return;
	if (target->mappings.replaced_nr != target->replaced_nr) {
		target->replaced_nr = target->mappings.replaced_nr;
		__atomic_fetch_add(&collector->bpf->bss->mapping_generation, 1, __ATOMIC_RELAXED);
	}
	probe_new_objects(collector, target, NULL);
}

void collector__refresh(struct collector *collector)
{
	for (size_t i = 0; i < collector->target_nr; i++)
		refresh(collector, collector->target[i]);
}

static int read_all_books(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->target_nr && !err; i++)
		err = read_books(collector, collector->target[i], &collector->books[i]);
	return err;
}

/* What processes left behind that have called exec since. */
static int sweep(struct collector *collector)
{
	uint64_t *image = calloc(collector->target_nr, sizeof(*image));
	int err;

	if (!image)
		return -ENOMEM;
	for (size_t i = 0; i < collector->target_nr; i++)
		image[i] = collector->books[i].image;
	err = drain_sweep(&collector->drain, bpf_map__fd(collector->bpf->maps.blocks), image,
			  collector->target_nr);
	free(image);
	return err;
}

static bool any_has_execed(const struct collector *collector)
{
	for (size_t i = 0; i < collector->target_nr; i++)
		if (collector->books[i].exec_cnt != collector->target[i]->exec_cnt)
			return true;
	return false;
}

/* Before anything is taken out of the map: what is taken out counts from then on as retired. */
static int resolve_all(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->target_nr && !err; i++)
		err = resolve_tracebacks(collector->target[i], &collector->drain,
					 collector->books[i].image);
	return err;
}

static int retire(void *what, uint64_t id, const struct traceback *traceback)
{
	struct collector *collector = what;

	for (size_t i = 0; i < collector->target_nr; i++)
		if (collector->books[i].image == traceback->image)
			return resolve_retired(collector->target[i], id, traceback);
	return 0; /* of an image that is gone */
}

/* Stacks that hold nothing any more make room once half of it is taken. */
static int trim_tracebacks(struct collector *collector)
{
	const struct bpf_map *map = collector->bpf->maps.tracebacks;

	if (collector->drain.tracebacks.nr < bpf_map__max_entries(map) / 2)
		return 0;
	return drain_trim_tracebacks(&collector->drain, bpf_map__fd(map), retire, collector);
}

#define DRAIN_TRIES 3

/*
 * What the processes map is read before, so that the names are of before, and after, so that
 * nothing recorded meanwhile lacks one; if one has called exec in between, all is read again.
 */
int collector__drain(struct collector *collector, struct reason *why)
{
	const struct allocsnap_bpf *bpf = collector->bpf;
	int err = 0;

	for (int i = 0; i < DRAIN_TRIES && !err; i++) {
		collector__refresh(collector);
		collector->occasion = (struct occasion){
			.wall_ns = collector_now_ns(CLOCK_REALTIME),
			.monotonic_ns = collector_now_ns(CLOCK_MONOTONIC),
			.traceback_limit = collector->traceback_limit,
			.bpf = bpf,
		};
		err = read_all_books(collector);
		if (!err)
			err = drain_read(&collector->drain, bpf_map__fd(bpf->maps.blocks),
					 bpf_map__fd(bpf->maps.tracebacks),
					 bpf_map__value_size(bpf->maps.tracebacks));
		collector__refresh(collector);
		if (!any_has_execed(collector))
			break;
	}
	if (!err)
		err = resolve_all(collector);
	if (!err)
		err = sweep(collector);
	if (!err)
		err = trim_tracebacks(collector);
	return err ? reason_set(why, err, "cannot read the maps: %s", strerror(-err)) : 0;
}

static int save(const struct target *target, struct snapshot_builder *builder, const char *dir,
		uint64_t wall_ns, char **ret_path, struct reason *why)
{
	struct utsname machine;
	char time_text[32];
	char *folder;
	int err;

	uname(&machine);
	folder = store_folder(dir, machine.nodename, target->comm, target->pid, why);
	if (!folder)
		return -errno;
	err = snapshot_builder__save(builder, folder, format_time_compact(time_text, wall_ns),
				     ret_path, why);
	free(folder);
	return err;
}

int collector__save(struct collector *collector, size_t i, const char *dir, char **ret_path,
		    struct reason *why)
{
	struct snapshot_builder *builder;
	int err = assemble(collector->target[i], &collector->books[i], &collector->drain,
			   &collector->occasion, collector->symbols, &builder);

	if (err)
		return reason_set(why, err, "cannot make the snapshot of process %d: %s",
				  collector->target[i]->pid, strerror(-err));
	err = save(collector->target[i], builder, dir, collector->occasion.wall_ns, ret_path, why);
	snapshot_builder__free(builder);
	return err;
}
