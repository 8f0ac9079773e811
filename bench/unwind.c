// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * unwind PATH…: what compiling unwind tables costs, a line for each file, or for all files below a
 * folder together.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unwind/unwind_table.h"

static struct sum {
	uint64_t files, fdes, rows, bytes, unsupported;
	uint32_t rules_max;
	double ms, cpu_ms;
} all;

static double clock_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static uint64_t bytes_of(const struct unwind_table *table)
{
	return (table->page_nr + 1) * sizeof(*table->page) + table->rule_nr * sizeof(*table->rule) +
	       table->row_nr * sizeof(*table->row);
}

static void print(const char *name, const struct sum *sum)
{
	printf("%-32s %5" PRIu64 " files %8" PRIu64 " FDEs %9" PRIu64 " rows %4" PRIu32
	       " rules %5.2f bytes/row %7.1f ms, CPU %6.1f ms, %5.1f Mrow/s; %" PRIu64 " unsupported\n",
	       name, sum->files, sum->fdes, sum->rows, sum->rules_max,
	       (double)sum->bytes / (double)sum->rows, sum->ms, sum->cpu_ms,
	       (double)sum->rows / sum->cpu_ms / 1e3,
	       sum->unsupported);
}

/* To the one and to all. */
static void add(struct sum *one, const struct unwind_table *table)
{
	struct sum *const to[] = { one, &all };

	for (int i = 0; i < 2; i++) {
		to[i]->files++;
		to[i]->fdes += table->fde_nr;
		to[i]->rows += table->row_nr;
		to[i]->bytes += bytes_of(table);
		to[i]->unsupported += table->unsupported_nr;
		if (table->rule_nr > to[i]->rules_max)
			to[i]->rules_max = table->rule_nr;
	}
}

static void measure(const char *path, bool is_quiet)
{
	struct unwind_table *table = NULL;
	struct sum one = { 0 };
	struct reason why = { "" };
	double begun = clock_ms(CLOCK_MONOTONIC), cpu_begun = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	err = fd < 0 ? -errno : unwind_table__from_file(fd, &table, &why);
	if (fd >= 0)
		close(fd);
	one.ms = clock_ms(CLOCK_MONOTONIC) - begun;
	one.cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
	if (err && !is_quiet)
		fprintf(stderr, "unwind: %s: %s\n", path, *why.text ? why.text : strerror(-err));
	all.ms += one.ms;
	all.cpu_ms += one.cpu_ms;
	if (!err)
		add(&one, table);
	if (!err && !is_quiet)
		print(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, &one);
	unwind_table__free(table);
}

/* A file that is no program or library takes time, too: it counts in the sum and gets no line. */
static int visit(const char *path, const struct stat *st, int kind, struct FTW *)
{
	if (kind == FTW_F && S_ISREG(st->st_mode))
		measure(path, true);
	return 0;
}

static void measure_below(const char *folder)
{
	struct sum before = all, here;

	all = (struct sum){ 0 };
	nftw(folder, visit, 64, FTW_PHYS);
	here = all;
	print(folder, &here);
	all = before;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (!stat(argv[i], &st) && S_ISDIR(st.st_mode))
			measure_below(argv[i]);
		else
			measure(argv[i], false);
	}
	return 0;
}
