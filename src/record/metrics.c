// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/names.h"
#include "base/array.h"
#include "base/file_replace.h"
#include "base/privileges.h"
#include "base/units.h"
#include "push/pusher.h"

#define LABEL_MAX 256
#define SECOND_NS 1000000000

enum unit {
	COUNT = 0,
	SECONDS, /* stored as nanoseconds */
};

enum presence {
	ALWAYS = 0,
	UNLESS_ZERO, /* 0 means: there is no such value */
};

/* Names follow OpenMetrics: a counter ends in _total, and a time is in seconds. */
struct row {
	const char *name, *type, *help;
	size_t offset;
	enum unit unit;
	enum presence presence;
};

/* ---- a sample ---- */

/* Puts a backslash before backslash and quote, as a label needs it. clean_text() leaves no newline. */
static const char *escape_label(char escaped[LABEL_MAX], const char *value)
{
	char clean[LABEL_MAX / 2];
	size_t nr = 0;

	for (const char *at = clean_text(clean, sizeof(clean), value); *at; at++) {
		if (*at == '\\' || *at == '"')
			escaped[nr++] = '\\';
		escaped[nr++] = *at;
	}
	escaped[nr] = '\0';
	return escaped;
}

static void put_sample_value(FILE *out, enum unit unit, uint64_t value)
{
	if (unit == SECONDS)
		fprintf(out, " %" PRIu64 ".%09" PRIu64 "\n", value / SECOND_NS, value % SECOND_NS);
	else
		fprintf(out, " %" PRIu64 "\n", value);
}

static void put_head(FILE *out, const struct row *row)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
}

static uint64_t value_of(const struct row *row, const void *from)
{
	return *(const uint64_t *)((const char *)from + row->offset);
}

/* ---- single numbers ---- */

#define FIELD(field) offsetof(struct metrics, field)

static const struct row numbers[] = {
	{ "allocsnap_start_time_seconds", "gauge", "When the recorder began.", FIELD(began_ns), SECONDS },
	{ "allocsnap_last_pass_time_seconds", "gauge", "The instant of the last snapshots.",
	  FIELD(last_pass_ns), SECONDS, UNLESS_ZERO },
	{ "allocsnap_processes", "gauge", "Processes that are recorded now.", FIELD(process_now_nr) },
	{ "allocsnap_processes_total", "counter", "Processes that were recorded.",
	  FIELD(process_all_nr) },
	{ "allocsnap_processes_small_total", "counter",
	  "Of these, processes that ended with less than --min-bytes and left no snapshot.",
	  FIELD(process_small_nr) },
	{ "allocsnap_processes_unprobed_total", "counter",
	  "Of these, processes that ended before their allocator was probed and left no snapshot.",
	  FIELD(process_unprobed_nr) },
	{ "allocsnap_processes_dropped_total", "counter",
	  "Processes that should have been recorded: there was no room.", FIELD(process_dropped_nr) },
	{ "allocsnap_allocations_total", "counter", "Blocks that were recorded.", FIELD(allocations) },
	{ "allocsnap_frees_total", "counter", "Of these, blocks that were freed.", FIELD(frees) },
	{ "allocsnap_recorded_cpu_seconds_total", "counter",
	  "CPU time of the recorded processes while they were recorded.", FIELD(cpu_ns), SECONDS },
	{ "allocsnap_recording_cpu_seconds_total", "counter",
	  "Of that, what recording took, by estimate.", FIELD(cost_ns), SECONDS },
	{ "allocsnap_bystander_cpu_seconds_total", "counter",
	  "CPU time of processes that are not recorded, taken by traps, by estimate.",
	  FIELD(bystander_ns), SECONDS },
	{ "allocsnap_snapshots_written_total", "counter", "Snapshot files that were written.",
	  FIELD(snapshots_written) },
	{ "allocsnap_snapshots_failed_total", "counter", "Snapshots that could not be written.",
	  FIELD(snapshots_failed) },
	{ "allocsnap_snapshots_removed_total", "counter",
	  "Snapshot files that were removed to stay within the bounds.", FIELD(snapshots_removed) },
	{ "allocsnap_disk_bytes", "gauge", "Disk space of the snapshot files.", FIELD(disk_bytes) },
	{ "allocsnap_disk_limit_bytes", "gauge", "Disk space that they may take.",
	  FIELD(disk_most_bytes), COUNT, UNLESS_ZERO },
	{ "allocsnap_drains_total", "counter", "Passes over the account in the kernel.", FIELD(drain_nr) },
	{ "allocsnap_drain_seconds_total", "counter", "How long these took together.", FIELD(drain_ns),
	  SECONDS },
	{ "allocsnap_cpu_seconds_total", "counter", "CPU time of the recorder itself.",
	  FIELD(own_cpu_ns), SECONDS },
	{ "allocsnap_resident_memory_bytes", "gauge", "Resident memory of the recorder itself.",
	  FIELD(own_rss_bytes) },
	{ "allocsnap_kernel_memory_bytes", "gauge", "Memory of the account in the kernel.",
	  FIELD(kernel_bytes) },
	{ "allocsnap_open_files", "gauge", "Files that the recorder has open.", FIELD(open_files) },
	{ "allocsnap_open_files_limit", "gauge", "Files that it may have open.", FIELD(open_files_most),
	  COUNT, UNLESS_ZERO },
};

