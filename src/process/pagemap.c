// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "process/proc.h"

void page_runs_release(struct page_runs *runs)
{
	free(runs->run);
	*runs = (struct page_runs){};
}

static int add_run(struct page_runs *runs, uint64_t start, uint64_t end, uint32_t kind)
{
	struct page_run *last = runs->run_nr ? &runs->run[runs->run_nr - 1] : NULL;
	const struct page_run run = { start, end, kind };

	if (!last || last->end != start || last->kind != kind)
		return array_push(runs, run, run);
	last->end = end;
	return 0;
}

static int open_pagemap(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? errno == ENOENT ? -ESRCH : -errno : fd;
}

bool pages_are_known(void)
{
	return sysconf(_SC_PAGESIZE) == PAGE_BYTES;
}

int read_page_words(int fd, uint64_t address, uint64_t *word, size_t nr)
{
	uint64_t bytes = sysconf(_SC_PAGESIZE), start = address & -PAGE_BYTES, first = start / bytes;
	ssize_t wanted = (nr ? (start + (nr - 1) * PAGE_BYTES) / bytes - first + 1 : 0) * sizeof(*word);

	if (pread(fd, word, wanted, first * sizeof(*word)) != wanted)
		return -EIO;
	for (size_t i = nr; i--;) /* from the end: a word is read before it is written over */
		word[i] = word[(start + i * PAGE_BYTES) / bytes - first];
	return 0;
}

/* ---- PAGEMAP_SCAN; include/uapi/linux/fs.h of 6.7 ---- */

#define IS_FILE (1 << 2) /* or shared memory */
#define IS_PRESENT (1 << 3)
#define IS_SWAPPED (1 << 4)
#define IS_PFNZERO (1 << 5)
#define IS_HUGE (1 << 6)

