// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/process_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "archive/walk.h"
#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/cmd_help.h"
#include "render/emitter.h"
#include "render/facts.h"
#include "render/page_facts.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

static void listed_process_release(struct listed_process *process)
{
	free(process->identity);
	free(process->host);
	free(process->comm);
	free(process->folder);
	free(process->first.path);
	free(process->last.path);
	free(process->end);
	free(process->pod);
}

void process_list_release(struct process_list *list)
{
	for (size_t i = 0; i < list->process_nr; i++)
		listed_process_release(&list->process[i]);
	free(list->process);
	*list = (struct process_list){};
}

/* ---- one snapshot ------------------------------------------------------------------------- */

static const char *listed_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

/* Adds the snapshot's process if it is new. `from`: the first process of this folder in the list. NULL: no memory. */
static struct listed_process *get_listed(struct process_list *list, size_t from, const char *folder,
					 const struct snapshot *snapshot)
{
	struct listed_process process = { .identity = snapshot_identity(snapshot, IDENTITY_IMAGE) };

	for (size_t i = from; i < list->process_nr && process.identity; i++)
		if (!strcmp(list->process[i].identity, process.identity)) {
			free(process.identity);
			return &list->process[i];
		}
	process.host = strdup(listed_metadata(snapshot, "host"));
	process.comm = strdup(listed_metadata(snapshot, "comm"));
	process.folder = strdup(folder);
	process.pid = snapshot__metadata_u64(snapshot, "pid", 0);
	if (process.identity && process.host && process.comm && process.folder && !array_push(list, process, process))
		return &list->process[list->process_nr - 1];
	listed_process_release(&process);
	return NULL;
}

/* Whether its process allocated nothing that was seen, but may have before its functions were probed. */
static bool is_unseen(const struct snapshot *snapshot)
{
	return !snapshot__counter(snapshot, "allocations") && snapshot__counter(snapshot, "functions_late");
}

static int set_listed_snapshot(struct listed_snapshot *ret, const char *path, const struct listed_snapshot *listed)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	free(ret->path);
	*ret = *listed;
	ret->path = copy;
	return 0;
}

static int set_listed_end(struct listed_process *process, const struct snapshot *snapshot)
{
	const char *pod = listed_metadata(snapshot, "label.k8s.pod.name");
	char *end = strdup(listed_metadata(snapshot, "end")), *text;

	if (!end || asprintf(&text, "%s%s%s", listed_metadata(snapshot, "label.k8s.namespace.name"), *pod ? "/" : "", pod) < 0) {
		free(end);
		return -ENOMEM;
	}
	free(process->end);
	free(process->pod);
	process->end = end;
	process->pod = text;
	process->sampler = snapshot_sampler_kind(snapshot);
	process->has_pages = snapshot_pages_why(snapshot);
	return 0;
}

/* Adds a snapshot. By its name it is later than those before; where the boot is known, the moments in them decide. */
static int note_listed_snapshot(struct listed_process *process, const char *path, const struct snapshot *snapshot)
{
	const struct snapshot_facts facts = snapshot_facts(snapshot);
	const struct listed_snapshot listed = { snapshot_moment(snapshot), .traced_bytes = facts.current_bytes };
	uint32_t boot = listed.moment.boot;
	bool is_first = !process->snapshot_nr++;
	struct stat st;
	int err = 0;

	if (is_first || (boot && moment_compare(&listed.moment, &process->first.moment, NULL) < 0))
		err = set_listed_snapshot(&process->first, path, &listed);
	if (is_first || !boot || moment_compare(&listed.moment, &process->last.moment, NULL) >= 0)
		err = err ?: set_listed_snapshot(&process->last, path, &listed) ?: set_listed_end(process, snapshot);
	if (stat(path, &st))
		err = err ?: -errno;
	else
		process->disk_bytes += st.st_size;
	process->is_estimated |= facts.is_estimated;
	process->is_unseen = (process->is_unseen || is_first) && is_unseen(snapshot);
	if (process->peak_bytes < facts.peak_bytes)
		process->peak_bytes = facts.peak_bytes;
	return err;
}