/* Each with the value of its field. */
static void put_number_rows(FILE *out, const struct row *row, size_t nr, const void *fields)
{
	for (const struct row *end = row + nr; row < end; row++) {
		uint64_t value = value_of(row, fields);

		if (!value && row->presence == UNLESS_ZERO)
			continue;
		put_head(out, row);
		fputs(row->name, out);
		put_sample_value(out, row->unit, value);
	}
}

#undef FIELD
#define FIELD(field) offsetof(struct push_counts, field)

static const struct row push_rows[] = {
	{ "allocsnap_push_pushed_total", "counter", "Snapshots that were pushed.", FIELD(pushed) },
	{ "allocsnap_push_failures_total", "counter", "Attempts to push that failed and are repeated.", FIELD(failures) },
	{ "allocsnap_push_rejected_total", "counter", "Snapshots that the endpoint does not take, or that cannot be read.",
	  FIELD(rejected) },
	{ "allocsnap_push_given_up_total", "counter",
	  "Snapshots that were given up: too many waited, or they were removed before they were pushed.", FIELD(given_up) },
	{ "allocsnap_push_waiting", "gauge", "Snapshots that wait to be pushed.", FIELD(waiting) },
	{ "allocsnap_push_up", "gauge", "1 while the process that pushes runs.", FIELD(is_up) },
};

static int push_counts_print(FILE *out, const void *counts)
{
	put_number_rows(out, push_rows, ARRAY_SIZE(push_rows), counts);
	return fflush(out) || ferror(out) ? -errno ?: -EIO : 0;
}

static void put_version(FILE *out)
{
	static const struct row row = {
		"allocsnap_build_info", "gauge", "Which allocsnap it is; the value is 1.",
	};

	put_head(out, &row);
	fprintf(out, "%s{version=\"%s\"} 1\n", row.name, ALLOCSNAP_VERSION);
}

static void put_named_rows(FILE *out, const struct row *row, const char *label,
		      const struct metrics_named *named, size_t named_nr)
{
	char escaped[LABEL_MAX];

	if (named_nr)
		put_head(out, row);
	for (size_t i = 0; i < named_nr; i++) {
		fprintf(out, "%s{%s=\"%s\"}", row->name, label, escape_label(escaped, named[i].name));
		put_sample_value(out, row->unit, named[i].value);
	}
}

/* ---- numbers of each process ---- */

#undef FIELD
#define FIELD(field) offsetof(struct metrics_process, field)

static const struct row process_rows[] = {
	{ "allocsnap_process_traced_bytes", "gauge", "Bytes of live blocks.", FIELD(traced_bytes) },
	{ "allocsnap_process_traced_blocks", "gauge", "Live blocks.", FIELD(traced_blocks) },
	{ "allocsnap_process_traced_peak_bytes", "gauge", "The most bytes that were live at once.",
	  FIELD(peak_bytes) },
	{ "allocsnap_process_cpu_seconds_total", "counter",
	  "CPU time of the process while it was recorded.", FIELD(cpu_ns), SECONDS },
	{ "allocsnap_process_recording_cpu_seconds_total", "counter",
	  "Of that, what recording took, by estimate.", FIELD(cost_ns), SECONDS },
};

struct chosen {
	const struct metrics_process **process;
	size_t process_nr;
};

