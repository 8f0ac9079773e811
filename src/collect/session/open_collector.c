// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/session/session.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/privileges.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/files/unused_files.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/skeleton.h"
#include "process/open_file.h"
#include "collect/recording/load.h"
#include "helper/helper.h"
#include "sandbox/client.h"
#include "symbols/symbols.h"

/* The loader keeps each mapped file open, so that it has names when the process is gone. */
static void allow_many_files(struct rlimit *ret_before)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	*ret_before = limit;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int watch_fd(struct event_sources *events, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(events->fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* The payload is ignored: the event only wakes the loader. */
static int ignore_doorbell_payload(void *what, void *data, size_t bytes)
{
	(void)what, (void)data, (void)bytes;
	return 0;
}

static int open_timer(struct event_sources *events, struct budgets *budgets)
{
	budgets->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return budgets->timer_fd < 0 ? -errno : watch_fd(events, budgets->timer_fd);
}

static int open_events(struct collector *collector, struct reason *why)
{
	int err;

	collector->events.fd = epoll_create1(EPOLL_CLOEXEC);
	if (collector->events.fd < 0)
		return -errno;
	collector->events.doorbell =
		ring_buffer__new(bpf_map__fd(collector->bpf->maps.doorbell), ignore_doorbell_payload, NULL, NULL);
	if (!collector->events.doorbell)
		return -errno;
	err = watch_fd(&collector->events, ring_buffer__epoll_fd(collector->events.doorbell));
	if (!err && collector->helpers.link_holder)
		err = watch_fd(&collector->events, link_holder__helper(collector->helpers.link_holder)->end_fd) ?:
			      watch_fd(&collector->events, link_holder__news_fd(collector->helpers.link_holder));
	else if (!err)
		err = file_watch_open(&collector->files->written.watch) ?:
			      watch_fd(&collector->events, collector->files->written.watch.fd);
	err = err ?: watch_fd(&collector->events, sandbox__helper(collector->helpers.sandbox)->end_fd) ?:
			     watch_fd(&collector->events, file_opener__helper(collector->helpers.opener)->end_fd);
	err = err ?: open_timer(&collector->events, &collector->limits->budgets);
	if (err)
		return err;
	collector->events.mappings = mapping_events__open(why);
	return collector->events.mappings ? 0 : -errno;
}

/*
 * Processes that the loader has not looked at hit the shared probes. So without uprobe sessions only probes that
 * cannot harm any process are used: probes on `ret` instead of return probes.
 */
static void prepare_to_follow(struct collector *collector)
{
	collector->shared.probes.by_ret = collector->options.no_return_probes;
	if (collector->options.no_return_probes || probes_have_sessions(collector->bpf))
		return;
	collector->shared.probes.by_ret = true;
	notes_add(
		&collector->notes,
		"children are followed without return probes, which is slower: the kernel could end other processes at one, as it has no uprobe sessions");
}

/* Measures what traps cost, if there are probes. If that fails, recording goes on, unless there is a budget. */
static int learn_costs(struct collector *collector, struct reason *ret_why)
{
	struct reason why = {};
	int err;

	if (collector->options.domains & COLLECTOR_PAGES) /* page faults are no traps of probes, and are not counted */
		return 0;
	err = calibrate_traps(probe_way_of(collector->bpf), collector->options.system_wide, &collector->shared.detacher,
				  &collector->limits->budgets.costs, &why);

	if (!err)
		return 0;
	if (collector->options.max_overhead)
		return reason_set(ret_why, err, "cannot limit the overhead: %s", why.text);
	notes_add(&collector->notes, "%s", why.text);
	return 0;
}

/* The link holder holds multi-probe links only. */
static void use_link_holder(const struct allocsnap_bpf *bpf, struct helpers *helpers, struct shared_probes *shared)
{
	if (!probe_way_of(bpf)->is_alone) {
		shared->probes.link_holder = helpers->link_holder;
		return;
	}
	link_holder__close(helpers->link_holder);
	helpers->link_holder = NULL;
}

static int check_collector_options(const struct collector_options *options, struct reason *why)
{
	if (options->traceback_limit > COLLECTOR_TRACEBACK_LIMIT_MAX)
		return reason_set(why, -EINVAL, "the number of frames must be in range [1; %d]",
				  COLLECTOR_TRACEBACK_LIMIT_MAX);
	if (options->sample_bytes > COLLECTOR_SAMPLE_BYTES_MOST)
		return reason_set(why, -EINVAL, "samples can be 64 GiB apart at most");
	if (options->max_overhead > COLLECTOR_MAX_OVERHEAD_MOST)
		return reason_set(why, -EINVAL, "the budget can be %u percent at most", COLLECTOR_MAX_OVERHEAD_MOST);
	if (options->max_size && options->min_size > options->max_size)
		return reason_set(why, -EINVAL, "the least size is above the most");
	return 0;
}

static uint64_t milliseconds_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtoull(text, NULL, 10) * 1000000 : 0;
}

/*
 * ALLOCSNAP_PAUSE_EVERY_MS=N: pauses or resumes every N ms, whatever the cost. ALLOCSNAP_RATE_EVERY_MS=N: takes the
 * next sampling rate. ALLOCSNAP_LINKS_EVERY_MS=N: changes between shared links and links of each process.
 */
static void complete_options(struct collector_options *options, struct budgets *budgets, struct own_links *own_links)
{
	options->follow_forks |= options->system_wide;
	options->traceback_limit = options->traceback_limit ?: TRACEBACK_LIMIT_DEFAULT;
	budgets->pause_every_ns = milliseconds_of("ALLOCSNAP_PAUSE_EVERY_MS");
	budgets->rate_every_ns = milliseconds_of("ALLOCSNAP_RATE_EVERY_MS");
	own_links->change_every_ns = milliseconds_of("ALLOCSNAP_LINKS_EVERY_MS");
	if (budgets->pause_every_ns || budgets->rate_every_ns || own_links->change_every_ns)
		options->max_overhead = 100;
}

#define TABLES_SPARE 256 /* of the kernel's map of files: reserved for files that the kernel side asks for */

static void share_files(const struct allocsnap_bpf *bpf, struct objects *objects,
			const struct collector_options *options)
{
	uint32_t tables = bpf_map__max_entries(bpf->maps.unwind_objects) - TABLES_SPARE;
	struct rlimit limit = { .rlim_cur = tables };

	getrlimit(RLIMIT_NOFILE, &limit);
	objects->user_seed = bpf->rodata->settings.hash_seed;
	if (options->follow_forks)
		objects->files_most = limit.rlim_cur / 2 < tables ? limit.rlim_cur / 2 : tables;
}

/* Starts the helpers, which are forked: before BPF maps are in our memory and before there is a thread. */
static int open_files(struct collector *collector, struct reason *why)
{
	struct objects *objects = &collector->objects;
	int err = helpers_open(&collector->helpers, collector->options.injects, why);

	if (err)
		return err;
	objects->sandbox = collector->helpers.sandbox;
	objects->opener = collector->helpers.opener;
	collector->symbols = symbols__new(sandbox__source(collector->helpers.sandbox));
	return collector->symbols ? 0 : -ENOMEM;
}

static int open_kernel_side(struct collector *collector, struct reason *why)
{
	const struct collector_options *options = &collector->options;
	int err;

	collector->bpf = load_bpf(options, sources_configure, collector, why);
	if (!collector->bpf)
		return -errno;
	share_files(collector->bpf, &collector->objects, &collector->options);
	collector->objects.cgroups_root = collector->bpf->bss->own_cgroups_root;
	use_link_holder(collector->bpf, &collector->helpers, &collector->shared);
	collector->shared.probes.late = &collector->late;
	file_opener__use(collector->helpers.opener, bpf_program__fd(collector->bpf->progs.file_system_of));
	err = targets_open(&collector->targets, collector->bpf) ?: learn_costs(collector, why);
	if (err)
		return err;
	if (options->unwinder != COLLECTOR_UNWIND_FP)
		collector->unwind_tables.bpf = collector->bpf;
	return free_filter_open(&collector->pass.free_filter, collector->bpf->maps.free_filter) ?:
		       nursery_open(&collector->pass.nursery, collector->bpf->maps.nursery);
}

static int open_all(struct collector *collector, struct reason *why)
{
	int err;

	err = check_collector_options(&collector->options, why) ?: sources_choose(collector, why);
	if (err)
		return err;
	complete_options(&collector->options, &collector->limits->budgets, &collector->limits->own_links);
	err = open_files(collector, why) ?: open_kernel_side(collector, why);
	err = err ?: open_events(collector, why) ?: sources_open(collector, why);
	collector->objects.domains = collector->options.domains;
	if (!err)
		err = budgets_begin(collector); /* before any process can spend */
	if (!err && collector->options.follow_forks)
		prepare_to_follow(collector);
	return err ?: probe_host_allocators(collector);
}

/*
 * A process often sets up such a filter (seccomp) after its recording began. So the loader does not check whether
 * it has one now.
 */
static void decide_return_probes(struct collector *collector)
{
	int err = trial_return_call();

	collector->shared.has_return_calls = err != -ENOSYS;
	if (!err || err == -ENOSYS || collector->options.no_return_probes)
		return;
	collector->options.no_return_probes = true;
	notes_add(
		&collector->notes,
		"calls are recorded without return probes, which is slower: this kernel lets filters of system calls (seccomp) end a process at one");
}

struct collector *collector_new(const struct collector_options *options)
{
	struct {
		struct collector collector;
		struct file_state files;
		struct source_state sources;
		struct limit_state limits;
	} *all = calloc(1, sizeof(*all));
	struct collector *collector = &all->collector;

	if (!all)
		return NULL;
	collector->files = &all->files;
	collector->sources = &all->sources;
	collector->limits = &all->limits;
	collector->events.fd = collector->limits->budgets.timer_fd = collector->files->written.watch.fd = -1;
	if (options)
		collector->options = *options;
	return collector;
}

/* The data that the caller's options point at is only valid until collector__open() returns. */
static void forget_pointers(struct collector_options *options)
{
	options->rule = NULL;
	options->probe = NULL;
	options->rule_nr = options->probe_nr = 0;
}

struct collector *collector__open(const struct collector_options *options, struct reason *why)
{
	struct collector *collector = collector_new(options);
	int err = collector ? 0 : -ENOMEM;

	if (!err) {
		allow_many_files(&collector->files_before);
		decide_return_probes(collector);
		err = mounts_check(why) ?: open_all(collector, why);
	}
	if (!err) {
		forget_pointers(&collector->options);
		return collector;
	}
	collector__close(collector);
	errno = -err;
	return NULL;
}

void collector__close(struct collector *collector)
{
	if (!collector)
		return;
	while (collector->targets.target_nr)
		remove_target(collector, collector->targets.target_nr - 1);
	probes_close(&collector->shared.probes);
	notes_release(&collector->notes);
	sources_close(collector);
	for (size_t i = 0; i < collector->files->early.program_nr; i++)
		free(collector->files->early.program[i]);
	free(collector->files->early.program);
	targets_release(&collector->targets);
	free(collector->pass.stale.id);
	cut_release(&collector->pass.cut);
	drain_release(&collector->pass.drain);
	free_filter_close(&collector->pass.free_filter);
	nursery_close(&collector->pass.nursery);
	symbols__free(collector->symbols);
	sandbox__close(collector->helpers.sandbox);
	file_opener__free(collector->helpers.opener);
	mapping_events__close(collector->events.mappings);
	ring_buffer__free(collector->events.doorbell);
	if (collector->events.fd >= 0)
		close(collector->events.fd);
	late_programs_release(&collector->late);
	skeleton_close(collector->bpf);
	detach_end(&collector->shared.detacher);
	link_holder__close(collector->helpers.link_holder);
	pausing_release(&collector->limits->budgets.pausing);
	cpu_quotas_release(&collector->limits->budgets.quotas);
	if (collector->limits->budgets.timer_fd >= 0)
		close(collector->limits->budgets.timer_fd);
	release_written_files(&collector->files->written);
	unwind_tables_release(&collector->unwind_tables);
	objects_release(&collector->objects);
	free(collector);
}

bool collector__has_events(const struct collector *collector)
{
	return probe_way_of(collector->bpf)->is_alone;
}

bool collector__loads_later(const struct collector *collector)
{
	return sources_load_later(collector);
}

/* ---- traced processes ---- */

/* In system-wide mode there are many targets, and the kernel side reports their ends, too: pidfds are not watched. */
int add_target(struct collector *collector, struct target *target)
{
	int err = 0;

	if (target->identity.pidfd >= 0 && !collector->options.system_wide)
		err = watch_fd(&collector->events, target->identity.pidfd);
	target->losses.missed_at_start = mapping_events__missed(collector->events.mappings);
	return err ?: targets_add(&collector->targets, target);
}

static void add_target_to_gone(struct totals *totals, struct pausing *pausing, const struct target *target)
{
	pausing->gone.cpu_ns += target->now.cost.cpu_ns;
	pausing->gone.cost_ns += target->now.cost.cost_ns;
	totals->gone.cpu_ns += target->now.cost.cpu_ns;
	totals->gone.cost_ns += target->now.cost.cost_ns;
	totals->gone.processes++;
	gone_add_target(&totals->gone, target);
}

void close_target(struct collector *collector, struct target *target)
{
	sources_end(collector, target);
	targets_close(&collector->targets, target);
}

/* The threads of an ended process run no program, so nothing has to wait until its links are gone. */
void remove_target(struct collector *collector, size_t i)
{
	struct target *target = collector->targets.target[i];

	if (target->life.has_ended) {
		probes_end(&target->probes.own, &collector->shared.detacher);
		probes_end(&target->probes.beside, &collector->shared.detacher);
	}
	add_target_to_gone(&collector->totals, &collector->limits->budgets.pausing, target);
	close_target(collector, targets_take_out(&collector->targets, i));
}

/* Closes the shared probes if no target is left, after a look for a child that was just forked. */
static void close_shared_probes(struct collector *collector)
{
	if (collector->options.follow_forks)
		collector_refresh_all(collector);
	if (!collector->targets.target_nr)
		probes_close(&collector->shared.probes);
}

void collector__forget_view(struct collector *collector, size_t i)
{
	remove_target(collector, i);
	if (!collector->targets.target_nr && !collector->options.system_wide)
		close_shared_probes(collector);
}

/* A pass needs many times the memory that stays in use. Returns the free memory to the kernel until the next pass. */
static void give_back_memory(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void collector__end_pass(struct collector *collector)
{
	for (size_t i = collector->targets.target_nr; i-- > 0;) {
		struct target *target = collector->targets.target[i];
		bool is_waiting =
			target->snapshots.is_final && target->snapshots.is_unsaved && !target->now.account.memory_of;

		target->snapshots.is_unsaved = false;
		if (target->snapshots.is_final && !is_waiting)
			collector__forget_view(collector, i);
	}
	give_back_memory();
}

void collector__stop(struct collector *collector, pid_t pid)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (collector->targets.target[i]->identity.pid == pid) {
			collector__forget_view(collector, i);
			return;
		}
}

char *collector__next_note(struct collector *collector)
{
	return notes_take(&collector->notes);
}

const char *collector__libbpf_version(void)
{
	return libbpf_version_string();
}