static int list_file(struct process_list *list, size_t from, const char *folder, const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	struct listed_process *process;
	int err;

	if (!snapshot) {
		list->damaged_nr++;
		return log_failure("%s", why.text);
	}
	process = get_listed(list, from, folder, snapshot);
	err = process ? note_listed_snapshot(process, path, snapshot) : -ENOMEM;
	snapshot__close(snapshot);
	if (err && process && !process->end) /* it was added just now, and lacks what its row shows */
		listed_process_release(&list->process[--list->process_nr]);
	return err ? log_failure("%s: %s", path, strerror(-err)) : EXIT_DONE;
}

/* ---- all snapshots ------------------------------------------------------------------------ */

static int list_folder(struct process_list *list, const struct process_folder *folder,
		       const struct progress *progress, size_t before)
{
	size_t from = list->process_nr;
	int status = EXIT_DONE;

	for (size_t i = 0; i < folder->file_nr; i++) {
		progress_show(progress, before + i);
		if (list_file(list, from, folder->path, folder->file[i].path))
			status = EXIT_FAILED;
	}
	return status;
}

static int list_folders(struct process_list *list, const struct process_folders *folders)
{
	size_t file_nr = 0, before = 0;
	struct progress progress;
	int status = EXIT_DONE;

	for (size_t i = 0; i < folders->folder_nr; i++)
		file_nr += folders->folder[i].file_nr;
	progress = progress_begin("reading", "snapshots", file_nr);
	for (size_t i = 0; i < folders->folder_nr; i++) {
		if (list_folder(list, &folders->folder[i], &progress, before))
			status = EXIT_FAILED;
		before += folders->folder[i].file_nr;
	}
	progress_end(&progress);
	return status;
}

int process_list_read(const char *path, struct process_list *ret)
{
	struct process_folders folders = {};
	struct stat st;
	int status;

	*ret = (struct process_list){};
	status = !stat(path, &st) && S_ISREG(st.st_mode) ? list_file(ret, 0, path, path) :
							   process_folders_scan(&folders, path);
	if (list_folders(ret, &folders))
		status = EXIT_FAILED;
	process_folders_release(&folders);
	if (snapshot_rows_sort(ret->process, ret->process_nr, sizeof(*ret->process), true))
		status = log_failure("%s", strerror(ENOMEM));
	return status;
}

/* ---- the table ---------------------------------------------------------------------------- */

#define LIST_TIME_MAX 32
enum list_time {
	LIST_TIME_RFC3339, /* "2026-11-22T11:04:58.354Z" */
	LIST_TIME_DATE,	   /* "2026-11-22 11:04:58" */
	LIST_TIME_DAY,	   /* "11-22 11:04:58" */
	LIST_TIME_SHORT,   /* "11-22 11:04" */
	LIST_TIME_CLOCK,   /* "11:04:58" */
	LIST_TIME_MINUTE,  /* "11:04" */
};

#define CELL_MAX 256
#define GAP 2 /* columns between cells */

enum list_column {
	COLUMN_PROCESS,
	COLUMN_POD,
	COLUMN_FROM,
	COLUMN_TO,
	COLUMN_SNAPSHOTS,
	COLUMN_DISK,
	COLUMN_TRACED,
	COLUMN_PEAK,
	COLUMN_GROWTH,
	COLUMN_SAMPLER,
	COLUMN_END,
	COLUMN_NR,
};

static const struct {
	const char *head;
	bool is_right; /* a number */
	int least;     /* the width that shortening leaves; 0: it is not shortened */
} columns[COLUMN_NR] = {
	[COLUMN_PROCESS] = { "PROCESS", .least = 12 },
	[COLUMN_POD] = { "POD", .least = 12 },
	[COLUMN_FROM] = { "FROM" },
	[COLUMN_TO] = { "TO" },
	[COLUMN_SNAPSHOTS] = { "SNAPS", .is_right = true },
	[COLUMN_DISK] = { "DISK", .is_right = true },
	[COLUMN_TRACED] = { "TRACED", .is_right = true },
	[COLUMN_PEAK] = { "PEAK", .is_right = true },
	[COLUMN_GROWTH] = { "GROWTH", .is_right = true },
	[COLUMN_SAMPLER] = { "SAMPLER" },
	[COLUMN_END] = { "END", .least = 9 },
};

#define DROPPED(column) (1u << COLUMN_##column)

