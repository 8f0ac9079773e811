// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "collect.h"
#include "record/metrics.h"
#include "record/recorder.h"
#include "snapshot.h"

/* The most age of the metrics file while nothing else happens. */
#define METRICS_EVERY_NS (15 * SECOND_NS)

struct record {
	struct recorder recorder;
	const struct record_options *options;
	struct archive *archive;
	uint64_t began_wall_ns;
	uint64_t metrics_ns; /* when they were written */
	uint64_t told_cost_ns, told_ns; /* at the begin of the pass of the last line */
};

/* ---- metrics: ourselves ---- */

static uint64_t timeval_ns(const struct timeval *time)
{
	return time->tv_sec * 1000000000ULL + time->tv_usec * 1000ULL;
}

static uint64_t own_cpu_ns(void)
{
	struct rusage self = {}, children = {};

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return timeval_ns(&self.ru_utime) + timeval_ns(&self.ru_stime) + timeval_ns(&children.ru_utime) +
	       timeval_ns(&children.ru_stime);
}

static uint64_t count_open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint64_t nr = 0;

	while (folder && readdir(folder))
		nr++;
	if (folder)
		closedir(folder);
	return nr > 3 ? nr - 3 : 0; /* . and .. and the folder itself */
}

static void describe_ourselves(const struct collector *collector, struct metrics *metrics)
{
	struct rlimit files = {};

	metrics->own_cpu_ns = own_cpu_ns();
	metrics->own_rss_bytes = process_rss_bytes(getpid());
	metrics->kernel_bytes = collector__get_tracemalloc_memory(collector);
	metrics->open_files = count_open_files();
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur != RLIM_INFINITY)
		metrics->open_files_most = files.rlim_cur;
}

/* ---- metrics: what is recorded ---- */

static void describe_archive(const struct archive *archive, struct metrics *metrics)
{
	struct archive_totals totals;

	archive__get_totals(archive, &totals);
	metrics->snapshots_removed = totals.removed;
	metrics->disk_bytes = totals.bytes;
}

static void describe_health(const struct collector_health *health, struct metrics *metrics)
{
	metrics->process_now_nr = health->processes - health->processes_waiting;
	metrics->process_all_nr = health->processes_all;
	metrics->process_small_nr = health->processes_small;
	metrics->process_unprobed_nr = health->processes_unprobed;
	metrics->process_dropped_nr = health->processes_ever_dropped;
	metrics->allocations = health->allocations;
	metrics->frees = health->frees;
	metrics->cpu_ns = health->cpu_ns;
	metrics->cost_ns = health->cost_ns;
	metrics->bystander_ns = health->bystander_cost_ns;
}

/* Returns NULL if there is no memory. */
static struct metrics_process *describe_processes(const struct collector *collector, size_t *ret_nr)
{
	size_t all = collector__process_nr(collector), nr = 0;
	struct metrics_process *process = calloc(all + 1, sizeof(*process));

	for (size_t i = 0; i < all && process; i++) {
		struct process_view view;

		collector__view(collector, i, &view);
		if (view.has_ended || view.is_vforked)
			continue;
		process[nr++] = (struct metrics_process){
			.pid = view.pid,
			.comm = view.comm,
			.pod = view.pod_name,
			.namespace = view.pod_namespace,
			.container = view.container_name,
			.traced_bytes = view.memory.current_bytes,
			.traced_blocks = view.memory.current_blocks,
			.peak_bytes = view.memory.peak_bytes,
			.cpu_ns = view.cpu_ns,
			.cost_ns = view.cost_ns,
		};
	}
	*ret_nr = nr;
	return process;
}

#define LOSSES_MAX 128

