// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/record_report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "record/retention/archive.h"
#include "base/reason.h"
#include "collect.h"
#include "record/metrics.h"

void report_line(char *text, size_t bytes, const struct collector *collector, uint64_t saved_nr,
		 uint64_t pass_ns)
{
	struct collector_health health;

	collector__get_health(collector, &health);
	snprintf(text, bytes,
		 "%" PRIu64 " snapshot%s in %.2f s; %" PRIu64 " process%s, %" PRIu64
		 " ended with little, %" PRIu64 " before they were probed, %" PRIu64
		 " not recorded; bystanders: %" PRIu64 " trap%s, %.2f s",
		 saved_nr, saved_nr == 1 ? "" : "s", pass_ns / 1e9, health.processes,
		 health.processes == 1 ? "" : "es", health.processes_small, health.processes_unprobed,
		 health.processes_dropped, health.bystander_traps, health.bystander_traps == 1 ? "" : "s",
		 health.bystander_cost_ns / 1e9);
}

/* ---- ourselves ---- */

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

/* Returns 0 if it cannot be read. */
static uint64_t own_rss_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	uint64_t pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
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
	metrics->own_rss_bytes = own_rss_bytes();
	metrics->kernel_bytes = collector__get_tracemalloc_memory(collector);
	metrics->open_files = count_open_files();
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur != RLIM_INFINITY)
		metrics->open_files_most = files.rlim_cur;
}

/* ---- what is recorded ---- */

static void describe_archive(const struct archive *archive, struct metrics *metrics)
{
	struct archive_totals totals;

	archive__get_totals(archive, &totals);
	metrics->snapshots_failed = totals.lost;
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

int report_metrics(const struct record_report *report, const struct collector *collector,
		   const struct archive *archive, const char *path, struct reason *why)
{
	struct collector_loss loss[LOSSES_MAX];
	struct metrics_named named[LOSSES_MAX];
	struct collector_health health;
	size_t process_nr, loss_nr = collector__get_losses(collector, loss, LOSSES_MAX);
	struct metrics_process *process = describe_processes(collector, &process_nr);
	int err;

	if (!process)
		return reason_set(why, -ENOMEM, "out of memory");
	collector__get_health(collector, &health);
	for (size_t i = 0; i < loss_nr; i++)
		named[i] = (struct metrics_named){ loss[i].name, loss[i].value };

	const struct metrics_named traps[] = {
		{ "entry", health.bystander_entry_traps },
		{ "stepped", health.bystander_stepped_traps },
		{ "return", health.bystander_return_traps },
	};
	struct metrics metrics = {
		.began_ns = report->began_wall_ns,
		.last_pass_ns = report->last_pass_wall_ns,
		.drain_nr = report->drain_nr,
		.drain_ns = report->drain_ns,
		.snapshots_written = report->saved_nr,
		.disk_most_bytes = report->max_disk_bytes,
		.loss = named,
		.loss_nr = loss_nr,
		.bystander_traps = traps,
		.bystander_traps_nr = 3,
		.process = process,
		.process_nr = process_nr,
	};

	describe_health(&health, &metrics);
	describe_archive(archive, &metrics);
	describe_ourselves(collector, &metrics);
	err = metrics__write(path, &metrics, why);
	free(process);
	return err;
}
