// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What compiling unwind tables costs.
 *
 *	unwind FILE…	a line for each file, then their sum
 *	unwind -s FILE…	the sum only
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unwind/unwind_table.h"

struct sum {
	uint64_t files, fdes, rows, bytes, outside, not_understood, unsupported;
	uint32_t rules_max;
	double ms;
};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static uint64_t bytes_of(const struct unwind_table *table)
{
	return (table->page_nr + 1) * sizeof(*table->page) + table->rule_nr * sizeof(*table->rule) +
	       table->row_nr * sizeof(*table->row);
}

static void print(const char *name, const struct sum *sum)
{
	printf("%-40s %8" PRIu64 " FDEs %9" PRIu64 " rows %5" PRIu32 " rules %10" PRIu64
	       " bytes %5.2f/row %9.2f ms %6.2f Mrow/s",
	       name, sum->fdes, sum->rows, sum->rules_max, sum->bytes,
	       (double)sum->bytes / (double)sum->rows, sum->ms, (double)sum->rows / sum->ms / 1e3);
	printf("  unsupported %" PRIu64 " outside %" PRIu64 " not understood %" PRIu64 "\n",
	       sum->unsupported, sum->outside, sum->not_understood);
}

static void add(struct sum *sum, const struct unwind_table *table, double ms)
{
	sum->files++;
	sum->fdes += table->fde_nr;
	sum->rows += table->row_nr;
	sum->bytes += bytes_of(table);
	sum->outside += table->outside_nr;
	sum->not_understood += table->not_understood_nr;
	sum->unsupported += table->unsupported_nr;
	if (table->rule_nr > sum->rules_max)
		sum->rules_max = table->rule_nr;
	sum->ms += ms;
}

/* -ENODATA, -ENOTSUP: nothing for us to do. */
static int measure(const char *path, bool is_quiet, struct sum *all)
{
	struct unwind_table *table = NULL;
	struct sum one = { 0 };
	struct reason why = { "" };
	double begun = now_ms();
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	err = fd < 0 ? -errno : unwind_table__from_file(fd, &table, &why);
	if (fd >= 0)
		close(fd);
	if (err) {
		all->ms += now_ms() - begun;
		if (!is_quiet || (err != -ENODATA && err != -ENOTSUP && err != -ENOEXEC))
			fprintf(stderr, "unwind: %s: %s\n", path, *why.text ? why.text : strerror(-err));
		return err;
	}
	add(&one, table, now_ms() - begun);
	add(all, table, one.ms);
	if (!is_quiet)
		print(strrchr(path, '/') ? strrchr(path, '/') + 1 : path, &one);
	unwind_table__free(table);
	return 0;
}

int main(int argc, char **argv)
{
	bool is_quiet = argc > 1 && !strcmp(argv[1], "-s");
	struct sum all = { 0 };
	char name[64];

	for (int i = 1 + is_quiet; i < argc; i++)
		measure(argv[i], is_quiet, &all);
	snprintf(name, sizeof(name), "all %" PRIu64, all.files);
	print(name, &all);
	return all.rows == 0;
}
