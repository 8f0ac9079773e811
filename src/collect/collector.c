// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/collector.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/assemble.h"
#include "collect/bpf.h"
#include "collect/describe.h"
#include "collect/hazards.h"
#include "collect/launch.h"
#include "collect/load.h"
#include "collect/resolve.h"
#include "collect/store.h"
#include "collect/target.h"
#include "snapshot.h"
#include "symbols/symbols.h"

struct collector {
	struct allocsnap_bpf *bpf;
	struct symbols *symbols;
	uint32_t traceback_limit;
	struct target **target;
	size_t target_nr, target_alloc;
	char **note; /* not taken yet */
	size_t note_nr, note_alloc;

	struct process *books; /* of target[i], as the last drain found them */
	size_t books_alloc;
	struct drain drain;
	struct occasion occasion;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int processes_fd(const struct collector *collector)
{
	return bpf_map__fd(collector->bpf->maps.processes);
}

/* Each mapped file is kept open, so that it can be named when the process is gone. */
static void allow_many_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

struct collector *collector__open(const struct collector_options *options, struct reason *why)
{
	struct collector *collector = calloc(1, sizeof(*collector));
	int err = collector ? 0 : -ENOMEM;

	allow_many_files();
	if (!err) {
		collector->traceback_limit = options->traceback_limit ?: TRACEBACK_LIMIT_DEFAULT;
		collector->symbols = symbols__new();
		collector->bpf = load_bpf(options, collector->traceback_limit, why);
		if (!collector->bpf || !collector->symbols)
			err = -errno;
	}
	if (!err)
		return collector;
	collector__close(collector);
	errno = -err;
	return NULL;
}

static void target_close(struct collector *collector, struct target *target)
{
	uint32_t tgid = target->pid;

	bpf_map_delete_elem(processes_fd(collector), &tgid);
	probes_close(&target->probes);
	target__free(target);
}

void collector__close(struct collector *collector)
{
	if (!collector)
		return;
	for (size_t i = 0; i < collector->target_nr; i++)
		target_close(collector, collector->target[i]);
	for (size_t i = 0; i < collector->note_nr; i++)
		free(collector->note[i]);
	free(collector->note);
	free(collector->target);
	free(collector->books);
	drain_release(&collector->drain);
	symbols__free(collector->symbols);
	allocsnap_bpf__destroy(collector->bpf);
	free(collector);
}

/* ---- what return probes could do ---- */

static void add_note(struct collector *collector, const struct reason *what)
{
	char *note = strdup(what->text);

	if (note && array_push(collector, note, note))
		free(note);
}

char *collector__next_note(struct collector *collector)
{
	char *note;

	if (!collector->note_nr)
		return NULL;
	note = collector->note[0];
	memmove(collector->note, collector->note + 1,
		--collector->note_nr * sizeof(*collector->note));
	return note;
}

/* 1 with a line, 0, or a negative errno. Of the objects, those that were not looked at yet. */
static int find_hazard(const struct collector *collector, const struct target *target,
		       struct reason *ret)
{
	const struct mappings *mappings = &target->mappings;
	int found;

	if (getenv("ALLOCSNAP_NO_UPROBE_RETURN")) {
		reason_set(ret, 0, "ALLOCSNAP_NO_UPROBE_RETURN is set");
		return 1;
	}
	found = hazard_of_threads(collector->bpf, target->pid, ret);
	for (size_t i = target->object_probed_nr; i < mappings->object_nr && !found; i++)
		found = hazard_of_object(&mappings->object[i], ret);
	return found;
}

static void note_switch(struct collector *collector, const struct target *target,
			const struct reason *hazard, const struct reason *dropped)
{
	struct reason note;

	reason_set(&note, 0,
		   "process %d (%s) is recorded without return probes, which is slower: %s; the kernel could end it at one, as it has no uprobe sessions%s%s",
		   target->pid, target->comm, hazard->text, *dropped->text ? "; " : "",
		   dropped->text);
	add_note(collector, &note);
}

/* Before any of a process's objects is probed, and again while it is recorded. */
static int avoid_hazards(struct collector *collector, struct target *target)
{
	struct reason hazard = {}, dropped = {};
	int found, err;

	if (probes_have_sessions(collector->bpf) || target->probes.by_ret)
		return 0;
	found = find_hazard(collector, target, &hazard);
	if (found <= 0)
		return found;
	err = probes_switch(&target->probes, collector->bpf, target->pid, &target->mappings,
			    &dropped);
	if (err)
		reason_set(&dropped, err, "its calls are recorded no longer: %s", strerror(-err));
	if (err != -ESRCH)
		note_switch(collector, target, &hazard, &dropped);
	return err;
}

/* Looks for allocators in the objects that have not been looked at yet. */
static int probe_new_objects(struct collector *collector, struct target *target,
			     struct reason *why)
{
	struct mappings *mappings = &target->mappings;
	int err = avoid_hazards(collector, target);