/* How the table is made to fit; a later way saves more. */
static const struct list_fit {
	enum list_time from, to; /* of column TO: `to` if its time has the day of FROM's time */
	unsigned int dropped;	 /* columns; if there are some, others are shortened, too */
} fits[] = {
	{ LIST_TIME_DATE, LIST_TIME_CLOCK },
	{ LIST_TIME_DAY, LIST_TIME_CLOCK },
	{ LIST_TIME_SHORT, LIST_TIME_MINUTE },
	{ LIST_TIME_SHORT, LIST_TIME_MINUTE, DROPPED(DISK) },
	{ LIST_TIME_SHORT, LIST_TIME_MINUTE, DROPPED(DISK) | DROPPED(PEAK) | DROPPED(SAMPLER) },
	{ LIST_TIME_SHORT, LIST_TIME_MINUTE, DROPPED(DISK) | DROPPED(PEAK) | DROPPED(SAMPLER) | DROPPED(FROM) },
	{ LIST_TIME_SHORT, LIST_TIME_MINUTE, DROPPED(DISK) | DROPPED(PEAK) | DROPPED(SAMPLER) | DROPPED(FROM) |
	  DROPPED(SNAPSHOTS) | DROPPED(POD) },
};

struct list_table {
	const struct process_list *list;
	const struct list_fit *fit;
	bool has_hosts; /* the processes are of several hosts */
	int width[COLUMN_NR];
};

/* ---- texts -------------------------------------------------------------------------------- */

/* A time in UTC. Returns text. */
static const char *list_time_text(char text[LIST_TIME_MAX], uint64_t wall_ns, enum list_time how)
{
	static const char *const format[] = {
		[LIST_TIME_RFC3339] = "%Y-%m-%dT%H:%M:%S",
		[LIST_TIME_DATE] = "%Y-%m-%d %H:%M:%S",
		[LIST_TIME_DAY] = "%m-%d %H:%M:%S",
		[LIST_TIME_SHORT] = "%m-%d %H:%M",
		[LIST_TIME_CLOCK] = "%H:%M:%S",
		[LIST_TIME_MINUTE] = "%H:%M",
	};
	time_t seconds = wall_ns / 1000000000;
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(text, LIST_TIME_MAX, format[how], &utc);
	if (how == LIST_TIME_RFC3339)
		snprintf(text + len, LIST_TIME_MAX - len, ".%03uZ", (unsigned int)(wall_ns / 1000000 % 1000));
	return text;
}

const char *list_size_text(char text[LIST_SIZE_MAX], double bytes, bool with_sign)
{
	static const char unit[] = "BKMGTPE";
	int at = 0;

	for (; at < 6 && (bytes >= 1023.5 || bytes <= -1023.5); at++)
		bytes /= 1024;
	snprintf(text, LIST_SIZE_MAX, with_sign ? "%+.*f%c" : "%.*f%c", at && bytes < 99.95 && bytes > -99.95, bytes,
		 unit[at]);
	return text;
}

static void format_listed_time(char cell[CELL_MAX], uint64_t wall_ns, enum list_time how)
{
	if (wall_ns)
		list_time_text(cell, wall_ns, how);
}

static bool is_same_day(uint64_t a_ns, uint64_t b_ns)
{
	const uint64_t day_ns = 24ULL * 3600 * 1000000000;

	return a_ns / day_ns == b_ns / day_ns;
}

/* A comm may have any byte, so the cell is cleaned. */
static void format_process_cell(char cell[CELL_MAX], const struct list_table *table,
				const struct listed_process *process)
{
	bool has_host = table->has_hosts && *process->host;
	char text[CELL_MAX];

	if (!process->pid)
		snprintf(text, sizeof(text), "%.200s", process->folder);
	else
		snprintf(text, sizeof(text), "%.64s%s%.64s.%" PRIu64, has_host ? process->host : "",
			 has_host ? "/" : "", process->comm, process->pid);
	clean_text(cell, CELL_MAX, text);
}

static void format_amount(char cell[CELL_MAX], const struct listed_process *process, double bytes, bool with_sign)
{
	char text[LIST_SIZE_MAX];

	if (process->is_unseen)
		strcpy(cell, "?");
	else
		snprintf(cell, CELL_MAX, "%s%s", process->is_estimated ? "~" : "",
			 list_size_text(text, bytes, with_sign));
}

static void format_cell(char cell[CELL_MAX], const struct list_table *table, const struct listed_process *process,
			enum list_column column)
{
	uint64_t from_ns = process->first.moment.wall_ns, to_ns = process->last.moment.wall_ns;
	uint64_t from_bytes = process->first.traced_bytes, to_bytes = process->last.traced_bytes;