/* Returns 0 or a negative errno, with a line in *why. */
static int record_write_metrics(const struct record *record, struct reason *why)
{
	const struct recorder *recorder = &record->recorder;
	struct collector_loss loss[LOSSES_MAX];
	struct metrics_named named[LOSSES_MAX];
	struct collector_health health;
	size_t process_nr, loss_nr = collector__get_losses(recorder->collector, loss, LOSSES_MAX);
	struct metrics_process *process = describe_processes(recorder->collector, &process_nr);
	int err;

	if (!process)
		return reason_set(why, -ENOMEM, "out of memory");
	collector__get_health(recorder->collector, &health);
	for (size_t i = 0; i < loss_nr; i++)
		named[i] = (struct metrics_named){ loss[i].name, loss[i].value };

	const struct metrics_named traps[] = {
		{ "entry", health.bystander_entry_traps },
		{ "stepped", health.bystander_stepped_traps },
		{ "return", health.bystander_return_traps },
	};
	struct metrics metrics = {
		.began_ns = record->began_wall_ns,
		.last_pass_ns = recorder->last_pass_wall_ns,
		.drain_nr = recorder->drain_nr,
		.drain_ns = recorder->drain_ns,
		.snapshots_written = recorder->saved_nr,
		.snapshots_failed = recorder->lost_nr,
		.disk_most_bytes = record->options->bounds.max_disk_bytes,
		.loss = named,
		.loss_nr = loss_nr,
		.bystander_traps = traps,
		.bystander_traps_nr = ARRAY_SIZE(traps),
		.process = process,
		.process_nr = process_nr,
	};

	describe_health(&health, &metrics);
	describe_archive(record->archive, &metrics);
	describe_ourselves(recorder->collector, &metrics);
	err = metrics__write(record->options->metrics, &metrics, why);
	free(process);
	return err;
}

/* ---- reports ---- */

/* Logs an error only when it begins: the file is written again after each pass. */
static void write_metrics(struct record *record)
{
	struct recorder *recorder = &record->recorder;
	struct reason why = {};
	int err = record->options->metrics ? record_write_metrics(record, &why) : 0;

	if (err && !(recorder->trouble & TROUBLE_METRICS))
		log_failure("%s", why.text);
	recorder_set_trouble(recorder, TROUBLE_METRICS, err);
	record->metrics_ns = monotonic_now_ns();
}

static void record_tick(void *record_)
{
	struct record *record = record_;

	if (monotonic_now_ns() >= record->metrics_ns + METRICS_EVERY_NS)
		write_metrics(record);
}

#define COST_TEXT_MAX 128

/*
 * "recording used 5.2 % of one core (310 ms in 6.00 s); ", which the recorded processes pay, since the pass of the last
 * line; "" if that is not known. A pass reads the cost at its begin.
 */
static const char *format_pass_cost(char text[COST_TEXT_MAX], struct record *record, const struct pass *pass,
				    const struct collector_health *health)
{
	uint64_t now_ns = pass->begun_ns, since_ns = record->told_ns ?: record->recorder.started_ns;
	uint64_t cost_ns = health->cost_ns > record->told_cost_ns ? health->cost_ns - record->told_cost_ns : 0;
	char share[UNIT_TEXT_MAX], cost[UNIT_TEXT_MAX], wall[UNIT_TEXT_MAX];

	*text = '\0';
	if (health->cost_is_known)
		snprintf(text, COST_TEXT_MAX, "recording used %s (%s in %s); ",
			 format_core_share(share, cost_ns, now_ns - since_ns), format_seconds(cost, cost_ns),
			 format_seconds(wall, now_ns - since_ns));
	record->told_ns = now_ns;
	record->told_cost_ns = health->cost_ns;
	return text;
}

/* "processes that are not recorded paid 0.21 s for the probes so far (238397 traps); "; "" if none has. */
static const char *format_bystander_cost(char text[COST_TEXT_MAX], const struct collector_health *health)
{
	*text = '\0';
	if (health->bystander_traps)
		snprintf(text, COST_TEXT_MAX, "processes that are not recorded paid %.2f s for the probes so far (%" PRIu64
			 " trap%s); ", health->bystander_cost_ns / 1e9, health->bystander_traps,
			 health->bystander_traps == 1 ? "" : "s");
	return text;
}

static void add_pass_count(char *text, size_t bytes, uint64_t nr, const char *what)
{
	size_t len = strlen(text);

	if (nr)
		snprintf(text + len, bytes - len, "; %" PRIu64 " %s", nr, what);
}