	if (err)
		reason_set(why, err, "cannot probe process %d: %s", target->pid, strerror(-err));
	for (; target->object_probed_nr < mappings->object_nr && !err; target->object_probed_nr++)
		err = probes_attach(&target->probes, collector->bpf, target->pid,
				    &mappings->object[target->object_probed_nr],
				    target->object_probed_nr, why);
	return err;
}

static int say_nothing_found(const struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->object_nr; i++)
		if (mappings->object[i].unreadable)
			return reason_set(why, -ENOENT,
					  "process %d (%s): found no allocator function; cannot read %s: %s",
					  target->pid, target->comm, mappings->object[i].path,
					  mappings->object[i].unreadable);
	if (target->probes.failed_nr && why && *why->text)
		return -ENOENT;
	return reason_set(why, -ENOENT,
			  "process %d (%s): no file that it maps defines malloc or another known allocator function; a static program without symbols cannot be traced",
			  target->pid, target->comm);
}

static bool has_ended(const struct target *target)
{
	struct pollfd end = { .fd = target->pidfd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

static int write_books(struct collector *collector, const struct target *target,
		       const struct process *books, struct reason *why)
{
	uint32_t tgid = target->pid;
	int err = bpf_map_update_elem(processes_fd(collector), &tgid, books, BPF_ANY);

	return err ? reason_set(why, err, "cannot record process %d: %s", target->pid,
				err == -E2BIG ? "too many processes" : strerror(-err)) : 0;
}

/*
 * The books are there, closed, while probes are placed one after another, so that the probes
 * note the calls in flight; a block that only some of the probes could follow must not enter.
 */
static int start(struct collector *collector, struct target *target, struct reason *why)
{
	struct process books = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
	};
	int err = write_books(collector, target, &books, why);

	if (!err)
		err = probe_new_objects(collector, target, why);
	if (!err && !probes_see_allocations(&target->probes))
		err = say_nothing_found(target, why);
	if (err)
		return err;
	books.is_open = 1;
	books.by_ret = target->probes.by_ret;
	target->started_ns = now_ns(CLOCK_MONOTONIC);
	err = write_books(collector, target, &books, why);
	if (!err && has_ended(target)) /* its end may have been written over */
		err = reason_set(why, -ESRCH, "process %d ended while it was being probed",
				 target->pid);
	return err;
}

static bool is_recorded(const struct collector *collector, pid_t pid)
{
	for (size_t i = 0; i < collector->target_nr; i++)
		if (collector->target[i]->pid == pid)
			return true;
	return false;
}

int collector__add(struct collector *collector, pid_t id, struct reason *why)
{
	struct target *target = target__open(id, why);
	int err;

	if (!target)
		return -errno;
	if (is_recorded(collector, target->pid)) {
		target__free(target);
		return 0;
	}
	err = array_reserve(&collector->books, &collector->books_alloc, collector->target_nr + 1);
	if (!err)
		err = start(collector, target, why);
	if (!err)
		err = array_push(collector, target, target);
	if (err)
		target_close(collector, target);
	return err;
}

/* A target that is held while it is being started. */
struct held {
	struct collector *collector;
	struct target *target;
	int err;
	struct reason *why;
};

static void probe_mapped(void *what)
{
	struct held *held = what;

	if (!held->err)
		held->err = target__refresh(held->target, held->why);
	if (!held->err)
		held->err = probe_new_objects(held->collector, held->target, held->why);
}

/* No call can be in flight: the books are open from the start. */
static int start_held(struct held *held)
{
	struct collector *collector = held->collector;
	struct target *target = held->target;
	struct process books = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
		.is_open = 1,
	};

	target->started_ns = now_ns(CLOCK_MONOTONIC);
	held->err = write_books(collector, target, &books, held->why);
	probe_mapped(held);
	launch_release(target->pid, &target->mappings, probe_mapped, held);
	if (!held->err && !probes_see_allocations(&target->probes))
		held->err = say_nothing_found(target, held->why);
	return held->err;
}

int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid,
		   struct reason *why)
{
	struct held held = { .collector = collector, .why = why };
	pid_t pid = launch_start(argv, why);
	int err;

	if (pid < 0)
		return pid;
	*ret_pid = pid;
	held.target = target__open(pid, why);
	if (!held.target) {
		err = -errno;
		launch_release(pid, &(struct mappings){}, NULL, NULL);
		return err;
	}
	err = array_reserve(&collector->books, &collector->books_alloc, collector->target_nr + 1);
	if (!err)
		err = start_held(&held);
	if (!err)
		err = array_push(collector, target, held.target);
	if (err)
		target_close(collector, held.target);
	return err;
}

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
	target->has_ended = has_ended(target);
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
			.wall_ns = now_ns(CLOCK_REALTIME),
			.monotonic_ns = now_ns(CLOCK_MONOTONIC),
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