	*cell = '\0';
	switch (column) {
	case COLUMN_PROCESS:
		format_process_cell(cell, table, process);
		break;
	case COLUMN_POD:
		clean_text(cell, CELL_MAX, process->pod);
		break;
	case COLUMN_FROM:
		format_listed_time(cell, from_ns, table->fit->from);
		break;
	case COLUMN_TO:
		format_listed_time(cell, to_ns, is_same_day(from_ns, to_ns) ? table->fit->to : table->fit->from);
		break;
	case COLUMN_SNAPSHOTS:
		snprintf(cell, CELL_MAX, "%zu", process->snapshot_nr);
		break;
	case COLUMN_DISK:
		list_size_text(cell, process->disk_bytes, false);
		break;
	case COLUMN_TRACED:
		format_amount(cell, process, to_bytes, false);
		break;
	case COLUMN_PEAK:
		format_amount(cell, process, process->peak_bytes, false);
		break;
	case COLUMN_GROWTH:
		format_amount(cell, process, (double)to_bytes - from_bytes, true);
		break;
	case COLUMN_SAMPLER:
		snprintf(cell, CELL_MAX, "%s", process->sampler ?: "");
		break;
	default:
		clean_text(cell, CELL_MAX, process->end);
	}
}

/* ---- widths ------------------------------------------------------------------------------- */

/* Columns that no process has a text in. */
static unsigned int find_empty_columns(const struct process_list *list)
{
	unsigned int empty = DROPPED(SAMPLER) | DROPPED(POD);

	for (size_t i = 0; i < list->process_nr; i++)
		empty &= ~((list->process[i].sampler ? DROPPED(SAMPLER) : 0) | (*list->process[i].pod ? DROPPED(POD) : 0));
	return empty;
}

static int measure_table(struct list_table *table)
{
	unsigned int dropped = table->fit->dropped | find_empty_columns(table->list);
	char cell[CELL_MAX];
	int sum = 0;

	for (int column = 0; column < COLUMN_NR; column++) {
		int *width = &table->width[column];

		*width = strlen(columns[column].head);
		for (size_t i = 0; i < table->list->process_nr; i++) {
			format_cell(cell, table, &table->list->process[i], column);
			if (text_width(cell) > *width)
				*width = text_width(cell);
		}
		if (dropped & 1u << column)
			*width = 0;
		sum += *width ? *width + GAP : 0;
	}
	return sum - GAP;
}

/* Shortens the end, the pod and the process, in this order, not below their least widths. Returns the excess that is left. */
static int shorten_columns(struct list_table *table, int excess)
{
	static const enum list_column order[] = { COLUMN_END, COLUMN_POD, COLUMN_PROCESS };

	for (size_t i = 0; i < ARRAY_SIZE(order) && excess > 0; i++) {
		int *width = &table->width[order[i]], spare = *width - columns[order[i]].least;

		if (spare <= 0)
			continue;
		*width -= spare < excess ? spare : excess;
		excess -= spare;
	}
	return excess;
}

