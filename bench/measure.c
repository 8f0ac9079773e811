// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures the questions of the table, through the public API.
 *
 *	measure time DIR		one round: QUESTION TAB our ms TAB floor ms, a line each
 *	measure rows OLD NEW		the answers: QUESTION TAB …, totals and the first rows
 *	measure peak FILE		bytes: the file, and our most resident after `lineno` of it
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "reason.h"
#include "snapshot.h"

#define ROWS_SHOWN 20

static const struct filter one_part = {
	.inclusive = true, .filename_pattern = "src/part_0[1-5]/*",
};

/* run.py asks CPython the same, by the same names. */
static const struct question {
	const char *name;
	struct engine_options options;
	bool is_compare, is_filter_traces;
} questions[] = {
	{ "statistics lineno", { .key_type = KEY_LINENO } },
	{ "statistics filename", { .key_type = KEY_FILENAME } },
	{ "statistics traceback", { .key_type = KEY_TRACEBACK } },
	{ "statistics lineno cumulative", { .key_type = KEY_LINENO, .cumulative = true } },
	{ "statistics lineno filtered", { .key_type = KEY_LINENO,
					  .select = { .filter = &one_part, .filter_nr = 1 } } },
	{ "filter_traces", { .select = { .filter = &one_part, .filter_nr = 1 } },
	  .is_filter_traces = true },
	{ "compare_to lineno", { .key_type = KEY_LINENO }, .is_compare = true },
	{ "compare_to traceback", { .key_type = KEY_TRACEBACK }, .is_compare = true },
};

#define QUESTION_NR (sizeof(questions) / sizeof(questions[0]))

static void must(int err, const char *what, const struct reason *why)
{
	if (!err)
		return;
	fprintf(stderr, "measure: %s: %s\n", what, *why->text ? why->text : strerror(-err));
	exit(1);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static struct snapshot *open_file(const char *path)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open(path, &why);

	must(snapshot ? 0 : -errno, path, &why);
	return snapshot;
}

static struct statistics *ask(const struct question *question, const struct snapshot *old_snapshot,
			      const struct snapshot *new_snapshot)
{
	struct statistics *answer;
	struct reason why = { "" };
	int err;

	err = question->is_compare ?
	      snapshot_compare(old_snapshot, new_snapshot, &question->options, &answer, &why) :
	      snapshot_statistics(old_snapshot, &question->options, &answer, &why);
	must(err, question->name, &why);
	return answer;
}

static struct snapshot *filter(const struct question *question, const struct snapshot *snapshot)
{
	struct snapshot *kept;
	struct reason why = { "" };

	must(snapshot_filter_traces(snapshot, &question->options, &kept, &why), question->name,
	     &why);
	return kept;
}

/* ---- time --------------------------------------------------------------------------------- */

/* The least that an answer can cost: each size and each traceback id read once. */
static double floor_ms(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	double begun = now_ms();
	uint64_t sizes = 0, ids = 0;

	for (uint64_t i = 0; i < t->trace_nr; i++) {
		sizes += t->trace_size[i];
		ids += t->trace_traceback[i];
	}
	__asm__ volatile("" : : "r"(sizes), "r"(ids));
	return now_ms() - begun;
}

static double ours_ms(const struct question *question, const struct snapshot *old_snapshot,
		      const struct snapshot *new_snapshot)
{
	double begun = now_ms(), ended;

	if (question->is_filter_traces) {
		struct snapshot *kept = filter(question, old_snapshot);

		ended = now_ms();
		snapshot__close(kept);
	} else {
		struct statistics *answer = ask(question, old_snapshot, new_snapshot);

		ended = now_ms();
		statistics_free(answer);
	}
	return ended - begun;
}

/* The file into fresh memory, and nothing else. */
static double read_ms(const char *path)
{
	double begun = now_ms(), ended;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t done = 0;
	ssize_t got;
	char *bytes;

	must(fd < 0 || fstat(fd, &st) ? -errno : 0, path, &(struct reason){ "" });
	bytes = malloc(st.st_size);
	while (bytes && (got = read(fd, bytes + done, st.st_size - done)) > 0)
		done += got;
	ended = now_ms();
	free(bytes);
	close(fd);
	return ended - begun;
}

