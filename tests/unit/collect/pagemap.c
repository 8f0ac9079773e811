// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The pages of a process of known shape, read in both ways. */
#include "process/pagemap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 4096
#define ZEROS 50

static uint64_t bytes_of(const struct page_runs *runs)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < runs->run_nr; i++)
		bytes += runs->run[i].end - runs->run[i].start;
	return bytes;
}

static uint64_t rss_anon_of(pid_t pid)
{
	char path[32], line[128];
	uint64_t kib = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	while (status && !kib && fgets(line, sizeof(line), status))
		sscanf(line, "RssAnon: %" SCNu64, &kib);
	fclose(status);
	return kib * 1024;
}

/* Reads some pages, and writes others. */
static pid_t start_process(void)
{
	char *p = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int done[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(done), 0);
	pid = fork();
	if (pid) {
		cr_assert_eq(read(done[0], &byte, 1), 1);
		return pid;
	}
	madvise(p, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
	for (int i = 0; i < ZEROS; i++)
		byte = *(volatile char *)(p + i * PAGE_BYTES);
	for (int i = ZEROS; i < PAGES; i++)
		if (i * i % 7 < 3)
			p[i * PAGE_BYTES] = 1;
	if (write(done[1], "", 1) == 1)
		pause();
	_exit(0);
}

static uint64_t huge_bytes_of(const struct page_runs *runs)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < runs->run_nr; i++)
		bytes += runs->run[i].kind & PAGES_HUGE ? runs->run[i].end - runs->run[i].start : 0;
	return bytes;
}

/* Some pages beside huge ones, in mappings of their own. */
Test(pagemap, finds_huge_pages_in_both_ways)
{
	char *p = mmap(NULL, 8 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct page_runs runs = {}, by_words = {};
	int err;

	madvise(p, 8 * HUGE_BYTES, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < 6 * HUGE_BYTES; at += PAGE_BYTES)
		p[at] = 1;
	cr_assert_eq(page_runs_read(getpid(), &runs), 0);
	err = page_runs_read_pagemap(getpid(), &by_words);
	cr_assert(!err || err == -EFBIG);
	cr_expect(err || huge_bytes_of(&by_words) == huge_bytes_of(&runs), "%" PRIu64 ", not %" PRIu64, huge_bytes_of(&by_words),
		     huge_bytes_of(&runs));
	page_runs_release(&runs);
	page_runs_release(&by_words);
}

static bool is_in(const struct page_runs *runs, uint64_t address)
{
	for (size_t i = 0; i < runs->run_nr; i++)
		if (runs->run[i].start <= address && address < runs->run[i].end)
			return true;
	return false;
}

Test(pagemap, has_the_pages_of_rss_anon)
{
	struct page_runs runs = {}, by_words = {};
	pid_t pid = start_process();
	uint64_t anon;
	int err;

	do { /* it comes to rest */
		anon = rss_anon_of(pid);
		cr_assert_eq(page_runs_read(pid, &runs), 0);
		err = page_runs_read_pagemap(pid, &by_words);
		cr_assert(!err || err == -EFBIG); /* below a sanitizer */
	} while (anon != rss_anon_of(pid));
	if (!runs.counts_zero_pages) {
		cr_expect_eq(bytes_of(&runs), anon, "%" PRIu64 " bytes, RssAnon %" PRIu64 ", zeros %" PRIu64, bytes_of(&runs), anon, runs.zero_bytes);
		cr_expect(runs.zero_bytes >= ZEROS * PAGE_BYTES); /* a sanitizer reads more */
		cr_expect(err || bytes_of(&by_words) == anon + runs.zero_bytes);
	}
	for (size_t i = 0; i < runs.run_nr && !err; i++)
		for (uint64_t at = runs.run[i].start; at < runs.run[i].end; at += PAGE_BYTES)
			cr_expect(is_in(&by_words, at));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_expect_eq(page_runs_read(pid, &runs), -ESRCH);
	cr_expect_eq(runs.run_nr, 0);
	page_runs_release(&by_words);
}