/* Prints one line for a pass; none for an early pass without a snapshot. What others pay comes first. */
static void report_pass(struct record *record, const struct pass *pass)
{
	struct recorder *recorder = &record->recorder;
	struct collector_health health;
	char text[512], bystanders[COST_TEXT_MAX], cost[COST_TEXT_MAX];

	if (pass->trigger == TRIGGER_END && !pass->saved_nr)
		return;
	collector__get_health(recorder->collector, &health);
	snprintf(text, sizeof(text),
		 "%s%s%" PRIu64 " snapshot%s in %.2f s; %" PRIu64 " process%s",
		 format_bystander_cost(bystanders, &health), format_pass_cost(cost, record, pass, &health), pass->saved_nr,
		 pass->saved_nr == 1 ? "" : "s", (monotonic_now_ns() - pass->begun_ns) / 1e9, health.processes,
		 health.processes == 1 ? "" : "es");
	add_pass_count(text, sizeof(text), health.processes_small, "ended with little in them, without a snapshot");
	add_pass_count(text, sizeof(text), health.processes_unprobed, "ended before they were probed");
	add_pass_count(text, sizeof(text), health.processes_dropped, "not recorded, for lack of room");
	status_line_clear();
	puts(text);
	fflush(stdout);
	notify__send_status(&recorder->notify, text);
}

static void record_begin_pass(void *record_)
{
	struct record *record = record_;

	archive__make_room(record->archive);
}

static void record_end_pass(void *record_, const struct pass *pass)
{
	struct record *record = record_;

	archive__make_room(record->archive);
	recorder_log_written_again(&record->recorder, pass);
	report_pass(record, pass);
	write_metrics(record);
}

/* ---- snapshots ---- */

static void record_saved(void *record_, const struct snapshot_owner *owner, const char *path)
{
	struct record *record = record_;

	(void)owner;
	archive__add_saved(record->archive, path);
}

static void record_lost(void *record_, const struct snapshot_owner *owner, int err, const struct reason *why)
{
	struct record *record = record_;

	recorder_log_lost(&record->recorder, err, why);
	if (!owner->is_last)
		return;
	archive__note_lost_last(record->archive, owner->comm, owner->pid);
	record->recorder.status = EXIT_FAILED;
}

/* ---- begin and end ---- */

/* Runs while a pass or a look takes long. Says to the manager that we are alive, and returns whether a signal waits. */
static bool is_signalled(void *record_)
{
	struct recorder *recorder = &((struct record *)record_)->recorder;
	struct pollfd signals = { .fd = recorder->signal_fd, .events = POLLIN };

	notify__send_alive(&recorder->notify);
	return poll(&signals, 1, 0) > 0;
}

/* Starts with the processes that exist now. Later processes are recorded from their exec on. */
static void record_begin(struct record *record)
{
	struct recorder *recorder = &record->recorder;
	size_t nr;
	char text[64];

	recorder_admit(recorder);
	log_collector_notes(recorder->collector);
	nr = collector__process_nr(recorder->collector);
	snprintf(text, sizeof(text), "recording %zu process%s", nr, nr == 1 ? "" : "es");
	status_line_clear();
	puts(text);
	fflush(stdout);
	if (notify__send_ready(&recorder->notify, text))
		log_info("cannot notify the service manager that the recording has begun");
	write_metrics(record);
}

static void record_run(struct record *record)
{
	struct collector *collector = record->recorder.collector;

	if (notify__open(&record->recorder.notify))
		log_info("cannot notify the service manager: NOTIFY_SOCKET is no address");
	collector__set_between(collector, is_signalled, record);
	record_begin(record);
	recorder_run(&record->recorder);
	collector__set_between(collector, NULL, NULL);
	notify__close(&record->recorder.notify);
}

int record_system_wide(const struct record_options *options, struct collector *collector, int signal_fd)
{
	static const struct recorder_policy policy = {
		.is_hasty = true,
		.format_status = format_record_status,
		.begin_pass = record_begin_pass,
		.end_pass = record_end_pass,
		.tick = record_tick,
		.saved = record_saved,
		.lost = record_lost,
	};
	struct record record = {
		.options = options,
		.began_wall_ns = clock_now_ns(CLOCK_REALTIME),
	};
	struct reason why = { "out of memory" };

	recorder_init(&record.recorder, &options->recording, collector, signal_fd);
	record.recorder.policy = &policy;
	record.recorder.what = &record;
	record.recorder.batch = snapshot_batch__new();
	if (record.recorder.batch)
		record.archive = archive__open(options->recording.dir, &options->bounds, &why);
	if (record.archive)
		record_run(&record);
	else
		record.recorder.status = log_failure("%s", why.text);
	snapshot_batch__free(record.recorder.batch);
	archive__close(record.archive);
	return record.recorder.trouble ? EXIT_FAILED : record.recorder.status;
}