static void fit_table(struct list_table *table, int width)
{
	for (size_t i = 0; i < ARRAY_SIZE(fits); i++) {
		int needed;

		table->fit = &fits[i];
		needed = measure_table(table);
		if (!width || needed <= width)
			return;
		if (fits[i].dropped && shorten_columns(table, needed - width) <= 0)
			return;
	}
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Cuts the text to a width and marks the cut. keep_end: cuts in the middle, before the PID of "COMM.PID". */
static void cut_cell(char cell[CELL_MAX], int width, bool keep_end)
{
	const char *tail = keep_end ? strrchr(cell, '.') : NULL;
	int tail_width = tail ? text_width(tail) : 0, column = 0;
	char cut[CELL_MAX];
	size_t at = 0;

	if (text_width(cell) <= width)
		return;
	if (tail_width + 2 > width)
		tail = NULL, tail_width = 0;
	while (cell[at] && column < width - 1 - tail_width) {
		at += utf8_len(cell + at) ?: 1;
		column++;
	}
	snprintf(cut, sizeof(cut), "%.*s…%s", (int)at, cell, tail ?: "");
	strcpy(cell, cut);
}

/* Pads by hand: printf counts bytes. The last column is not padded. */
static void put_cell(FILE *out, const struct list_table *table, enum list_column column, char cell[CELL_MAX])
{
	int width = table->width[column], pad;

	if (!width)
		return;
	cut_cell(cell, width, column == COLUMN_PROCESS);
	pad = width - text_width(cell);
	fprintf(out, "%*s%s%*s%*s", columns[column].is_right ? pad : 0, "", cell,
		columns[column].is_right || column == COLUMN_END ? 0 : pad, "", column == COLUMN_END ? 0 : GAP, "");
}

static int put_list_row(FILE *out, const struct list_table *table, const struct listed_process *process)
{
	enum tone head = process ? TONE_PLAIN : TONE_HEAD;
	char cell[CELL_MAX];

	tone_begin(out, head);
	for (int column = 0; column < COLUMN_NR; column++) {
		if (process)
			format_cell(cell, table, process, column);
		else
			strcpy(cell, columns[column].head);
		put_cell(out, table, column, cell);
	}
	tone_end(out, head);
	return putc('\n', out) == EOF ? -(errno ?: EIO) : 0;
}

static bool has_several_hosts(const struct process_list *list)
{
	for (size_t i = 1; i < list->process_nr; i++)
		if (strcmp(list->process[i].host, list->process[0].host))
			return true;
	return false;
}

/* Names the first one. */
static int put_page_processes(FILE *out, const struct list_table *table)
{
	const struct process_list *list = table->list;
	size_t nr = array_count(list->process_nr, i, list->process[i].has_pages);
	const struct listed_process *first = array_find(list, process, i, list->process[i].has_pages);
	char cell[CELL_MAX], more[32] = "";

	if (!first)
		return 0;
	format_process_cell(cell, table, first);
	if (nr > 1)
		snprintf(more, sizeof(more), " and %zu more", nr - 1);
	fprintf(out, "%s%s: resident pages, as nothing else sees the memory; 'show' says why\n", cell, more);
	return ferror(out) ? -EIO : 0;
}

int list_table_print(const struct process_list *list, FILE *out, int width)
{
	struct list_table table = { .list = list, .has_hosts = has_several_hosts(list) };
	int err;

	fit_table(&table, width);
	err = put_list_row(out, &table, NULL);
	for (size_t i = 0; i < list->process_nr && !err; i++)
		err = put_list_row(out, &table, &list->process[i]);
	return err ?: put_page_processes(out, &table);
}

/* ---- as JSON ------------------------------------------------------------------------------ */

static void emit_listed_snapshot(struct emitter *out, const char *key, const struct listed_snapshot *snapshot)
{
	uint64_t wall_ns = snapshot->moment.wall_ns;
	char text[LIST_TIME_MAX];

	emit_object(out, key);
	emit_text(out, "path", snapshot->path);
	emit_text(out, "wall_time", wall_ns ? list_time_text(text, wall_ns, LIST_TIME_RFC3339) : NULL);
	emit_uint(out, "traced_bytes", snapshot->traced_bytes);
	emit_end(out);
}

static void emit_listed_process(struct emitter *out, const struct listed_process *process)
{
	emit_object(out, NULL);
	emit_text(out, "host", process->host);
	if (process->pid)
		emit_uint(out, "pid", process->pid);
	emit_text(out, "comm", process->comm);
	emit_text(out, "folder", process->folder);
	if (*process->pod)
		emit_text(out, "pod", process->pod);
	emit_uint(out, "snapshots", process->snapshot_nr);
	emit_uint(out, "disk_bytes", process->disk_bytes);
	emit_listed_snapshot(out, "first", &process->first);
	emit_listed_snapshot(out, "last", &process->last);
	emit_uint(out, "peak_bytes", process->peak_bytes);
	emit_int(out, "growth_bytes", (int64_t)(process->last.traced_bytes - process->first.traced_bytes));
	emit_bool(out, "is_estimated", process->is_estimated);
	emit_text(out, "sampler", process->sampler);
	if (process->is_unseen)
		emit_bool(out, "is_unseen", true);
	if (process->has_pages)
		emit_bool(out, "has_pages", true);
	emit_text(out, "end", process->end);
	emit_end(out);
}

int process_list_put_json(const struct process_list *list, FILE *file)
{
	struct emitter out = emit_to(file, true);

	emit_text(&out, "schema", "allocsnap.list/1");
	emit_list(&out, "processes");
	for (size_t i = 0; i < list->process_nr; i++)
		emit_listed_process(&out, &list->process[i]);
	emit_end(&out);
	emit_uint(&out, "unreadable", list->damaged_nr);
	return emit_finish(&out);
}