/* The largest first. The PID decides between equal sizes, so that the order is always the same. */
static int by_size(const void *a, const void *b)
{
	const struct metrics_process *x = *(const struct metrics_process *const *)a;
	const struct metrics_process *y = *(const struct metrics_process *const *)b;

	if (x->traced_bytes != y->traced_bytes)
		return x->traced_bytes > y->traced_bytes ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_metrics_pid(const void *a, const void *b)
{
	const struct metrics_process *x = *(const struct metrics_process *const *)a;
	const struct metrics_process *y = *(const struct metrics_process *const *)b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : by_size(a, b);
}

/*
 * A process that has ended may wait for its last snapshot while another process has its PID. A collector refuses a
 * file with the same labels twice, so only the larger process is reported.
 */
static void drop_doubles(struct chosen *chosen)
{
	size_t kept = 0;

	for (size_t i = 0; i < chosen->process_nr; i++)
		if (!kept || chosen->process[kept - 1]->pid != chosen->process[i]->pid)
			chosen->process[kept++] = chosen->process[i];
	chosen->process_nr = kept;
}

static int metrics_choose_processes(const struct metrics *metrics, struct chosen *ret)
{
	struct chosen chosen = { .process_nr = metrics->process_nr };

	chosen.process = calloc(metrics->process_nr + 1, sizeof(*chosen.process));
	if (!chosen.process)
		return -ENOMEM;
	for (size_t i = 0; i < metrics->process_nr; i++)
		chosen.process[i] = &metrics->process[i];
	qsort(chosen.process, chosen.process_nr, sizeof(*chosen.process), by_metrics_pid);
	drop_doubles(&chosen);
	qsort(chosen.process, chosen.process_nr, sizeof(*chosen.process), by_size);
	if (chosen.process_nr > METRICS_PROCESS_MAX)
		chosen.process_nr = METRICS_PROCESS_MAX;
	*ret = chosen;
	return 0;
}

static void put_process_labels(FILE *out, const struct metrics_process *process)
{
	const struct {
		const char *name, *value;
	} label[] = {
		{ "namespace", process->namespace }, { "pod", process->pod }, { "container", process->container },
	};
	char escaped[LABEL_MAX];

	fprintf(out, "{comm=\"%s\",pid=\"%d\"", escape_label(escaped, process->comm), (int)process->pid);
	for (size_t i = 0; i < ARRAY_SIZE(label); i++)
		if (label[i].value && *label[i].value)
			fprintf(out, ",%s=\"%s\"", label[i].name, escape_label(escaped, label[i].value));
	fputs("}", out);
}

static void put_process_row(FILE *out, const struct row *row, const struct chosen *chosen)
{
	if (chosen->process_nr)
		put_head(out, row);
	for (size_t i = 0; i < chosen->process_nr; i++) {
		const struct metrics_process *process = chosen->process[i];

		fputs(row->name, out);
		put_process_labels(out, process);
		put_sample_value(out, row->unit, value_of(row, process));
	}
}

static int put_processes(FILE *out, const struct metrics *metrics)
{
	static const struct row omitted = {
		"allocsnap_processes_omitted", "gauge", "Recorded processes that are not listed below.",
	};
	struct chosen chosen;
	int err = metrics_choose_processes(metrics, &chosen);

	if (err)
		return err;
	put_head(out, &omitted);
	fputs(omitted.name, out);
	put_sample_value(out, COUNT, metrics->process_nr - chosen.process_nr);
	for (size_t i = 0; i < ARRAY_SIZE(process_rows); i++)
		put_process_row(out, &process_rows[i], &chosen);
	free(chosen.process);
	return 0;
}

/* ---- the whole ---- */

int metrics__print(FILE *out, const struct metrics *metrics)
{
	static const struct row loss = {
		"allocsnap_losses_total",
		"counter",
		"What was lost, guessed or cut, by its name in snapshots; what each of them counts anew, by its growth.",
	};
	static const struct row traps = {
		"allocsnap_bystander_traps_total", "counter",
		"Traps of processes that are not recorded, but share a probed file.",
	};
	int err;

	put_version(out);
	put_number_rows(out, numbers, ARRAY_SIZE(numbers), metrics);
	put_named_rows(out, &loss, "loss", metrics->loss, metrics->loss_nr);
	put_named_rows(out, &traps, "kind", metrics->bystander_traps, metrics->bystander_traps_nr);
	err = put_processes(out, metrics);
	if (fflush(out) || ferror(out)) /* a write after an error leaves errno as it is */
		return -errno ?: -EIO;
	return err;
}

typedef int (*metrics_print_fn)(FILE *out, const void *what);

/* Does not sync: after a crash of the machine the old numbers are useless. */
static int metrics_replace_file(const char *path, metrics_print_fn print, const void *what)
{
	const char *name = path_name(path);
	char *folder = folder_of_path(path);
	int dir_fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, err = dir_fd < 0 ? -errno : 0;
	struct atomic_file draft;

	free(folder);
	if (err)
		return err;
	err = atomic_file_open(&draft, dir_fd, name, false);
	err = err ?: file_fill(draft.fd, print, what);
	if (!err && fchmod(draft.fd, 0644))
		err = -errno;
	err = err ?: atomic_file_replace(&draft);
	atomic_file_close(&draft);
	close(dir_fd);
	return err;
}

static int write_metrics_file(const char *path, metrics_print_fn print, const void *what, struct reason *why)
{
	int err = *path_name(path) ? metrics_replace_file(path, print, what) : -EISDIR;
	char clean[256];

	if (!err)
		return 0;
	return reason_set(why, err, "%s: cannot write: %s", clean_path(clean, sizeof(clean), path),
			  strerror(-err));
}

static int print_metrics(FILE *out, const void *metrics)
{
	return metrics__print(out, metrics);
}

int metrics__write(const char *path, const struct metrics *metrics, struct reason *why)
{
	return write_metrics_file(path, print_metrics, metrics, why);
}

int push_counts_write(const char *path, const struct push_counts *counts, struct reason *why)
{
	return write_metrics_file(path, push_counts_print, counts, why);
}

uint64_t metrics_privileges(const char *path)
{
	char *folder = path ? folder_of_path(path) : NULL;
	uint64_t needed = folder ? privileges__to_write(folder) : 0;

	free(folder);
	return needed;
}