struct region {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN_IOCTL _IOWR('f', 16, struct scan)

#define REGIONS 4096
/*
 * The end of user memory, but for its last page: the power of two above the main thread's stack. The kernel puts the stacks
 * of programs at the end (47 bits on x86-64, mostly 48 on arm64), and refuses a scan that goes beyond it.
 */
static uint64_t addresses_end(void)
{
	return (UINT64_C(2) << (63 - __builtin_clzll(getauxval(AT_RANDOM)))) - PAGE_BYTES;
}

static int add_region(struct page_runs *runs, const struct region *region)
{
	uint32_t kind = (region->categories & IS_SWAPPED ? PAGES_SWAPPED : 0) |
			(region->categories & IS_HUGE ? PAGES_HUGE : 0);

	if (!(region->categories & IS_PFNZERO))
		return add_run(runs, region->start, region->end, kind);
	runs->zero_bytes += region->end - region->start;
	return 0;
}

/*
 * -ENOTTY: this kernel does not have it. walk_end is no help: after a walk to the end it is where the kernel's own buffer was
 * full last.
 */
static int scan_regions(int fd, struct page_runs *runs)
{
	struct region *region = calloc(REGIONS, sizeof(*region));
	struct scan scan = {
		.size = sizeof(scan), .end = addresses_end(), .vec = (uintptr_t)region, .vec_len = REGIONS,
		.category_inverted = IS_FILE, .category_mask = IS_FILE, .category_anyof_mask = IS_PRESENT | IS_SWAPPED,
		.return_mask = IS_PRESENT | IS_SWAPPED | IS_PFNZERO | IS_HUGE,
	};
	int err = region ? 0 : -ENOMEM, nr = REGIONS;

	while (!err && nr == REGIONS) {
		nr = ioctl(fd, PAGEMAP_SCAN_IOCTL, &scan);
		if (nr < 0)
			err = -errno;
		for (int i = 0; i < nr && !err; i++)
			err = add_region(runs, &region[i]);
		if (nr > 0)
			scan.start = region[nr - 1].end;
	}
	free(region);
	return err;
}

/* ---- a word for each page ---- */

#define WORDS 65536
#define WORD_PRESENT (UINT64_C(1) << 63)
#define WORD_SWAPPED (UINT64_C(1) << 62)
#define WORD_FILE (UINT64_C(1) << 61)
#define WORD_ALONE (UINT64_C(1) << 56)

static int add_page_word(struct page_runs *runs, uint64_t address, uint64_t word)
{
	if (!(word & (WORD_PRESENT | WORD_SWAPPED)) || word & WORD_FILE)
		return 0;
	return add_run(runs, address, address + PAGE_BYTES,
		       !(word & WORD_PRESENT) ? PAGES_SWAPPED : word & WORD_ALONE ? 0 : PAGES_NOT_ALONE);
}

static int read_mapping_words(int fd, const struct maps_line *line, uint64_t *word, struct page_runs *runs)
{
	uint64_t at = line->start;
	int err = 0;

	while (at < line->end && !err) {
		size_t nr = (line->end - at) / PAGE_BYTES;
		ssize_t got = pread(fd, word, (nr < WORDS ? nr : WORDS) * sizeof(*word), at / PAGE_BYTES * sizeof(*word));

		if (got < (ssize_t)sizeof(*word))
			return got < 0 ? -errno : 0;
		for (ssize_t i = 0; i < got / (ssize_t)sizeof(*word) && !err; i++, at += PAGE_BYTES)
			err = add_page_word(runs, at, word[i]);
	}
	return err;
}

/*
 * The page of zeros looks like a page that another process maps, too. If as many bytes look like this as are more than
 * RssAnon, all of them are the page of zeros.
 */
static void leave_zeros_out(pid_t pid, struct page_runs *runs)
{
	uint64_t resident = 0, not_alone = 0, anon_kib = 0;

	for (size_t i = 0; i < runs->run_nr; i++) {
		uint64_t bytes = runs->run[i].end - runs->run[i].start;

		resident += runs->run[i].kind & PAGES_SWAPPED ? 0 : bytes;
		not_alone += runs->run[i].kind & PAGES_NOT_ALONE ? bytes : 0;
	}
	runs->counts_zero_pages = proc_status(pid, "RssAnon", &anon_kib) || resident != anon_kib * 1024;
	if (runs->counts_zero_pages && resident == anon_kib * 1024 + not_alone) {
		array_keep(runs, run, i, !(runs->run[i].kind & PAGES_NOT_ALONE));
		runs->zero_bytes = not_alone;
		runs->counts_zero_pages = false;
	}
}

/* ---- huge pages, of which pagemap says nothing ---- */

/* Mappings of which each aligned huge page that is resident as a whole is one. */
struct huge_areas {
	struct page_run *area;
	size_t area_nr, area_alloc;
};

static uint64_t align_huge(uint64_t address)
{
	return (address + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

/* The bytes of whole aligned huge pages in a run, as far as they lie in a mapping. */
static uint64_t whole_bytes(const struct page_run *run, const struct maps_line *line)
{
	uint64_t start = align_huge(run->start > line->start ? run->start : line->start);
	uint64_t end = (run->end < line->end ? run->end : line->end) & ~(HUGE_BYTES - 1);

	return run->kind & PAGES_SWAPPED || start >= end ? 0 : end - start;
}

static int add_huge_area(const struct page_runs *runs, const struct maps_line *line, uint64_t huge, struct huge_areas *areas)
{
	const struct page_run area = { line->start, line->end, 0 };
	uint64_t whole = 0;

	for (size_t i = 0; i < runs->run_nr; i++)
		whole += whole_bytes(&runs->run[i], line);
	return whole && whole == huge ? array_push(areas, area, area) : 0;
}

static int find_huge_areas(pid_t pid, const struct page_runs *runs, struct huge_areas *areas)
{
	char *text = proc_text(pid, "smaps"), *rest = text, *one;
	struct maps_line line = {}, next;
	uint64_t kib;
	int err = text ? 0 : -ENOMEM;

	while (!err && (one = strsep(&rest, "\n"))) {
		if (maps_parse_line(one, &next))
			line = next;
		else if (sscanf(one, "AnonHugePages: %" SCNu64, &kib) == 1 && kib)
			err = add_huge_area(runs, &line, kib * 1024, areas);
	}
	free(text);
	return err;
}

static int add_pieces(struct page_runs *to, const struct page_run *run, const struct huge_areas *areas)
{
	int err = 0;

	for (uint64_t at = run->start, end; at < run->end && !err; at = end) {
		bool is_huge = !(at & (HUGE_BYTES - 1)) && run->end - at >= HUGE_BYTES && !(run->kind & PAGES_SWAPPED) &&
			       array_any(areas->area_nr, i, areas->area[i].start <= at && at + HUGE_BYTES <= areas->area[i].end);

		end = align_huge(at + 1) < run->end ? align_huge(at + 1) : run->end;
		err = add_run(to, at, end, run->kind | (is_huge ? PAGES_HUGE : 0));
	}
	return err;
}

/* smaps has the bytes in huge pages of each mapping: they are known where all that can be huge pages are. */
static int mark_huge(pid_t pid, struct page_runs *runs)
{
	struct page_runs marked = { .zero_bytes = runs->zero_bytes, .counts_zero_pages = runs->counts_zero_pages };
	const struct maps_line all = { .end = addresses_end() };
	struct huge_areas areas = {};
	int err = 0;

	if (array_any(runs->run_nr, i, whole_bytes(&runs->run[i], &all)))
		err = find_huge_areas(pid, runs, &areas);
	for (size_t i = 0; i < runs->run_nr && areas.area_nr && !err; i++)
		err = add_pieces(&marked, &runs->run[i], &areas);
	if (areas.area_nr && !err) {
		free(runs->run);
		*runs = marked;
	} else {
		free(marked.run);
	}
	free(areas.area);
	return err;
}

#define MAPPED_MOST (UINT64_C(256) << 30) /* a word for each page: half a GiB to read */

static int read_all_words(pid_t pid, int fd, struct page_runs *runs)
{
	uint64_t mapped = 0;
	uint64_t *word = calloc(WORDS, sizeof(*word));
	char *text = proc_text(pid, "maps"), *rest = text, *one;
	struct maps_line line;
	int err = word && text ? 0 : -ENOMEM;

	while (!err && (one = strsep(&rest, "\n")))
		if (maps_parse_line(one, &line) && line.end <= addresses_end()) {
			mapped += line.end - line.start;
			err = mapped > MAPPED_MOST ? -EFBIG : read_mapping_words(fd, &line, word, runs);
		}
	free(text);
	free(word);
	if (!err)
		leave_zeros_out(pid, runs);
	return err ?: mark_huge(pid, runs);
}

/* A process without memory has no pages, and one with memory has some. */
static int finish_runs(int fd, int err, struct page_runs *runs)
{
	close(fd);
	if (!err && !runs->run_nr)
		err = -ESRCH;
	if (err)
		page_runs_release(runs);
	return err;
}

int page_runs_read_pagemap(pid_t pid, struct page_runs *ret)
{
	int fd = open_pagemap(pid);

	page_runs_release(ret);
	return fd < 0 ? fd : finish_runs(fd, read_all_words(pid, fd, ret), ret);
}

int page_runs_read(pid_t pid, struct page_runs *ret)
{
	int fd = open_pagemap(pid), err;

	page_runs_release(ret);
	if (fd < 0)
		return fd;
	err = scan_regions(fd, ret);
	if (err != -ENOTTY)
		return finish_runs(fd, err, ret);
	close(fd);
	return page_runs_read_pagemap(pid, ret);
}
