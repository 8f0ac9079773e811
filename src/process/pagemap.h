/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_PAGEMAP_H
#define ALLOCSNAP_PROCESS_PAGEMAP_H

/*
 * Which anonymous pages of a process are resident: the pages that RssAnon counts. The ioctl PAGEMAP_SCAN (Linux 6.7)
 * takes 7 ms for each resident GiB, reading /proc/PID/pagemap 20 ms for 3 GiB. Both hold the process's mmap lock for
 * reading, as smaps does (rss.h). Needs the privileges that /proc/PID/maps needs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE_BYTES UINT64_C(4096)
#define HUGE_BYTES (UINT64_C(2) << 20)

enum page_run_kind {
	PAGES_SWAPPED = 1, /* not resident */
	PAGES_HUGE = 2,	   /* one entry of the page table for HUGE_BYTES; before Linux 6.7 known by smaps, where that is sure */
	PAGES_NOT_ALONE = 4, /* of pagemap: another process may map them, too, or they are the page of zeros */
};

struct page_run {
	uint64_t start, end; /* addresses */
	uint32_t kind;	     /* bits of enum page_run_kind */
};

/* Sorted by address, without overlaps. Zeroed: none. */
struct page_runs {
	struct page_run *run;
	size_t run_nr, run_alloc;
	uint64_t zero_bytes;	/* the kernel's page of zeros: read, but never written; not in RSS, and in no run */
	bool counts_zero_pages; /* they cannot be told apart, and are in the runs */
};

/*
 * Replaces *ret. 0; -ESRCH: the process has no memory (any more); -EFBIG: it maps more than this kernel can list before
 * Linux 6.7; or another negative errno. Then *ret is empty.
 */
int page_runs_read(pid_t pid, struct page_runs *ret);

/* Whether the kernel's pages have PAGE_BYTES. Otherwise page_runs_read() would be wrong. */
bool pages_are_known(void);

/* Words of an open /proc/PID/pagemap for each PAGE_BYTES from an address on, whatever the kernel's pages have. 0 or -EIO. */
int read_page_words(int fd, uint64_t address, uint64_t *word, size_t nr);

/* The older way to read them, for tests. */
int page_runs_read_pagemap(pid_t pid, struct page_runs *ret);

void page_runs_release(struct page_runs *runs);

#endif
