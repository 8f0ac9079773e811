// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/rss.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define LOW ((char *)0x10000000) /* below the program */
#define AREA_BYTES (32ul << 20)
#define BEFORE_BYTES (16ul << 20)

static char *extend(bool by_break, size_t at, size_t bytes)
{
	char *area = LOW + (1 << 20) + at;

	if (by_break)
		area = sbrk(bytes);
	else if (mprotect(area, bytes, PROT_READ | PROT_WRITE))
		_exit(1);
	return area;
}

/* One mapping grows page by page, until its end or its parent's, above some small ones. */
static void grow(size_t below_nr, bool by_break)
{
	if (mmap(LOW, AREA_BYTES * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != LOW)
		_exit(1);
	for (size_t i = 0; i < below_nr; i++)
		mprotect(LOW + 2 * i * PAGE, PAGE, PROT_READ);
	memset(extend(by_break, 0, BEFORE_BYTES), 1, BEFORE_BYTES);
	for (size_t at = BEFORE_BYTES; at < AREA_BYTES; at += PAGE)
		*extend(by_break, at, PAGE) = 1;
	_exit(0);
}

static uint64_t peak_of(pid_t pid)
{
	char path[32], line[128];
	uint64_t kib = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "re");
	cr_assert(status);
	while (!kib && fgets(line, sizeof(line), status))
		sscanf(line, "VmHWM: %" SCNu64, &kib);
	fclose(status);
	return kib * 1024;
}

/* The kernel's own sum may lack some pages of each processor. */
static void expect_sums_below_peak(pid_t pid)
{
	struct rss rss = {};
	uint64_t peak;

	while (!waitpid(pid, NULL, WNOHANG)) {
		if (rss_read(pid, &rss) || !rss.is_close)
			continue;
		peak = peak_of(pid);
		cr_expect(!peak || rss_total(&rss) <= peak + (2 << 20), "%" PRIu64 " bytes, of %" PRIu64 " at most",
			  rss_total(&rss), peak);
	}
}

/* The kernel reads some mappings at a time: by the number of those below, the growing one is the last of them. */
Test(rss, counts_a_growing_mapping_once)
{
	for (size_t i = 0; i < 16; i++) {
		pid_t pid = fork();

		if (!pid)
			grow(i / 2, i % 2);
		expect_sums_below_peak(pid);
	}
}