static struct snapshot *time_load(const char *dir, const char *name, const char *question)
{
	struct snapshot *snapshot;
	char path[4096];
	double plain, begun, ended;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	plain = read_ms(path);
	begun = now_ms();
	snapshot = open_file(path);
	ended = now_ms();
	printf("%s\t%.3f\t%.3f\n", question, ended - begun, plain);
	return snapshot;
}

static int time_all(const char *dir)
{
	struct snapshot *old_snapshot, *new_snapshot;

	/* Several times: a virtual machine gets its memory only at the first touch. */
	for (int i = 0; i < 3; i++)
		snapshot__close(time_load(dir, "old.snap", "load"));
	for (int i = 0; i < 2; i++)
		snapshot__close(time_load(dir, "old-zstd.snap", "load zstd"));
	new_snapshot = time_load(dir, "new.snap", "load");
	old_snapshot = time_load(dir, "old.snap", "load");
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < QUESTION_NR; i++) {
			const struct question *q = &questions[i];
			double least = floor_ms(old_snapshot) +
				       (q->is_compare ? floor_ms(new_snapshot) : 0);

			printf("%s\t%.3f\t%.3f\n", q->name, ours_ms(q, old_snapshot, new_snapshot),
			       least);
		}
	}
	snapshot__close(old_snapshot);
	snapshot__close(new_snapshot);
	return 0;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void print_row(const struct question *question, const struct statistic *row)
{
	printf("%s\t", question->name);
	for (uint32_t i = 0; i < row->nframe; i++)
		printf("%s%s:%u", i ? ";" : "", row->frame[i].filename, row->frame[i].lineno);
	printf("\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n", row->cost.size,
	       row->cost.count, row->diff.size, row->diff.count);
}

static void print_answer(const struct question *question, const struct statistics *answer)
{
	int64_t size = 0, count = 0;

	for (size_t i = 0; i < answer->statistic_nr; i++) {
		size += answer->statistic[i].cost.size;
		count += answer->statistic[i].cost.count;
	}
	printf("%s\t%zu rows\t%" PRId64 "\t%" PRId64 "\n", question->name, answer->statistic_nr,
	       size, count);
	for (size_t i = 0; i < answer->statistic_nr && i < ROWS_SHOWN; i++)
		print_row(question, &answer->statistic[i]);
}

static int print_rows(const char *old_path, const char *new_path)
{
	struct snapshot *old_snapshot = open_file(old_path), *new_snapshot = open_file(new_path);

	for (size_t i = 0; i < QUESTION_NR; i++) {
		const struct question *q = &questions[i];
		struct snapshot *kept = q->is_filter_traces ? filter(q, old_snapshot) : NULL;
		const struct question *then = kept ? &questions[0] : q;
		struct statistics *answer = ask(then, kept ?: old_snapshot, new_snapshot);

		print_answer(q, answer);
		statistics_free(answer);
		snapshot__close(kept);
	}
	snapshot__close(old_snapshot);
	snapshot__close(new_snapshot);
	return 0;
}

/* ---- peak --------------------------------------------------------------------------------- */

static int print_peak(const char *path)
{
	struct snapshot *snapshot = open_file(path);
	struct rusage usage;
	struct stat st;

	statistics_free(ask(&questions[0], snapshot, NULL));
	snapshot__close(snapshot);
	getrusage(RUSAGE_SELF, &usage);
	must(stat(path, &st) ? -errno : 0, path, &(struct reason){ "" });
	printf("%jd\t%jd\n", (intmax_t)st.st_size, (intmax_t)usage.ru_maxrss * 1024);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "time"))
		return time_all(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "rows"))
		return print_rows(argv[2], argv[3]);
	if (argc == 3 && !strcmp(argv[1], "peak"))
		return print_peak(argv[2]);
	fprintf(stderr, "usage: measure time DIR | rows OLD NEW | peak FILE\n");
	return 2;
}
